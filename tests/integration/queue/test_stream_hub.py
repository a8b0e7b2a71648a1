"""The hub of the live stream: watchers that are slow, too many, or miss something while Valkey is away."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Event
from typing import Any

import pytest

from models.queue import stream
from models.queue.stream import Hub, TooManyWatchers
from tests.integration.waiting import PATIENCE_SECONDS, until


def test_one_that_does_not_keep_up_is_cut_off_and_the_others_are_not(database: object, group: str) -> None:
    own = Hub()
    slow, quick = own.join(group, "slow"), own.join(group, "quick")
    for _ in range(3):
        stream.publish_all((group, "work.done", {"n": n}) for n in range(400))
        assert all(quick.next(PATIENCE_SECONDS) for _ in range(400))
    until(lambda: slow.cut, what="it was not cut off")
    assert not quick.cut
    own.leave(slow)
    own.leave(slow)
    own.leave(quick)
    assert len(own.watchers()) == 0


def test_watchers_survive_a_valkey_that_went_away_but_for_those_who_missed_something(
    database: object, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, original, away, tried = Hub(), stream.read_groups, Event(), Event()

    def broken(*arguments: Any) -> Any:
        if away.is_set():
            tried.set()
            raise ConnectionError("away")
        return original(*arguments)

    monkeypatch.setattr(stream, "read_groups", broken)
    away.set()
    watcher = own.join(group, "me")
    stream.publish(group, "work.done", n=1)
    assert tried.wait(PATIENCE_SECONDS)
    away.clear()
    assert watcher.next(PATIENCE_SECONDS) is not None
    assert not watcher.cut
    away.set()
    tried.clear()
    assert tried.wait(PATIENCE_SECONDS)
    stream.publish_all((group, "work.done", {"n": n}) for n in range(3 * stream.KEPT))
    away.clear()
    until(lambda: watcher.cut, what="it was not told that it missed something")
    own.leave(watcher)


def test_no_more_than_allowed_even_at_once(database: object, group: str) -> None:
    own, joined = Hub(), list[stream.Watcher]()

    def join(_: int) -> None:
        with suppress(TooManyWatchers):
            joined.append(own.join(group, "me"))

    with ThreadPoolExecutor(12) as pool:
        list(pool.map(join, range(4 * stream.PER_OWNER)))
    assert len(joined) == stream.PER_OWNER
    for watcher in joined:
        own.leave(watcher)
