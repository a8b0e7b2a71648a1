"""models.accounts.api_keys: what is looked up is remembered for a while, and serves longer while nobody
answers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

import pytest

from models.accounts.api_keys import LookupCache

Later = Callable[[float], None]


class Away(Exception):
    """Nobody answers."""


class Database:
    """Values by key, and what was asked for."""

    def __init__(self) -> None:
        self.values = {"a": 1, "b": 2}
        self.asked: list[list[str]] = []
        self.away = False

    def load(self, keys: Collection[str]) -> dict[str, int]:
        self.asked.append(sorted(keys))
        if self.away:
            raise Away
        return {key: self.values[key] for key in keys if key in self.values}


@pytest.fixture
def database() -> Database:
    return Database()


def cache_of(database: Database, **options: float) -> LookupCache[str, int]:
    return LookupCache(database.load, fresh_seconds=500, max_entries=3, unavailable=(Away,), **options)


def test_all_that_is_not_known_is_looked_up_at_once_and_then_remembered(database: Database) -> None:
    cache = cache_of(database)
    assert cache.get("a") == 1
    assert cache.get_many(["a", "b", "none"]) == {"a": 1, "b": 2}
    assert cache.get("none") is None
    assert database.asked == [["a"], ["b", "none"]]  # that there is none is remembered, too


def test_it_is_looked_up_again_after_seconds_or_when_it_is_forgotten(
    database: Database, later: Later
) -> None:
    cache = cache_of(database)
    cache.get("a")
    database.values["a"] = 3
    later(400)
    assert cache.get("a") == 1
    later(101)
    assert cache.get("a") == 3
    database.values["a"] = 4
    cache.forget("a")
    cache.forget("never seen")
    assert cache.get("a") == 4


def test_no_more_is_kept_than_its_bound(database: Database) -> None:
    cache = cache_of(database)
    for number in range(9):
        cache.get(f"none-{number}")
    assert len(cache) == 3
    cache.get("none-8")
    assert len(database.asked) == 9


def test_while_nobody_answers_an_old_value_serves_and_is_not_asked_for_each_time(
    database: Database, later: Later
) -> None:
    cache = cache_of(database, stale_seconds=6_000)
    assert (cache.get("a"), cache.get("none")) == (1, None)
    database.away = True
    later(2_000)
    assert cache.get("a") == 1
    assert cache.get("a") == 1
    assert len(database.asked) == 3
    # That there was none does not serve, and one without an old value fails the whole question.
    for others in (["none"], ["a", "b"]):
        with pytest.raises(Away):
            cache.get_many(others)
    later(4_001)
    with pytest.raises(Away):  # too old: it counts from when somebody answered
        cache.get("a")
    database.away = False
    assert cache.get("a") == 1
