"""models.db.sources.awaited: requests that wait for the database's answer, many of one group's among them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from jiyi.polling import FIRST_POLL, LAST_POLL
from models.db import sources
from models.db.scope import for_groups


def _first_pauses(monkeypatch: pytest.MonkeyPatch, count: int) -> list[float]:
    """Of so many requests, each of which begins to wait while those before it wait."""
    pauses: list[float] = []

    def poll(_look: Callable[[], Any], _final: Callable[[Any], bool], _seconds: float, *, first: float) -> None:
        pauses.append(first)
        if len(pauses) < count:
            sources.awaited(lambda _: None, bool, 1)

    monkeypatch.setattr(sources, "poll", poll)
    sources.awaited(lambda _: None, bool, 1)
    return pauses


def test_the_more_of_a_group_wait_the_less_often_each_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    with for_groups("attacker"):
        assert _first_pauses(monkeypatch, 3) == pytest.approx([FIRST_POLL, 2 * FIRST_POLL, 3 * FIRST_POLL])
        assert max(_first_pauses(monkeypatch, 100)) == LAST_POLL
        with for_groups("other"):
            assert _first_pauses(monkeypatch, 1) == [FIRST_POLL]
    assert not sources._waiting  # nobody is remembered


def test_of_an_answer_that_fails_nobody_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    def poll(*_: object, **__: object) -> None:
        raise sources.Unanswered("database", "away")

    monkeypatch.setattr(sources, "poll", poll)
    assert sources.awaited(lambda _: None, bool, 1) is None
    assert not sources._waiting
