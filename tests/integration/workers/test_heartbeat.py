"""Workers say that they live, and carry out orders; nobody can order them by broadcast."""

from __future__ import annotations

import time
from uuid import uuid4

from celery import current_app

from jiyi import Client
from models.db import valkey_keys
from models.db.valkey import valkey
from models.erasure import cache_invalidation
from models.operations import worker_liveness
from models.queue.broker_queues import task_queues
from tests.integration.waiting import until
from workers.embedded.stack import Stack
from workers.worker_setup import WorkerHeartbeat


def test_a_broadcast_of_shutdown_reaches_nobody(client: Client) -> None:
    """Seven of them ended the service: remote control was on, and a clean exit counted as a crash."""
    counting = lambda: [worker for worker in worker_liveness.workers() if worker.counts]
    # some are just starting
    until(lambda: {queue for worker in counting() for queue in worker.queues} == set(task_queues()))
    before = {worker.worker_id for worker in counting()}
    for _ in range(7):
        current_app.control.broadcast("shutdown")
        assert current_app.control.ping(timeout=0.2) == []
    client.observe("klaus", "still there", wait=True)
    later = time.time()

    def seen_since() -> set[str]:
        since = time.time() - later
        return {one.worker_id for one in worker_liveness.workers() if one.seen_seconds_ago < since}

    until(lambda: seen_since() >= before)


def test_a_heartbeat_ends_with_its_worker_and_what_is_long_silent_is_forgotten(database, monkeypatch):
    monkeypatch.setattr(worker_liveness, "HEARTBEAT_EVERY", 0.05)
    name = f"test-{uuid4().hex[:8]}"

    def listed() -> list[worker_liveness.Worker]:
        return [worker for worker in worker_liveness.workers() if worker.name == name]

    heartbeat = WorkerHeartbeat(name, ["upkeep"])
    heartbeat.start()
    until(listed)
    assert listed()[0].queues == ("upkeep",)
    heartbeat.stop()
    assert not listed()
    worker_liveness.record_heartbeat("elsewhere:1", name, [])
    valkey().hset(valkey_keys.WORKERS, "elsewhere:2", "of another version")
    monkeypatch.setattr(worker_liveness, "FORGOTTEN_AFTER", -1.0)
    assert not worker_liveness.workers()
    assert not valkey().hexists(valkey_keys.WORKERS, "elsewhere:1")


def test_an_order_is_carried_out_once_by_each_worker_and_leaves_nothing(database: Stack) -> None:
    done: list[tuple[str, list[str]]] = []

    def forget(group_id: str, agents: list[str]) -> dict[str, int]:
        done.append((group_id, agents))
        return {"indexes": len(agents)}

    group = f"test-{uuid4().hex[:8]}"
    order = cache_invalidation.give(group, {"b", "a"})
    known: set[str] = set()
    for _ in range(2):
        known = cache_invalidation.carry_out("w:1", known, forget)
    cache_invalidation.carry_out("w:2", set(), forget)
    assert [told for told in done if told[0] == group] == [(group, ["a", "b"])] * 2
    assert cache_invalidation.answers(order) == {"w:1": {"indexes": 2}, "w:2": {"indexes": 2}}
    cache_invalidation.withdraw(order)
    assert cache_invalidation.answers(order) == {}
    assert order not in cache_invalidation.carry_out("w:1", known, forget)
