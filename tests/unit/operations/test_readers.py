"""Whether queues are read: a stopped worker is seen within seconds, an idle one is well."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import cast

import pytest

from jiyi.protocol.operations import WorkerMode
from models.db.bounded_reads import SourceReading
from models.operations import health_checks as checks
from models.operations.health_checks import STOPPED_SECONDS
from models.operations.worker_liveness import Canary, Worker, WorkerReport
from models.queue import broker_queues
from models.queue.broker_queues import in_flight, task_queues

QUEUE = "embedding"


def worker(silent: float, *queues: str) -> Worker:
    return Worker("here:1", "embedding@here", queues or (QUEUE,), silent)


def canary(age: float, outstanding: int = 0) -> Callable[[], Canary]:
    """Made when the test runs: it is as old as it says however long the tests before it took."""
    return lambda: Canary(QUEUE, time.time(), time.time() - age, 0.1, outstanding)


@pytest.mark.parametrize(
    ("workers", "sung", "state"),
    [
        ([worker(1)], None, "ok"),
        ([worker(1)], canary(100), "ok"),  # idle or at work, and alive
        ([worker(1)], canary(300, 3), "attention"),  # alive, and deaf
        ([worker(STOPPED_SECONDS + 1)], None, "unreachable"),
        ([worker(STOPPED_SECONDS + 1)], canary(STOPPED_SECONDS + 5), "unreachable"),
        ([worker(900), worker(1)], None, "ok"),  # the one before it was restarted
        ([], canary(5), "ok"),
        ([], canary(60), "unreachable"),  # it ended in good order, and no other has come
        ([worker(1, "upkeep")], canary(60), "unreachable"),
        ([], None, "unknown"),  # starting
        (None, None, "unknown"),
        (None, canary(60), "ok"),  # heartbeats are not known
    ],
)
def test_a_queue_is_as_well_as_its_readers(workers, sung, state):
    assert checks.reader(QUEUE, workers, sung() if sung else None).state == state


@pytest.mark.parametrize(
    ("living", "waiting", "oldest", "state"),
    [
        ([1.0], 0, None, "ok"),
        ([1.0], 50, 90.0, "ok"),
        ([20.0, 3.0], 5, 90.0, "ok"),
        ([20.0], 0, None, "unreachable"),
        ([], 5, 90.0, "unreachable"),
        ([], 5, 1.0, "unknown"),
        ([], 0, None, "unknown"),
        (None, None, None, "unknown"),
    ],
)
def test_the_intake_is_as_well_as_its_readers(living, waiting, oldest, state):
    assert checks.intake_reader("memory.intake", living, waiting, oldest).state == state


def test_a_stopped_worker_is_shown_with_the_age_of_its_oldest_message() -> None:
    found = [worker(18), worker(1, *(queue for queue in task_queues() if queue != QUEUE))]
    check = checks.workers(SourceReading(found, ""), {}, {QUEUE: 130.0, "upkeep": 900.0})
    assert check.state == "unreachable"
    sentence = "its worker has been silent for 18 s, the oldest message waits for 2 min"
    assert str(check.detail) == f"nobody reads embedding: {sentence}"


def test_a_worker_that_an_operator_stopped_is_shown_as_such_however_long_ago_its_process_ended() -> None:
    others = worker(1, *(queue for queue in task_queues() if queue != QUEUE))
    for mode, silent, ended in (("stopped", 120.0, True), ("stopped", 1.0, False), ("paused", 1.0, False)):
        wish = replace(WorkerReport(), wished_by="user:mia", wished_at=1_767_240_000.0)
        said = replace(wish, mode=cast("WorkerMode", mode), ended=ended)
        held = Worker("here:2", "embedding@here", (QUEUE,), silent, said)
        check = checks.workers(SourceReading([held, others], ""), {}, {QUEUE: 130.0})
        detail = f"{mode} by mia (2026-01-01 04:00 UTC): embedding. Resume it on the page of workers"
        assert (check.state, str(check.detail)) == ("attention", detail)


def test_what_is_kept_for_later_is_not_in_flight() -> None:
    now = time.time()

    def held(seconds_ago: float, due_in: float) -> tuple[bytes, bytes]:
        due = datetime.fromtimestamp(now, UTC) + timedelta(seconds=due_in)
        return str(now - seconds_ago).encode(), due.isoformat().encode()

    assert in_flight(0, []) == broker_queues.InFlight(0, None)
    assert in_flight(2, [held(240, 600), held(240, 3_600)]) == broker_queues.InFlight(0, None, later=2)
    busy = in_flight(3, [held(240, 600), held(240, -5), (str(now - 2).encode(), b"")])
    assert (busy.count, busy.later) == (2, 1)
    assert 5 <= (busy.oldest_seconds or 0) < 200
