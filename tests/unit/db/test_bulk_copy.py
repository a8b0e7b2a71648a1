"""models.db.bulk_copy: values that are packed here are what psycopg makes of them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import pytest
from pgvector import Vector
from psycopg.adapt import PyFormat, Transformer
from psycopg.types.json import Jsonb
from pydantic_core import to_json

from jiyi.protocol.events import LATEST
from models.db.bulk_copy import COUNT_BYTES, encoder, packed_json, packed_texts, packed_time, packed_vector
from models.memory import event_rows
from models.memory.event_rows import WorkRow
from models.memory.tables import MemoryNode
from models.queue.tables import PendingWork


def by_psycopg(value: object) -> bytes:
    (found,) = Transformer().dump_sequence([value], [PyFormat.BINARY])
    assert found is not None
    return bytes(found)


@pytest.mark.parametrize("texts", [["one"], ["Anna", "林岚", "", "a,b {c}"], [f"k{i}" for i in range(100)]])
def test_texts(texts: list[str]) -> None:
    assert packed_texts(texts) == by_psycopg(texts)


def test_no_texts_are_an_empty_array() -> None:
    dimensions, nulls, _ = (packed_texts([])[i : i + 4] for i in (0, 4, 8))
    assert (len(packed_texts([])), dimensions, nulls) == (12, bytes(4), bytes(4))


@pytest.mark.parametrize("value", [{}, [], {"a": ["林岚", 1.5, None]}])
def test_json(value: object) -> None:
    assert packed_json(to_json(value)) == by_psycopg(Jsonb(value, dumps=to_json))


@pytest.mark.parametrize(
    "moment",
    [
        datetime(2026, 11, 23, 1, 2, 3, 456_789, tzinfo=UTC),
        datetime(1999, 12, 31, 23, 59, 59, 999_999, tzinfo=timezone(timedelta(hours=8))),
        datetime(2, 1, 1, tzinfo=UTC),
        LATEST,
    ],
)
def test_times(moment: datetime) -> None:
    assert packed_time(moment) == by_psycopg(moment)


def test_vectors() -> None:
    values = np.array([0.25, -1.5, 3e-8], dtype=np.float32)
    assert packed_vector(values) == Vector(values).to_binary()


def test_rows_are_what_psycopg_writes() -> None:
    row = ("embed", bytes(range(16)), "林岚's")
    (_, kind), (_, subject), (_, group) = zip(WorkRow._fields, map(by_psycopg, ("embed", row[1], row[2])), strict=True)
    fields = b"".join(len(value).to_bytes(4) + value for value in (kind, subject, group))
    assert encoder(PendingWork, WorkRow._fields)(row) == (3).to_bytes(2) + fields
    assert event_rows.encode_kind(row[:1]) + encoder(PendingWork, WorkRow._fields[1:])(row[1:])[COUNT_BYTES:] == (3).to_bytes(2) + fields


def test_what_is_null_and_what_is_a_number() -> None:
    columns = ("subject", "poignancy", "is_idle", "node_count")
    null, half = b"\xff" * 4, (8).to_bytes(4) + b"\x3f\xe0" + bytes(6)
    encoded = encoder(MemoryNode, columns[:3], more=1)((None, 0.5, True))
    assert encoded == (4).to_bytes(2) + null + half + (1).to_bytes(4) + b"\x01"


def test_numbers_of_a_node_are_encoded_as_its_other_columns() -> None:
    encoded = encoder(MemoryNode, event_rows.NodeNumbers._fields)((7, 3, 2, True))
    assert event_rows.encode_numbers(7, 3, 2, True) == encoded[COUNT_BYTES:]


def test_a_field_that_has_to_be_packed_is_not_passed_on_as_it_is() -> None:
    with pytest.raises(TypeError, match="keywords is packed"):
        event_rows._columns_among(("description", "keywords"), ())
    assert event_rows._columns_among(("description", "subject", "no_column"), ("subject",)) == ("description",)
