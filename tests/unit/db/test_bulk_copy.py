"""models.db.rows: values that are packed here are what psycopg makes of them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import numpy as np
from pgvector import Vector
from psycopg.adapt import PyFormat, Transformer
from psycopg.types.json import Jsonb
from pydantic_core import to_json

from jiyi.protocol.base import LATEST
from models.db.rows import packed_json, packed_texts, packed_time, packed_vector


def by_psycopg(value: object) -> bytes:
    (found,) = Transformer().dump_sequence([value], [PyFormat.BINARY])
    assert found is not None
    return bytes(found)


MOMENTS = [
    datetime(2026, 11, 23, 1, 2, 3, 456_789, tzinfo=UTC),
    datetime(1999, 12, 31, 23, 59, 59, 999_999, tzinfo=timezone(timedelta(hours=8))),
    datetime(2, 1, 1, tzinfo=UTC),
    LATEST,
]


def test_what_is_packed_here_is_what_psycopg_makes_of_it() -> None:
    for texts in (["Anna", "林岚", "", "a,b {c}"], [f"k{i}" for i in range(100)]):
        assert packed_texts(texts) == by_psycopg(texts)
    value: object
    for value in ({}, [], {"a": ["林岚", 1.5, None]}):
        assert packed_json(to_json(value)) == by_psycopg(Jsonb(value, dumps=to_json))
    for moment in MOMENTS:
        assert packed_time(moment) == by_psycopg(moment)


def test_an_empty_array_and_a_vector() -> None:
    dimensions, nulls, _ = (packed_texts([])[i : i + 4] for i in (0, 4, 8))
    assert (len(packed_texts([])), dimensions, nulls) == (12, bytes(4), bytes(4))
    values = np.array([0.25, -1.5, 3e-8], dtype=np.float32)
    assert packed_vector(values) == Vector(values).to_binary()
