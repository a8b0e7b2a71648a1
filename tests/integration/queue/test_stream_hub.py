"""The hub of the live stream: watchers that are slow, too many, or miss something while Valkey is away."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from jiyi.settings import get_settings
from models.queue import stream
from models.queue import stream_hub as hubs
from models.queue.stream_hub import Hub, TooManyWatchers, Watcher

PATIENCE_SECONDS = 60.0


def await_true(condition: Callable[[], Any], what: str) -> Any:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (found := condition()):
        assert time.monotonic() < deadline, what
        time.sleep(0.1)
    return found


def test_one_that_does_not_keep_up_is_cut_off_and_the_others_are_not(database: object, group: str) -> None:
    own = Hub()
    slow, quick = own.join(group, "slow"), own.join(group, "quick")
    for _ in range(3):
        stream.publish_all((group, "work.done", {"n": n}) for n in range(400))
        assert all(quick.next(PATIENCE_SECONDS) for _ in range(400))
    await_true(lambda: slow.cut, "it was not cut off")
    assert not quick.cut
    own.leave(slow)
    own.leave(slow)
    own.leave(quick)
    assert len(own.watchers()) == 0


def test_watchers_survive_a_valkey_that_went_away(database: object, group: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hubs, "PAUSE", 0.05)
    own, original, tries = Hub(), stream.read_groups, [0]

    def broken(*arguments: Any) -> Any:
        tries[0] += 1
        if tries[0] <= 3:
            raise ConnectionError("away")
        return original(*arguments)

    monkeypatch.setattr(stream, "read_groups", broken)
    watcher = own.join(group, "me")
    stream.publish(group, "work.done", n=1)
    assert watcher.next(PATIENCE_SECONDS) is not None
    assert not watcher.cut
    own.leave(watcher)


def test_news_that_was_dropped_before_it_was_read_cuts_off_who_missed_it(
    database: object, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, original, away = Hub(), stream.read_groups, [True]

    def broken(*arguments: Any) -> Any:
        if away[0]:
            raise ConnectionError("away")
        return original(*arguments)

    monkeypatch.setattr(hubs, "PAUSE", 0.05)
    stream.publish(group, "work.done", n=0)
    monkeypatch.setattr(stream, "read_groups", broken)
    watcher = own.join(group, "me")
    stream.publish_all((group, "work.done", {"n": n}) for n in range(3 * stream.KEPT))
    away[0] = False
    await_true(lambda: watcher.cut, "it was not told that it missed something")
    own.leave(watcher)


def test_no_more_than_allowed_even_at_once(database: object, group: str, monkeypatch: pytest.MonkeyPatch) -> None:
    few = get_settings().model_copy(update={"stream_clients_per_key": 3})
    monkeypatch.setattr(hubs, "get_settings", lambda: few)
    own = Hub()

    def join(_: int) -> Watcher | None:
        try:
            return own.join(group, "me")
        except TooManyWatchers:
            return None

    with ThreadPoolExecutor(12) as pool:
        joined = [watcher for watcher in pool.map(join, range(24)) if watcher]
    assert len(joined) == 3
    for watcher in joined:
        own.leave(watcher)
