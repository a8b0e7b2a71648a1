"""jiyi.protocol.wire.vectors: one packed form, whatever it came as. What is refused is also in test_events.py."""

from __future__ import annotations

import base64
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from jiyi.protocol.wire.vectors import MIN_LENGTH, Vector, to_array, to_bytes, to_text

VALUES = [0.25, -1.5, 3.0]
PACKED = np.array(VALUES, "<f4").tobytes()


class Holder(BaseModel):
    vector: Vector


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(VALUES, id="list"),
        pytest.param(tuple(VALUES), id="tuple"),
        pytest.param(np.array(VALUES), id="float64 array"),
        pytest.param(np.array(VALUES, ">f4"), id="big-endian array"),
        pytest.param(np.array([*VALUES, *VALUES], np.float32)[:3], id="slice of an array"),
        pytest.param(np.array([0.25, 9, -1.5, 9, 3.0], np.float32)[::2], id="strided array"),
        pytest.param(PACKED, id="packed bytes"),
        pytest.param(base64.b64encode(PACKED).decode(), id="base64"),
        pytest.param("[0.25, -1.5, 3.0]", id="14: JSON text"),
        pytest.param(" [0.25,-1.5,3] ", id="14: as PostgreSQL writes it"),
    ],
)
def test_every_form_becomes_the_same_bytes(value: object) -> None:
    assert to_bytes(value) == PACKED
    assert to_array(to_bytes(value)).tolist() == VALUES


def test_whole_numbers_are_numbers() -> None:
    assert to_array(to_bytes([1, 2])).tolist() == [1, 2]


def test_an_array_is_float32_with_one_dimension() -> None:
    array = to_array(PACKED)
    assert array.dtype == np.float32
    assert array.shape == (3,)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ([], "1 to 4,096"),
        ([[1.0, 2.0]], "one dimension"),
        ([0.0, -0.0], "all values are zero"),
        ([1.0, float("-inf")], "finite"),
        ([1e39], "finite"),
        (b"123", "3 bytes"),
        ("*", "base64"),
        ("[0.1, 0.2", "base64"),
        ("[" * 100_000, "base64"),
        ("[]", "1 to 4,096"),
        ('["a"]', "every value is a finite number"),
        ("[[1, 2]]", "one dimension"),
        ("[NaN]", "finite"),
        ("[1e400]", "finite"),
        ({"a": 1}, "not a vector"),
        (None, "vector"),
        ([10**400], "."),
    ],
)
def test_what_is_no_vector_is_a_value_error(value: object, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        to_bytes(value)


@given(st.lists(st.floats(-1_000, 1_000, width=32), min_size=1, max_size=20).filter(lambda values: math.hypot(*values) > 2 * MIN_LENGTH))
def test_a_vector_in_a_model_survives_json(values: list[float]) -> None:
    holder = Holder(vector=values)
    assert to_array(holder.vector).tolist() == values
    assert Holder.model_validate_json(holder.model_dump_json()) == holder
    assert to_bytes(to_text(holder.vector)) == holder.vector
