"""The storm's faults: what is there to strike, and how often a program may be ended."""

from __future__ import annotations

import signal
from types import SimpleNamespace
from typing import Any, cast

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from bench.support.storm import faults, valkey_faults
from bench.support.storm.faults import HEAVY, MOST_CRASHES, Faults
from workers.embedded.stack import Stack

NAMES = ["web", "beat", "intake"]
#: Nobody listens there.
STACK = cast("Stack", SimpleNamespace(urls=SimpleNamespace(database_url="postgresql+psycopg://nobody@127.0.0.1:1/none")))


class Program:
    """One that can be signalled as often as one likes."""

    def send_signal(self, number: signal.Signals) -> None:
        pass


@pytest.fixture
def running(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    found: dict[str, Any] = {}
    monkeypatch.setattr(faults, "programs", lambda: found)
    return found


def test_what_is_not_there_is_not_struck_and_does_not_count(running: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(valkey_faults, "valkey", lambda: redis.Redis(port=1, retry=Retry(NoBackoff(), 0)))
    monkeypatch.setattr(valkey_faults, "_until_done", lambda _step: None)
    storm = Faults(STACK, NAMES, pause=0)
    assert not running
    assert [name for name, fault in storm.all.items() if fault()] == []
    assert all(map(storm.may, storm.all))


def test_a_target_is_ended_as_often_as_its_supervision_bears(running: dict[str, Any]) -> None:
    running["web"] = Program()
    storm = Faults(STACK, NAMES)
    for _ in range(MOST_CRASHES):
        assert storm.may("kill web")
        assert storm.all["kill web"]()
    assert not any(map(storm.may, ("kill web", "stop web", "pause web")))
    assert storm.may("kill beat")


def test_what_costs_much_computing_happens_no_more_often_than_asked(running: dict[str, Any]) -> None:
    running |= {name: Program() for name in NAMES}
    storm = Faults(STACK, NAMES, most_heavy=2)
    assert storm.strike("kill web")
    assert not storm.strike("no connection left")  # nothing was struck, so nothing was spent
    assert storm.may("kill beat")
    assert storm.strike("stop beat")
    allowed = {name.partition(" ")[0] for name in storm.all if storm.may(name)}
    assert not allowed & set(HEAVY)
    assert {"cut", "hang", "pause", "bindings"} <= allowed
