"""A paused worker takes nothing, a stopped one ends once, and an unsigned wish is none."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from jiyi.protocol.operations import WorkerMode
from jiyi.settings import Settings
from models.db.bounded_reads import SourceUnavailable
from models.operations import worker_actions
from models.operations.worker_actions import DesiredState, find_desired_state, write_desired_state
from workers import worker_setup
from workers.worker_setup import HELD, Modes

Later = Callable[[float], None]
WORKER = "upkeep@here"


class Consumer:
    """Celery's, as far as it is used."""

    hostname = WORKER

    def __init__(self) -> None:
        self.reads = {"upkeep"}
        queues = SimpleNamespace(consume_from=["upkeep"], select=lambda _names: None)
        self.app = SimpleNamespace(amqp=SimpleNamespace(queues=queues))
        self.add_task_queue, self.cancel_task_queue = self.reads.add, self.reads.discard

    def call_soon(self, change: Any, queue: str) -> None:
        change(queue)


class Process(Modes):
    """A worker whose end is noted."""

    def __init__(self) -> None:
        HELD.clear()
        super().__init__(Consumer())
        self.ends = 0

    @property
    def reads(self) -> set[str]:
        return self._consumer.reads  # type: ignore[no-any-return]

    def _end(self) -> None:
        self.ending = True
        self.ends += 1


@pytest.fixture
def kept(configure: Callable[..., Settings], monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, bytes]]:
    """What Valkey has."""
    configure(secret_key="s" * 32)
    store: dict[str, bytes] = {}
    valkey = SimpleNamespace(set=lambda key, text, ex: store.update({key: text.encode()}), get=store.get)
    monkeypatch.setattr(worker_actions, "valkey", lambda: valkey)
    yield store
    HELD.clear()


@pytest.fixture
def audit_log(monkeypatch: pytest.MonkeyPatch) -> list[DesiredState]:
    """The latest wish that it knows; empty while the database is away."""
    known: list[DesiredState] = []

    def ask(_question: Any) -> DesiredState:
        if not known:
            raise SourceUnavailable("database", "away")
        return known[-1]

    monkeypatch.setattr(worker_setup, "from_database", ask)
    return known


def test_a_paused_worker_takes_nothing_until_it_is_resumed_and_an_old_wish_that_is_written_back_is_none(
    kept: dict[str, bytes],
) -> None:
    worker = Process()
    assert worker.follow(busy=True) == "running"
    write_desired_state(WORKER, "paused")
    assert (worker.follow(busy=False), worker.reads) == ("paused", set())
    paused = dict(kept)
    write_desired_state(WORKER, "running")
    assert (worker.follow(busy=False), worker.reads) == ("running", {"upkeep"})
    for again in ({}, paused):
        kept.clear()
        kept.update(again)
        assert (worker.follow(busy=False), worker.reads) == ("running", {"upkeep"})
    write_desired_state(WORKER, "paused")
    assert worker.follow(busy=False) == "paused"
    assert not worker.ends


@pytest.mark.usefixtures("kept")
def test_a_fresh_worker_does_not_believe_a_wish_that_was_taken_back(
    audit_log: list[DesiredState], later: Later
) -> None:
    """An old "paused" in Valkey, written back after the resume, paused what was started later."""
    write_desired_state(WORKER, "paused")
    audit_log.append(DesiredState("running", time.time() + 60))
    later(120)
    worker = Process()
    assert worker.follow(busy=False) == "running"
    write_desired_state(WORKER, "stopped")
    later(120)
    for answer in (audit_log, []):  # later than what the audit log knew; it counts, too, while nobody can ask
        audit_log[:] = answer
        fresh = Process()
        assert (fresh.follow(busy=False), fresh.ends) == ("stopped", 0)
    assert not worker.ends


@pytest.mark.usefixtures("kept")
def test_draining_ends_when_nothing_is_in_hand_and_the_next_process_waits(
    audit_log: list[DesiredState], later: Later
) -> None:
    worker = Process()
    later(1)
    write_desired_state(WORKER, "draining")
    audit_log.append(find_desired_state(WORKER))
    assert (worker.follow(busy=True), worker.ends) == ("draining", 0)
    worker.follow(busy=False)
    worker.follow(busy=False)
    assert worker.ends == 1
    later(1)
    following = Process()
    assert (following.follow(busy=False), following.reads, following.ends) == ("stopped", set(), 0)


def test_a_wish_that_is_not_signed_is_none(kept: dict[str, bytes], later: Later) -> None:
    def mode() -> WorkerMode:
        return find_desired_state(WORKER).mode

    write_desired_state(WORKER, "stopped")
    assert mode() == "stopped"
    (key,) = kept
    for forged in ({"mode": "paused"}, {"signature": "0"}, {"at": "1"}, {"by": "user:eve"}):
        kept[key] = json.dumps({**json.loads(kept[key]), **forged}).encode()
        assert mode() == "running"
    write_desired_state(WORKER, "paused")
    before = find_desired_state(WORKER).at
    later(-60)  # an operator whose clock is behind
    write_desired_state(WORKER, "running")
    assert find_desired_state(WORKER).at > before
    later(60 + worker_actions.KEPT_SECONDS + 1)
    assert find_desired_state(WORKER) == DesiredState()
    kept[key] = b"["
    assert mode() == "running"
