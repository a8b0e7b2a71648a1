"""models.memory.access: accesses are buffered, coalesced, written in one go, and never moved back."""

from __future__ import annotations

import time
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

pytestmark = pytest.mark.usefixtures("own_valkey")

T0 = datetime(2026, 3, 1, 8, tzinfo=UTC)


def at(hours: float) -> float:
    return (T0 + timedelta(hours=hours)).timestamp()


def remembered(group: str, count: int = 1) -> list[UUID]:
    vector = {"vector": [0.5, 0.5, 0.5], "embedding_model": "m"}
    events = [observed(group, f"memory {i}", occurred_at=T0, keywords=[], **vector) for i in range(count)]
    save(*events)
    return [event.event_id for event in events]


def accessed(node_id: UUID) -> tuple[float, int]:
    """Hours since T0 of the last access, and how many there were."""
    (row,) = rows("SELECT * FROM node_access WHERE node_id = :id", id=node_id)
    return (row["last_accessed"] - T0) / timedelta(hours=1), row["access_count"]  # type: ignore[operator]


def recent(node_id: UUID) -> list[float]:
    (row,) = rows("SELECT recent FROM node_access WHERE node_id = :id", id=node_id)
    return [moment.timestamp() for moment in row["recent"]]  # type: ignore[attr-defined]


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
    assert accessed(one) == (0, 0)
    assert access.flush() == FlushResult(touches=5, nodes=3)
    assert accessed(one) == (pytest.approx(5.000123, abs=1e-6), 3)
    assert accessed(other) == (1, 1)
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


def test_a_later_flush_with_an_earlier_access_never_moves_it_back(group: str) -> None:
    """The last times are kept once each, in the order in which they were written."""
    one, other = remembered(group, 2)
    assert recent(one) == []
    for hours in (*range(access.RECENT + 3), access.RECENT + 2):  # the last one again
        touch(group, [one], at(hours))
        access.flush()
    assert recent(one) == [at(hours) for hours in range(3, access.RECENT + 3)]
    touch(group, [one, other], at(1))  # an agent may live in simulated time
    access.flush()
    assert recent(one) == [*(at(hours) for hours in range(4, access.RECENT + 3)), at(1)]
    assert accessed(one) == (access.RECENT + 2, access.RECENT + 5)
    assert recent(other) == [at(1)]


def test_one_flush_is_due_per_interval_and_nothing_touched_is_none(
    group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (access.flush(), access.recover()) == (FlushResult(0, 0), FlushResult(0, 0))
    assert not valkey().keys(f"{valkey_keys.ACCESS}*")
    nodes = remembered(group, 2)
    monkeypatch.setattr(access, "DUE_SECONDS", 30.0)  # which do not pass meanwhile
    assert [touch(group, nodes, at(hours)) for hours in range(3)] == [True, False, False]
    assert 0 < valkey().pttl(valkey_keys.ACCESS_DUE) <= 30_000  # so a flush that is lost is due again
    valkey().delete(valkey_keys.ACCESS_DUE)  # the interval is over
    assert touch(group, nodes, at(4)) is True


def test_what_dead_flushes_left_is_recovered_and_one_under_way_is_not_taken_for_dead(
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
    assert [accessed(node) for node in dead] == [(0, 0)] * 2
    touch(group, [other], at(3))
    assert access.recover() == FlushResult(touches=4, nodes=2)
    assert [accessed(node) for node in dead] == [(2, 2)] * 2
    assert (accessed(other), access.recover()) == ((0, 0), FlushResult(0, 0))
    unit_of_work = access.unit_of_work

    def while_the_reconciler_looks() -> object:  # the flush has read its buffer and is about to write
        monkeypatch.undo()
        assert access.recover() == FlushResult(0, 0)
        return unit_of_work()

    monkeypatch.setattr(access, "unit_of_work", while_the_reconciler_looks)
    assert access.flush() == FlushResult(touches=1, nodes=1)
    assert accessed(other) == (3, 1)
    assert not valkey().keys(f"{valkey_keys.ACCESS_FLUSH}*")


def test_a_buffer_larger_than_one_statement_is_written_whole_and_rewrites_no_memory(group: str) -> None:
    """A memory that is named twice counts twice, however many there are."""
    one, other = remembered(group, 2)
    places = "SELECT node_id, CAST(ctid AS text), CAST(xmin AS text) FROM memory_nodes WHERE group_id = :g"
    before = sorted(rows(places, g=group), key=str)
    strangers = [uuid4() for _ in range(access.FLUSH_IDS + 1)]  # more than one call from Lua takes, too
    touch(group, [one, *strangers, other, one], at(1))
    touch(group, [one], at(2))
    assert access.flush() == FlushResult(touches=len(strangers) + 4, nodes=len(strangers) + 2)
    assert (accessed(one), accessed(other)) == ((2, 3), (1, 1))
    assert sorted(rows(places, g=group), key=str) == before


def test_counts_are_written_whatever_is_lost_of_the_buffer_and_no_time_is_lost_with_them(group: str) -> None:
    one, other, third = nodes = remembered(group, 3)
    touch(group, [one], at(1))
    valkey().delete(valkey_keys.ACCESS)  # the times; the counts have their own
    assert access.flush() == FlushResult(touches=1, nodes=1)
    assert accessed(one) == (1, 1)
    touch(group, [other], at(5))
    each = access.together(group, [str(one)], at(2))
    valkey().rpush(valkey_keys.ACCESS_EACH, *[each] * access.COUNTED)  # only so many wait to be counted
    access.keep_bounded()
    assert access.flush().touches == access.COUNTED
    assert (accessed(one)[1], accessed(other)) == (1 + access.COUNTED, (5, 0))
    touch(group, nodes, at(6))
    touch(group, [other], at(7))
    members = [access.member(group, node) for node in (other, third)]
    assert cache_invalidation.take_out(members) == 2  # erased
    assert access.flush() == FlushResult(touches=1, nodes=1)
    assert [accessed(node)[1] for node in nodes] == [2 + access.COUNTED, 0, 0]
