"""models.retrieval.index_cache: what the indexes take is known without looking at each of them."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator

import pytest

from models.retrieval import index_cache
from models.retrieval.agent_index import AgentIndex, IndexKey
from workers.ephemeral import environment

MEBIBYTE = 1024**2


@pytest.fixture(autouse=True)
def nothing_held() -> Iterator[None]:
    index_cache.forget_all()
    yield
    index_cache.forget_all()


def of(agent_id: str) -> AgentIndex:
    return index_cache.index_of(IndexKey("g", agent_id, "m", 2))


def held() -> list[str]:
    return [key.agent_id for key, _, _ in index_cache.held()]


def test_an_index_that_has_grown_is_measured_again() -> None:
    with environment(index_max_bytes=str(MEBIBYTE)):
        for name in ("a", "b", "c"):
            of(name)
        index_cache.make_room()
        assert held() == ["a", "b", "c"]
        grown = of("a")
        index_cache.make_room()  # by another thread, while this one still reads
        grown.columns.reserve(20_000)
        index_cache.used(grown)
        index_cache.make_room()
        assert held() == ["a"]


def test_what_is_dropped_takes_nothing() -> None:
    with environment(index_max_bytes=str(2 * MEBIBYTE)):
        for name in ("a", "b"):
            of(name).columns.reserve(9_000)
        index_cache.make_room()
        assert held() == ["b"]
        index_cache.forget("g", ["b"])
        for name in ("c", "d"):
            of(name)
        index_cache.make_room()
        assert held() == ["c", "d"]


def test_thousands_of_small_agents_take_no_more_than_is_told() -> None:
    names = [f"agent-{number}" for number in range(500)]
    tracemalloc.start()
    try:
        told = sum(of(name).bytes_used for name in names)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert 0.7 * told < taken <= told
