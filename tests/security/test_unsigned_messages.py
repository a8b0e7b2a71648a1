"""Whoever reaches the broker sends tasks of ours without a signature: they silence no job, and make nothing
look alive.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from importlib import import_module
from typing import Any

import pytest
from celery import current_app
from sqlalchemy import text

from engine.operations import JOBS
from jiyi.polling import poll
from models.db.connection import unit_of_work
from models.db.valkey import valkey
from models.db.valkey_keys import canary as canary_key
from models.operations import worker_liveness
from models.queue.broker_queues import task_queues
from models.queue.wakeups import service_headers
from tasks.framework import jobs
from tests.integration.actions.calling import headers_of, register_tasks, service
from tests.integration.memory.test_inbox import rows
from workers.embedded.stack import Stack
from workers.ephemeral import environment, processes

pytestmark = pytest.mark.usefixtures("database")

#: Seconds that a busy machine may take to start one worker.
PATIENCE = 120.0
#: Of the broker's databases, one that running workers do not read.
OWN_DATABASE = 11


@pytest.fixture(autouse=True)
def _tasks(database: object) -> None:
    register_tasks()


def deliver(
    task: str, *args: Any, headers: dict[str, str] | None = None, queue: str = "upkeep", **kwargs: Any
) -> None:
    """Run a task as a worker does with a message of the queue."""
    found = current_app.tasks[task]
    found.push_request(args=args, kwargs=kwargs, delivery_info={"routing_key": queue}, **(headers or {}))
    try:
        found.run(*args, **kwargs)
    finally:
        found.pop_request()


def test_a_job_with_arguments_is_not_run_and_takes_no_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[Any] = []
    for name in JOBS:
        monkeypatch.setitem(jobs.FUNCTIONS, name, ran.append)
    before = rows("SELECT count(*) FROM job_ticks")
    for job in JOBS.values():
        deliver(job.task, group_id="nobody")
        deliver(job.task, None, "nobody")
        for slot in ("2026-03-01T08:00:00+00:00", "no time"):
            deliver(job.task, slot=slot)
            deliver(job.task, slot)
    assert ran == []
    assert rows("SELECT count(*) FROM job_ticks") == before


@pytest.fixture
def whose(monkeypatch: pytest.MonkeyPatch) -> list[str | None]:
    """For which groups the scan of what is due has run."""
    ran: list[str | None] = []
    monkeypatch.setitem(jobs.FUNCTIONS, "due_scan", lambda run: ran.append(run.group_id))
    return ran


def test_the_scan_that_a_stranger_asked_for_of_nobody_still_runs_for_everybody(
    whose: list[str | None],
) -> None:
    job = JOBS["due_scan"]
    with unit_of_work() as connection:
        connection.execute(text("DELETE FROM job_ticks WHERE job = :job"), {"job": job.name})
    deliver(job.task, group_id="nobody")
    deliver(job.task)  # beat's
    assert whose == [None]


def test_one_for_a_group_that_the_service_signed_runs(whose: list[str | None], group: str) -> None:
    job = JOBS["due_scan"]
    slot = (datetime.now(UTC) - timedelta(seconds=1)).isoformat()
    deliver(job.task, slot, group, headers=headers_of(service(), job.task, [slot, group], {}))
    assert whose == [group]


def test_a_canary_counts_for_the_queue_that_it_came_through_and_no_other() -> None:
    some, other = task_queues()[:2]
    for queue in (some, other, "no such queue"):
        valkey().delete(canary_key(queue))
    deliver(worker_liveness.TASK, other, time.time(), queue=some)
    deliver(worker_liveness.TASK, "no such queue", time.time(), queue="no such queue")
    assert not valkey().exists(canary_key(other), canary_key("no such queue"))
    for sent_at in (0.0, time.time() + 1e9, float("nan"), float("-inf")):
        deliver(worker_liveness.TASK, some, sent_at, queue=some)
        (found,) = worker_liveness.read_canaries([some])
        assert (found.waited or 0) < 60


def test_no_task_of_celery_s_own_is_there_to_be_sent() -> None:
    """``celery.map`` and others run any task with any arguments; ``celery.chord_unlock`` tries itself again
    without end.
    """
    app = import_module("workers.app").app
    app.finalize(auto=True)
    assert [name for name in app.tasks if name.startswith("celery.")] == []


def test_over_the_broker_neither_arguments_nor_celery_s_own_tasks_take_a_slot(database: Stack) -> None:
    """The messages as an attacker sends them, to a real worker: the service's own, which is sent last, comes
    after them.
    """
    due_scan, reconcile = JOBS["due_scan"], JOBS["reconcile"]
    assert database.urls is not None
    # where no other test has left messages
    broker = f"{database.urls.broker_url.partition('?')[0]}?virtual_host={OWN_DATABASE}"
    began = datetime.now(UTC)
    own = [began.isoformat()]
    with current_app.connection_for_write(broker) as connection:

        def send(task: str, queue: str, **sent: Any) -> None:
            current_app.send_task(task, queue=queue, connection=connection, **sent)

        for job in (due_scan, reconcile):
            for _ in range(20):
                send(job.task, job.queue, kwargs={"group_id": "nobody"})
                several = {"task": {"task": job.task}, "it": [[None, "nobody"]]}
                send("celery.starmap", job.queue, kwargs=several)
        headers = service_headers(reconcile.task, own)
        send(reconcile.task, reconcile.queue, args=own, headers=headers)
    with environment(broker_url=broker), processes(database.log_dir, ["upkeep"]) as started:
        found = poll(lambda: ended(began) or started["upkeep"].poll() is not None, bool, PATIENCE)
    assert isinstance(found, list), "the worker ended, or did not come to the service's own run"
    assert ended(began) == [{"state": "done"}]
    # A run for one group has no counts of the whole service: all that began since then have.
    ticks = rows(
        "SELECT summary FROM job_ticks WHERE job = 'reconcile' AND started_at >= :began AND state = 'done'",
        began=began,
    )
    assert all("retrievals_written" in tick["summary"] for tick in ticks)  # type: ignore[operator]


def ended(slot: datetime) -> list[dict[str, object]]:
    """How the run of the slot ended, if it has."""
    sql = "SELECT state FROM job_ticks WHERE job = 'reconcile' AND slot = :slot AND state <> 'running'"
    return rows(sql, slot=slot)
