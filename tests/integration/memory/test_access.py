"""models.memory.access: accesses are buffered, coalesced, written in one go, and never moved back."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from unittest.mock import Mock
from uuid import UUID, uuid4

import pytest

from models.db import valkey_keys
from models.db.valkey import valkey
from models.erasure import cache_invalidation
from models.memory import access
from models.memory.access import FlushResult
from tests.integration.memory.accesses import touch
from tests.integration.memory.test_inbox import observed, rows, save
from workers.embedded.stack import Stack
from workers.ephemeral import environment

T0 = datetime(2026, 3, 1, 8, tzinfo=UTC)
#: Not the one that running workers use: they would write the buffer before a test looks at it.
OWN_DATABASE = 6


@pytest.fixture(autouse=True)
def _own_buffer(database: Stack) -> Iterator[None]:
    with environment(redis_url=database.urls.redis_url.replace("db=0", f"db={OWN_DATABASE}")):
        valkey().flushdb()
        yield


def at(hours: float) -> float:
    return (T0 + timedelta(hours=hours)).timestamp()


def remembered(group: str, count: int = 1) -> list[UUID]:
    vector = {"vector": [0.5, 0.5, 0.5], "embedding_model": "m"}
    events = [observed(group, f"memory {i}", occurred_at=T0, keywords=[], **vector) for i in range(count)]
    save(*events)
    return [event.event_id for event in events]


def accessed(node_id: UUID) -> tuple[datetime, int]:
    (row,) = rows("SELECT * FROM node_access WHERE node_id = :id", id=node_id)
    return row["last_accessed"], row["access_count"]


def counters() -> dict[str, int]:
    return {name.decode(): int(value) for name, value in valkey().hgetall(valkey_keys.COUNTERS).items()}


def old_flush(hours: int = 1) -> UUID:
    """The name of a flush that began long ago: a UUIDv7 begins with its time in milliseconds."""
    return UUID(
        int=(int((time.time() - hours * 3600) * 1000) << 80) | (7 << 76) | (2 << 62) | uuid4().int & 0xFFFF
    )


def test_within_one_buffer_the_latest_access_wins_and_all_are_counted(group: str) -> None:
    one, other = remembered(group, 2)
    for hours in (3, 5.000123, 4):
        touch(group, [one], at(hours))
    touch(group, [uuid4(), other], at(1))  # an unknown node is harmless to the others
    assert accessed(one) == (T0, 0)
    assert access.flush() == FlushResult(touches=5, nodes=3)
    last_accessed, count = accessed(one)
    assert abs(last_accessed.timestamp() - at(5.000123)) < 0.001
    assert count == 3
    assert accessed(other) == (T0 + timedelta(hours=1), 1)
    before = counters()
    assert before["access_coalesced_total"] == 2
    for hours in (6, 7):
        touch(group, [one], at(hours))
    access.flush()
    assert {name: count - before[name] for name, count in counters().items()} == {
        "access_updates_total": 1,
        "access_coalesced_total": 1,
    }
    assert not valkey().keys(f"{valkey_keys.ACCESS}*[!d]")  # nothing is left but the flag "due"


def recent(node_id: UUID) -> list[float]:
    (row,) = rows("SELECT recent FROM node_access WHERE node_id = :id", id=node_id)
    return [moment.timestamp() for moment in row["recent"]]


def test_the_last_times_are_kept_once_each_in_the_order_in_which_they_were_written(group: str) -> None:
    one, other = remembered(group, 2)
    assert recent(one) == []
    for hours in (*range(access.RECENT + 3), access.RECENT + 2):  # the last one again
        touch(group, [one], at(hours))
        access.flush()
    assert recent(one) == [at(hours) for hours in range(3, access.RECENT + 3)]
    touch(group, [one, other], at(1))  # an agent may live in simulated time
    access.flush()
    assert recent(one) == [*(at(hours) for hours in range(4, access.RECENT + 3)), at(1)]
    assert recent(other) == [at(1)]


def test_a_later_flush_with_an_earlier_access_never_moves_it_back(group: str) -> None:
    (node,) = remembered(group)
    for hours in (5, 3):
        touch(group, [node], at(hours))
        access.flush()
    assert accessed(node) == (T0 + timedelta(hours=5), 2)


def test_one_flush_is_due_per_interval_and_nothing_touched_is_none(
    group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (access.flush(), access.recover()) == (FlushResult(0, 0), FlushResult(0, 0))
    assert not valkey().keys(f"{valkey_keys.ACCESS}*")  # others keep theirs in this Valkey
    nodes = remembered(group, 2)
    monkeypatch.setattr(access, "DUE_SECONDS", 30.0)  # which do not pass meanwhile
    assert [touch(group, nodes, at(hours)) for hours in range(3)] == [True, False, False]
    left = valkey().pttl(valkey_keys.ACCESS_DUE)
    assert 0 < left <= 30_000  # so a flush that is lost is due again
    valkey().delete(valkey_keys.ACCESS_DUE)  # the interval is over
    assert touch(group, nodes, at(4)) is True


def test_what_dead_flushes_left_is_recovered_and_touches_meanwhile_are_kept(
    group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    *dead, other = remembered(group, 3)
    with monkeypatch.context() as patch:
        patch.setattr(access, "_write", Mock(side_effect=SystemExit))  # killed
        patch.setattr(access, "uuid7", old_flush)
        for node in dead:
            touch(group, [node], at(1))
            touch(group, [node], at(2))
            with pytest.raises(SystemExit):
                access.flush()
    assert [accessed(node) for node in dead] == [(T0, 0)] * 2
    touch(group, [other], at(3))
    assert access.recover() == FlushResult(touches=4, nodes=2)
    assert [accessed(node) for node in dead] == [(T0 + timedelta(hours=2), 2)] * 2
    assert accessed(other) == (T0, 0)
    assert access.recover() == FlushResult(0, 0)
    assert access.flush() == FlushResult(touches=1, nodes=1)
    assert not valkey().keys(f"{valkey_keys.ACCESS_FLUSH}*")


def test_a_flush_under_way_is_not_taken_for_a_dead_one(group: str, monkeypatch: pytest.MonkeyPatch) -> None:
    unit_of_work = access.unit_of_work

    # The flush has read its buffer and is about to write.
    def unit_of_work_while_the_reconciler_looks() -> object:
        monkeypatch.setattr(access, "unit_of_work", unit_of_work)
        access.recover()
        return unit_of_work()

    (node,) = remembered(group)
    monkeypatch.setattr(access, "unit_of_work", unit_of_work_while_the_reconciler_looks)
    touch(group, [node], at(1))
    access.flush()
    assert accessed(node) == (T0 + timedelta(hours=1), 1)
    assert counters()["access_updates_total"] == 1


def test_a_buffer_larger_than_one_statement_is_written_whole_and_rewrites_no_memory(
    group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access, "FLUSH_IDS", 7)
    nodes = remembered(group, 20)
    places = (
        "SELECT node_id, CAST(ctid AS text) AS place, CAST(xmin AS text) AS writer FROM memory_nodes WHERE"
        " group_id = :g"
    )
    before = sorted(rows(places, g=group), key=str)
    touch(group, nodes, at(1))
    assert access.flush() == FlushResult(touches=20, nodes=20)
    assert sorted(rows(places, g=group), key=str) == before
    assert {accessed(node) for node in nodes} == {(T0 + timedelta(hours=1), 1)}


def test_a_memory_that_is_named_twice_counts_twice_however_many_there_are(group: str) -> None:
    one, other = remembered(group, 2)
    strangers = [uuid4() for _ in range(2_500)]  # more than one call from Lua takes
    touch(group, [one, *strangers, other, one], at(1))
    touch(group, [one], at(2))
    assert access.flush() == FlushResult(touches=2_504, nodes=2_502)
    assert accessed(one) == (T0 + timedelta(hours=2), 3)
    assert accessed(other) == (T0 + timedelta(hours=1), 1)


def test_counts_that_the_flush_finds_before_the_times_are_written_with_their_own(group: str) -> None:
    (node,) = remembered(group)
    touch(group, [node], at(1))
    valkey().delete(valkey_keys.ACCESS)
    assert access.flush() == FlushResult(touches=1, nodes=1)
    assert accessed(node) == (T0 + timedelta(hours=1), 1)
    assert not valkey().keys(f"{valkey_keys.ACCESS}*[!d]")


def test_only_so_many_accesses_wait_to_be_counted_and_no_time_is_lost(
    group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access, "COUNTED", 2)
    one, other = remembered(group, 2)
    touch(group, [other], at(5))
    for hours in (1, 2):
        touch(group, [one], at(hours))
    access.keep_bounded()
    assert access.flush() == FlushResult(touches=2, nodes=2)
    assert [accessed(node) for node in (one, other)] == [
        (T0 + timedelta(hours=2), 2),
        (T0 + timedelta(hours=5), 0),
    ]


def test_an_erased_memory_is_taken_out_of_what_was_accessed_together(group: str) -> None:
    one, other, third = remembered(group, 3)
    touch(group, [one, other, third], at(1))
    touch(group, [other], at(2))
    gone = cache_invalidation.take_out([access.member(group, other), access.member(group, third)])
    assert gone == 2
    assert access.flush() == FlushResult(touches=1, nodes=1)
    assert [accessed(node)[1] for node in (one, other, third)] == [1, 0, 0]
