"""What indexes are made of: rows as columns, ragged lists, columns that grow, the order of accesses."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.retrieval.lexicon import Ragged
from engine.retrieval.ranking import MIN_NORM
from models.retrieval.columns import FIRST_ROWS, AccessOrder, Columns, store_vectors
from models.retrieval.index_rows import MemoryColumns, dimensions_of, lists_of

Vector = Sequence[float] | None


def rows_of(vectors: Sequence[Vector]) -> MemoryColumns:
    packed = [
        b"" if one is None else len(one).to_bytes(2, "big") + bytes(2) + np.array(one, ">f4").tobytes()
        for one in vectors
    ]
    count = len(vectors)
    return MemoryColumns(
        numbers={
            "node_id": np.frombuffer(b"".join(bytes([i]) * 16 for i in range(count)), "V16"),
            "dimensions": np.array([0 if one is None else len(one) for one in vectors], ">i4"),
        },
        sessions=[f"s{i}" for i in range(count)],
        subjects=[None] * count,
        keywords=[json.dumps([[f"k{i}"] for i in range(count)])],
        tokens=[f"t{i}" if i % 2 else "" for i in range(count)],
        other_models=[None] * count,
        packed_vectors=b"".join(packed),
        oldest_running=1,
    )


vectors_of = st.lists(
    st.none() | st.lists(st.floats(-1, 1, width=32), min_size=2, max_size=3), min_size=1, max_size=8
)


@given(vectors_of, st.data())
def test_vectors_are_found_by_their_size_also_in_some_of_the_rows(
    vectors: list[Vector], data: st.DataObject
) -> None:
    wanted = np.array(data.draw(st.lists(st.booleans(), min_size=len(vectors), max_size=len(vectors))))
    rows = rows_of(vectors)
    has = np.array([one is not None for one in vectors])
    assert dimensions_of(has, rows.packed_vectors).tolist() == [
        0 if one is None else len(one) for one in vectors
    ]
    some = rows.only(wanted)
    left = [one for one, want in zip(vectors, wanted, strict=True) if want]
    for width in (2, 3):
        fits, found = some.vectors(width)
        assert fits.tolist() == [one is not None and len(one) == width for one in left]
        assert found.tolist() == [one for one in left if one is not None and len(one) == width]
    places = np.flatnonzero(wanted)
    assert list(lists_of(some.keywords)) == [[f"k{i}"] for i in places]
    assert some.sessions == [f"s{i}" for i in places]
    assert some.ids == [bytes([i]) * 16 for i in places]
    assert some.has_tokens.tolist() == [bool(i % 2) for i in places]


@pytest.mark.parametrize("positions", [[0, 1, 2, 3], [3, 2, 1, 0], [0, 2, 1, 3], [1, 2, 3, 5]])
def test_vectors_are_stored_where_they_belong(positions: list[int]) -> None:
    columns = Columns({"vector": (np.float32, 0), "length": np.float64, "has_vector": np.bool_})
    columns.extend(6)
    store_vectors(columns, np.array(positions), rows_of([[3.0, 4.0], [1.0, 0.0], [0.0, 2.0], [5.0, 12.0]]), 2)
    assert columns["length"][positions].tolist() == [5, 1, 2, 13]
    assert columns["vector"][positions].tolist() == [[3, 4], [1, 0], [0, 2], [5, 12]]
    store_vectors(columns, np.array(positions[:2]), rows_of([None, [0.0, 1.0, 0.0]]), 2)
    assert columns["has_vector"][positions].tolist() == [False, False, True, True]
    assert (columns["length"][positions[:2]] < MIN_NORM).all()


def test_room_that_is_reserved_holds_what_was_there_and_what_comes() -> None:
    columns = Columns({"a": np.int64, "b": (np.int32, 2)}, defaults={"b": -1})
    columns.extend(3)
    columns["a"][:] = [1, 2, 3]
    columns.reserve(2 * FIRST_ROWS)
    columns.reserve(1)
    assert columns["a"].tolist() == [1, 2, 3]
    assert columns.extend(3 * FIRST_ROWS)[-1] == 3 * FIRST_ROWS + 2
    assert columns["a"][:4].tolist() == [1, 2, 3, 0]
    assert (columns["b"] == -1).all()


lists = st.lists(st.lists(st.integers(0, 6), max_size=4), max_size=8)


@given(lists, lists, st.lists(st.integers(-1, 7), max_size=3))
def test_ragged_lists_are_what_they_were_given(
    first: list[list[int]], others: list[list[int]], wanted: list[int]
) -> None:
    made = Ragged()
    made.extend(
        np.array([value for row in first for value in row], np.int32),
        np.array([len(row) for row in first], np.int32),
    )
    rows = list(first)
    for place, row in enumerate(others):
        made.replace(min(place, len(rows)), row)
        rows[place : place + 1] = [row]
    assert [made[place].tolist() for place in range(len(made))] == rows
    assert made.having_any(np.array(wanted, np.int32)).tolist() == [
        not set(row).isdisjoint(wanted) for row in rows
    ]


@given(st.lists(st.lists(st.tuples(st.integers(0, 7), st.integers(0, 9)), max_size=4), max_size=6))
def test_the_order_of_accesses_is_that_of_a_plain_sort(steps: list[list[tuple[int, int]]]) -> None:
    order, times, numbers = AccessOrder(), np.arange(8.0), np.arange(8)[::-1]
    order.move(range(8))
    for step in steps:
        for row, at in step:
            times[row] = max(times[row], at)
            order.move([row])
        assert order.rows(times, numbers).tolist() == sorted(
            range(8), key=lambda row: (times[row], numbers[row])
        )
