"""A paused worker takes nothing, a stopped one ends once, and an unsigned wish is none."""

from __future__ import annotations

import json
import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest

from models.db.bounded_reads import SourceUnavailable
from models.operations import worker_actions
from models.operations.worker_actions import DesiredState
from workers import worker_setup
from workers.worker_setup import Modes


class Consumer:
    """Celery's, as far as it is used."""

    hostname = "upkeep@here"

    def __init__(self) -> None:
        self.reads = {"upkeep"}
        self.app = SimpleNamespace(
            amqp=SimpleNamespace(queues=SimpleNamespace(consume_from=["upkeep"], select=lambda _names: None))
        )

    def call_soon(self, change: Any, queue: str) -> None:
        change(queue)

    def add_task_queue(self, queue: str) -> None:
        self.reads.add(queue)

    def cancel_task_queue(self, queue: str) -> None:
        self.reads.discard(queue)


@pytest.fixture
def wanted(monkeypatch: pytest.MonkeyPatch) -> list[DesiredState]:
    wishes = [DesiredState()]
    monkeypatch.setattr(worker_setup, "find_desired_state", lambda _name: wishes[-1])
    monkeypatch.setattr(worker_setup, "HELD", threading.Event())
    return wishes


@pytest.fixture
def ends(monkeypatch: pytest.MonkeyPatch) -> list[Modes]:
    ended: list[Modes] = []
    monkeypatch.setattr(Modes, "_end", lambda self: (ended.append(self), setattr(self, "ending", True)))
    return ended


def test_a_paused_worker_takes_nothing_until_it_is_resumed(
    wanted: list[DesiredState], ends: list[Modes]
) -> None:
    consumer = Consumer()
    followed = Modes(consumer)
    assert followed.follow(busy=True) == "running"
    wanted.append(DesiredState("paused", time.time()))
    assert followed.follow(busy=False) == "paused"
    assert not consumer.reads
    wanted.append(DesiredState("running", time.time()))
    assert followed.follow(busy=False) == "running"
    assert consumer.reads == {"upkeep"}
    assert not ends


def test_an_old_wish_that_is_written_back_pauses_nobody_who_was_resumed(wanted, ends):
    consumer = Consumer()
    followed = Modes(consumer)
    for wish in (
        paused := DesiredState("paused", time.time()),
        DesiredState("running", time.time() + 1),
        DesiredState(),
        paused,
    ):
        wanted.append(wish)
        mode = followed.follow(busy=False)
    assert mode == "running"
    assert consumer.reads == {"upkeep"}
    wanted.append(DesiredState("paused", time.time() + 2))
    assert followed.follow(busy=False) == "paused"
    assert not ends


def test_a_fresh_worker_does_not_believe_a_wish_that_was_taken_back(wanted, ends, monkeypatch):
    """An old "paused" in Valkey, written back after the resume, paused whoever was started later."""
    began = time.time()
    monkeypatch.setattr(
        worker_setup, "last_desired_state", lambda _connection, _name: DesiredState("running", began - 60)
    )
    monkeypatch.setattr(worker_setup, "from_database", lambda question: question(None))
    wanted.append(DesiredState("paused", began - 120))
    assert Modes(Consumer()).follow(busy=False) == "running"
    wanted.append(DesiredState("stopped", began - 30))  # later than what the audit log knows: it counts
    assert Modes(Consumer()).follow(busy=False) == "stopped"

    def away(_question: Any) -> DesiredState:
        raise SourceUnavailable("database", "away")

    monkeypatch.setattr(worker_setup, "from_database", away)
    assert Modes(Consumer()).follow(busy=False) == "stopped"
    assert not ends


def test_draining_ends_when_nothing_is_in_hand_and_the_next_process_waits(wanted, ends, monkeypatch):
    followed = Modes(Consumer())
    wanted.append(DesiredState("draining", time.time()))
    assert followed.follow(busy=True) == "draining"
    assert not ends
    followed.follow(busy=False)
    followed.follow(busy=False)
    assert ends == [followed]
    consumer = Consumer()
    monkeypatch.setattr(worker_setup, "HELD", threading.Event())  # another process
    monkeypatch.setattr(worker_setup, "from_database", lambda _question: wanted[-1])
    anew = Modes(consumer)
    anew.started_at += 1
    assert anew.follow(busy=False) == "stopped"
    assert not consumer.reads
    assert ends == [followed]


def test_a_wish_that_is_not_signed_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: dict[str, bytes] = {}
    monkeypatch.setattr(worker_actions, "need_secret_key", lambda _settings: "s" * 32)
    store = SimpleNamespace(set=lambda key, told, ex: kept.update({key: told.encode()}), get=kept.get)
    monkeypatch.setattr(worker_actions, "valkey", lambda: store)
    worker_actions.write_desired_state("upkeep@here", "stopped")
    assert worker_actions.find_desired_state("upkeep@here").mode == "stopped"
    (key,) = kept
    for forged in ({"mode": "paused"}, {"signature": "0"}, {"at": "1"}, {"by": "user:eve"}):
        kept[key] = json.dumps({**json.loads(kept[key]), **forged}).encode()
        assert worker_actions.find_desired_state("upkeep@here").mode == "running"
    with monkeypatch.context() as later:  # an operator whose clock is behind
        worker_actions.write_desired_state("upkeep@here", "paused")
        before, now = worker_actions.find_desired_state("upkeep@here").at, time.time()
        later.setattr("models.operations.worker_actions.time.time", lambda: now - 60)
        worker_actions.write_desired_state("upkeep@here", "running")
        assert worker_actions.find_desired_state("upkeep@here").at > before
        later.setattr(
            "models.operations.worker_actions.time.time", lambda: now + worker_actions.KEPT_SECONDS + 1
        )
        assert worker_actions.find_desired_state("upkeep@here") == DesiredState()
    kept[key] = b"["
    assert worker_actions.find_desired_state("upkeep@here").mode == "running"
