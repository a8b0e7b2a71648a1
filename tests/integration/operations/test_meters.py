"""Numbers over time, signs of life, and what waits in queues: with a real Valkey, and with real workers."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, cast
from uuid import uuid4

import pytest
from celery import Celery
from flask import Flask
from prometheus_client.parser import text_string_to_metric_families

from jiyi import Client
from jiyi.protocol.operations import Tick
from jiyi.protocol.wire.broker import INTAKE_QUEUE, PUBLISHED_AT, stamp
from jiyi.settings import get_settings
from models.db import valkey_keys
from models.db.bounded_reads import SourceReading
from models.db.valkey import valkey
from models.memory import access
from models.operations import health_checks as health
from models.operations import meters, worker_liveness
from models.operations.meters import Meters
from models.operations.worker_liveness import Canary, Worker
from models.queue import broker_queues
from models.queue.broker_queues import redis_address, task_queues
from tests.integration.away import away
from tests.integration.conftest import SignIn
from tests.integration.memory.accesses import touch
from tests.integration.waiting import PATIENCE_SECONDS, until
from tests.services import intake_of_ones_own
from workers import beat

DEAD = "redis://127.0.0.1:1/0"


@pytest.fixture
def name(database: object) -> str:
    """Of a task, or a queue, that nobody else has."""
    return f"test-{uuid4().hex[:12]}"


@pytest.fixture
def own_meters(monkeypatch: pytest.MonkeyPatch, database: object) -> Iterator[Meters]:
    """Those of a process that delivers when it is told."""
    made = Meters()
    monkeypatch.setattr(made, "_begin", lambda: None)
    monkeypatch.setattr(meters, "_meters", made)
    yield made
    made.flush()


def test_numbers_of_several_processes_come_together(own_meters: Meters, name: str) -> None:
    meters.task(name, "done", 2.0, 0.5)
    meters.task(name, "failed", 4.0, None)
    own_meters.flush()
    meters.task(name, "done", 1.0, 1.5)
    own_meters.flush()
    found = meters.series(minutes=3)["tasks"][name]
    assert (sum(found["done"]), sum(found["failed"]), sum(found["retried"])) == (2, 1, 0)
    assert max(seconds for seconds in found["seconds_max"] if seconds is not None) == 4
    assert max(seconds for seconds in found["wait_max"] if seconds is not None) == 1.5
    if sum(1 for seconds in found["seconds"] if seconds is not None) == 1:  # no minute has ended in between
        assert [seconds for seconds in found["seconds"] if seconds is not None] == [pytest.approx(7 / 3)]
        assert [seconds for seconds in found["wait"] if seconds is not None] == [1.0]
    assert meters.totals()[f"task|{name}|done"] == 2


def test_coarser_steps_hold_the_same(own_meters: Meters, name: str) -> None:
    now = int(time.time() // 60)
    for minutes_ago, count in ((0, 1), (1, 2), (7, 4), (1_300, 8)):
        valkey().hset(valkey_keys.meters(now - minutes_ago), f"task|{name}|done", count)
        valkey().expire(valkey_keys.meters(now - minutes_ago), 120)
    for minutes, step, total in ((10, 1, 7), (10, 5, 7), (1_440, 30, 15), (999_999, 60, 15)):
        found, kept = meters.series(minutes, step), min(minutes, meters.MAX_MINUTES)
        assert sum(found["tasks"][name]["done"]) == total, (minutes, step)
        assert found["step_seconds"] == step * 60
        assert all(moment % (step * 60) == 0 for moment in found["times"])
        columns = [
            found["events"],
            found["done"],
            *found["tasks"][name].values(),
            *found["retrieval_ms"].values(),
        ]
        assert {len(column) for column in columns} == {len(found["times"])}
        assert found["times"][0] <= time.time() - 60 * (kept - 1)
        assert found["times"][-1] <= time.time()
        assert len(found["times"]) * step <= kept + 2 * step


def test_what_valkey_did_not_take_is_delivered_later_once_and_minutes_are_forgotten_after_a_day(
    own_meters: Meters, name: str
) -> None:
    meters.add("work", name, "done", number=5)
    with away("valkey"):
        own_meters.try_flush()
        own_meters.try_flush()
    own_meters.flush()
    own_meters.flush()
    assert meters.totals()[f"work|{name}|done"] == 5
    minute = next(
        minute
        for minute in (int(time.time() // 60), int(time.time() // 60) - 1)
        if valkey().exists(valkey_keys.meters(minute))
    )
    assert 0 < valkey().ttl(valkey_keys.meters(minute)) <= meters.KEPT_SECONDS
    assert valkey().ttl(valkey_keys.METERS_TOTAL) == -1


def test_workers_count_what_they_do(client: Client) -> None:
    def counted() -> tuple[float, float, float]:
        found = meters.totals()
        return (
            found.get("events", 0),
            found.get("retrieval|n", 0),
            found.get("task|retrieval.retrieve|done", 0),
        )

    before = counted()
    client.observe("Ada", "Ada counts the swifts", wait=True)
    client.retrieve("Ada", "swifts")
    until(
        lambda: all(now > was for now, was in zip(counted(), before, strict=True)), what="nothing was counted"
    )
    found = meters.series(5)
    assert any(ms is not None and ms > 0 for ms in found["retrieval_ms"]["p50"])
    waits = [seconds for seconds in found["tasks"]["retrieval.retrieve"]["wait_max"] if seconds is not None]
    assert waits, "the client said when it sent the request"
    assert max(waits) < PATIENCE_SECONDS
    assert worker_liveness.TASK not in found["tasks"]


def test_every_queue_s_canary_is_run_and_beat_lives(service: str) -> None:
    until(
        lambda: all(canary.ran_at for canary in worker_liveness.read_canaries(task_queues())),
        what="a queue is silent",
    )
    for canary in worker_liveness.read_canaries(task_queues()):
        assert canary.age is not None and canary.age < PATIENCE_SECONDS
        assert canary.waited is not None
    age = worker_liveness.beat_age()
    assert age is not None and age < PATIENCE_SECONDS
    address, settings = redis_address(get_settings().broker_url), get_settings()
    assert address
    assert worker_liveness.intake_ages(address, INTAKE_QUEUE, settings.intake_redelivery_seconds)
    assert worker_liveness.intake_ages(address, "no such queue", 30) == []


def test_a_queue_that_nobody_reads_gathers_few_canaries(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time()
    # the steps below are all the time that passes
    monkeypatch.setattr(worker_liveness, "time", SimpleNamespace(time=lambda: now))
    (unknown,) = worker_liveness.read_canaries([name])
    assert (unknown.sent_at, unknown.ran_at, unknown.age, unknown.outstanding) == (None, None, None, 0)
    assert worker_liveness.due(name)
    assert not worker_liveness.due(name)  # a second beat, or the next look

    def later(seconds: float) -> bool:
        sent = float(valkey().hget(valkey_keys.canary(name), "sent") or 0)
        valkey().hset(valkey_keys.canary(name), "sent", sent - seconds)
        return worker_liveness.due(name)

    pauses = [next(pause for pause in range(1, 1_000, 3) if later(3)) for _ in range(9)]
    for shorter, longer in pairwise(pauses):
        assert longer >= shorter
    assert pauses[0] <= worker_liveness.CANARY_EVERY
    assert worker_liveness.LAST_PAUSE * 0.8 <= pauses[-1] <= worker_liveness.LAST_PAUSE
    (silent,) = worker_liveness.read_canaries([name])
    assert (silent.outstanding, silent.age) == (10, None)
    assert silent.sent_at is not None
    worker_liveness.record_canary(name, silent.sent_at)
    (alive,) = worker_liveness.read_canaries([name])
    assert (alive.outstanding, alive.waited is not None) == (0, True)
    assert later(worker_liveness.CANARY_EVERY)


def test_beat_goes_on_without_valkey_or_broker(name: str, caplog: pytest.LogCaptureFixture) -> None:
    with Celery("test-beat", broker=DEAD, set_as_current=False) as app:
        app.conf.task_publish_retry = False
        scheduler = beat.CanaryScheduler(app, lazy=True)
        entry = scheduler.Entry(name="a canary", task=worker_liveness.TASK, args=(name,), app=app)
        with away("valkey"):
            scheduler.apply_entry(entry)
        scheduler.apply_entry(entry)
    told = [record.message.partition(":")[0] for record in caplog.records if record.name == "jiyi.beat"]
    assert told == [f"no canary for {name}"] * 2
    assert entry.args == (name,)


@pytest.fixture
def send(name: str) -> Iterator[Callable[..., None]]:
    """Sends a task to the queue ``name``."""
    app = Celery("test", broker=get_settings().broker_url, set_as_current=False)
    app.conf.task_create_missing_queues = True
    yield lambda task, *arguments, **options: app.send_task(
        task, args=arguments, queue=name, ignore_result=True, **options
    )
    app.close()
    valkey().delete(name)


def test_a_look_into_a_queue_is_bounded_and_tells_what_waits_but_not_what_it_says(send, name):
    address = redis_address(get_settings().broker_url)
    assert address
    assert broker_queues.contents(address, name) == broker_queues.QueueContents(0)
    send(
        "work.embed",
        'words of a "tenant" {"task": "other", "id": "x", "published_at": 5}',
        headers=stamp(),
        task_id="the-first",
    )
    for n in range(120):
        send(
            "retrieval.retrieve",
            {"focal": "words of a tenant", "task": "spoofed"},
            task_id=f"id-{n}",
            headers={PUBLISHED_AT: None},
        )
    send("work.embed", "words", headers=stamp())
    found = broker_queues.contents(address, name)
    assert (found.waiting, found.scanned) == (122, 122)
    assert found.by_name == {"retrieval.retrieve": 120, "work.embed": 2}
    assert [message.place for message in found.first] == list(range(50))
    assert [message.place for message in found.last] == list(range(121, 71, -1))
    assert (found.first[0].name, found.first[0].id) == ("work.embed", "the-first")
    assert 0 <= (found.first[0].age_seconds or -1) < PATIENCE_SECONDS
    assert found.oldest_seconds is not None
    assert found.first[1].age_seconds is None  # who does not say when it was sent
    assert all(message.bytes > 100 for message in found.first)
    assert "words" not in repr(found)
    assert "spoofed" not in repr(found)
    oldest = broker_queues.oldest(address, [name, "an empty queue"])
    assert (oldest[name] is None, oldest["an empty queue"]) == (False, None)
    for message, count in ("x", broker_queues.SCANNED + 1), ("x" * (broker_queues.SCANNED_BYTES // 4), 9):
        valkey().delete(name)
        send("work.embed", message)
        valkey().lpush(name, *valkey().lrange(name, 0, 0) * (count - 1))
        found = broker_queues.contents(address, name)
        assert found.waiting == count
        assert found.scanned == broker_queues.SCANNED if count > 9 else 1 < found.scanned < 9
    valkey().delete(name)
    valkey().lpush(name, b"\xff\x00 no message of ours" * 3)
    (strange,) = broker_queues.contents(address, name).first
    assert (strange.name, strange.id, strange.age_seconds) == ("?", None, None)


def test_events_in_the_intakes_queue_are_told_by_their_type(name: str) -> None:
    address = redis_address(get_settings().broker_url)
    assert address
    with intake_of_ones_own(name):
        with Client("of-nobody") as client:
            client.observe("Ada", "words of a tenant")
        (message,) = broker_queues.contents(address, name).first
    assert message.name == "memory.observed"
    assert message.age_seconds is not None
    valkey().delete(name)


def numbers(text: str) -> dict[tuple[str, tuple[str, ...]], float]:
    return {
        (sample.name, tuple(sorted(sample.labels.values()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_prometheus_reads_the_whole_service(web_app, api_key, send, name, group, own_meters):
    meters.retrieved(0.004)
    meters.retrieved(99.0)
    meters.task(name, "failed", 1.5, 0.25)
    own_meters.flush()
    operator = {"Authorization": f"Bearer {api_key(None, 'operator')}"}
    answer = web_app.test_client().get("/metrics", headers=operator)
    assert answer.status_code == 200
    assert answer.content_type.startswith("text/plain")
    found = numbers(answer.text)
    for source in ("database", "broker", "valkey"):
        assert found["jiyi_up", (source,)] == 1
    for queue in [INTAKE_QUEUE, *task_queues()]:
        assert ("jiyi_queue_messages", (queue,)) in found
    assert found["jiyi_tasks_total", ("failed", name)] == 1
    assert found["jiyi_task_seconds_total", (name,)] == 1.5
    assert found["jiyi_retrieval_seconds_bucket", ("0.005",)] >= 1
    assert found["jiyi_retrieval_seconds_bucket", ("+Inf",)] == found["jiyi_retrieval_seconds_count", ()] >= 2
    assert (
        found["jiyi_retrieval_seconds_bucket", ("10.0",)] < found["jiyi_retrieval_seconds_bucket", ("+Inf",)]
    )
    assert ("jiyi_dead_letters_open", ()) in found
    assert group not in answer.text
    for key, status in (("", 401), ("jiyi_x", 401), (api_key(group, "read", "admin"), 403)):
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        assert web_app.test_client().get("/metrics", headers=headers).status_code == status, key


def test_14_prometheus_reads_how_many_access_times_were_written_and_coalesced(web_app, api_key, database):
    operator = {"Authorization": f"Bearer {api_key(None, 'operator')}"}
    names = ("jiyi_access_updates_total", "jiyi_access_coalesced_total")

    def counted() -> list[float]:
        found = numbers(web_app.test_client().get("/metrics", headers=operator).text)
        return [found[name, ()] for name in names]

    access.flush()  # what is left of other tests
    before = counted()
    group, pair = f"meters-{uuid4().hex}", [uuid4(), uuid4()]
    touch(group, pair, 1.0)
    touch(group, pair[:1], 2.0)
    access.flush()
    until(lambda: sum(counted()) == sum(before) + 3, what="an access is missing")
    assert counted()[0] - before[0] in (2, 3)  # a service beside this test may have flushed in between


def test_parts_that_do_not_answer_are_left_out_and_counted(web_app, api_key):
    operator = {"Authorization": f"Bearer {api_key(None, 'operator')}"}
    client = web_app.test_client()
    assert client.get("/metrics", headers=operator).status_code == 200  # the key is known from now on
    with away("broker"):
        first, second = (numbers(client.get("/metrics", headers=operator).text) for _ in range(2))
    failures = [found["jiyi_scrape_failures_total", ("broker",)] for found in (first, second)]
    assert failures[1] == failures[0] + 1
    assert (second["jiyi_up", ("broker",)], second["jiyi_up", ("database",)]) == (0, 1)
    assert not any(metric == "jiyi_queue_messages" for metric, _ in second)
    assert ("jiyi_dead_letters_open", ()) in second


def test_busy_or_unknown_is_not_down_and_a_late_job_is_not_blamed_on_a_beat_that_runs(web_app: Flask) -> None:
    now, nobody = time.time(), cast("SourceReading[list[Worker]]", SourceReading(None, "no answer"))
    long_ago = {health.PULSE: Tick(job=health.PULSE, slot=datetime(2026, 1, 1, tzinfo=UTC), state="done")}
    with web_app.test_request_context():
        assert health.workers(nobody, {}).state == "unknown"
        for queue, seconds, outstanding, state in (
            ("embedding", 5, 0, "ok"),
            ("embedding", 130, 3, "unknown"),  # it may be at work
            ("embedding", 1_000, 7, "attention"),
            ("reflection", 800, 7, "unknown"),  # a reflection takes long
            ("embedding", 1_000, 0, "unknown"),  # beat sends none: that says nothing about the worker
        ):
            sung = {name: Canary(name, now, now, 0.0) for name in task_queues()}
            sung[queue] = Canary(queue, now, now - seconds, 0.0, outstanding)
            check = health.workers(nobody, sung)
            assert check.state == state, (queue, seconds)
            if state == "attention":
                assert queue in check.detail
                assert "upkeep" not in check.detail
        unknown, alive = (health.schedule(get_settings(), long_ago, "", age) for age in (None, 5.0))
    assert (unknown.state, alive.state) == ("attention", "attention")
    assert "is beat running" in unknown.detail
    assert "though beat runs" in alive.detail


@pytest.mark.long
def test_a_worker_that_is_stopped_is_red_until_it_goes_on(service: str, sign_in: SignIn) -> None:
    """SIGSTOP: the process is there, and does nothing. While it is idle but lives, all is well."""
    browser, queue = sign_in("operator"), "embedding"

    def state() -> str:
        found = browser.get("/overview.json", query_string={"group": service}).json
        return str(next(check["state"] for check in found["checks"] if check["name"] == "Workers"))

    def of_queue() -> dict[str, Any]:
        found = browser.get("/work.json", query_string={"group": service}).json["queues"]
        return next(one for one in found if one["queue"] == queue)

    until(lambda: state() == "ok", what="a queue is not read")
    pids = [
        int(one.worker_id.rpartition(":")[2])
        for one in worker_liveness.workers()
        if queue in one.queues and one.counts
    ]
    try:
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        Client(service).observe("Ada", "Ada waits for the swifts")
        until(lambda: of_queue()["state"] == "unreachable", what="a stopped worker counts as alive")
        assert state() == "unreachable"
        overview = browser.get("/", query_string={"group": service}).text
        # the worker of the tests has the other queues, too
        assert re.search(r"nobody reads [^:]*\bembedding\b", overview)
        assert "All is well" not in overview
        assert "nobody, for" in browser.get("/work", query_string={"group": service}).text
        until(lambda: of_queue()["oldest_seconds"] is not None, what="no message waits")
        page = browser.get(f"/queues/{queue}", query_string={"group": service}).text
        assert "Nobody reads this queue" in page
        assert "The oldest message waits for" in page
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
    until(
        lambda: (of_queue()["state"], state()) == ("ok", "ok"), what="it went on, and does not count as alive"
    )
    assert "It is read" in browser.get(f"/queues/{queue}", query_string={"group": service}).text


def test_a_task_that_waits_for_its_time_is_not_in_flight(group: str) -> None:
    """As kombu keeps what a worker holds: a message with an ``eta``, delivered a while ago."""
    address = redis_address(get_settings().broker_url) or ""
    client = broker_queues.broker_client(address)
    before = broker_queues.depths(address, []).tasks
    message = kombu_message(datetime.now(UTC) + timedelta(hours=1))
    client.hset(broker_queues.UNACKED, group, message)
    client.zadd(broker_queues.UNACKED_INDEX, {group: time.time() - 240})
    try:
        after = broker_queues.depths(address, []).tasks
        assert (after.count, after.later) == (before.count, before.later + 1)
        assert after.oldest_seconds is None or after.oldest_seconds < 200
    finally:
        client.hdel(broker_queues.UNACKED, group)
        client.zrem(broker_queues.UNACKED_INDEX, group)


def kombu_message(eta: datetime) -> str:
    """What kombu's Redis transport keeps of a task until it is acknowledged."""
    with Celery("test", broker="memory://", set_as_current=False) as app, app.connection() as connection:
        channel = connection.channel()
        task = app.amqp.as_task_v2("id", "wake.embed", eta=eta)
        body, content_type, encoding, headers = (
            json.dumps(task.body),
            "application/json",
            "utf-8",
            task.headers,
        )
        properties = {"delivery_info": {"exchange": "", "routing_key": "embedding"}, "delivery_tag": "t"}
        made = channel.prepare_message(body, 0, content_type, encoding, headers, properties)
        return json.dumps([made, "", "embedding"])
