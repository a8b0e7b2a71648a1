"""jiyi.protocol.wire.vectors: one packed form, whatever it came as."""

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
        VALUES,
        np.array(VALUES, ">f4"),  # big-endian
        np.array([0.25, 9, -1.5, 9, 3.0], np.float32)[::2],
        PACKED,
        base64.b64encode(PACKED).decode(),
        " [0.25,-1.5,3] ",  # 14: JSON text, as PostgreSQL writes it
    ],
    ids="list array strided bytes base64 JSON".split(),
)
def test_every_form_becomes_the_same_bytes(value: object) -> None:
    assert to_bytes(value) == PACKED
    array = to_array(to_bytes(value))
    assert (array.tolist(), array.dtype, array.shape) == (VALUES, np.float32, (3,))


def test_what_is_no_vector_is_a_value_error() -> None:
    not_finite = base64.b64encode(np.array([1, np.nan], "<f4").tobytes()).decode()
    wrong: dict[str, list[object]] = {
        "1 to 4,096": [[], [1.0] * 4_097, ""],
        "one dimension": [[[1.0, 2.0]]],
        "not a vector": [[[1.0], [2.0, 3.0]], {"a": 1}],
        "all values are zero": [[0.0, -0.0]],
        "finite": [[1.0, float("-inf")], [1e39], '["a"]', not_finite],
        "3 bytes": [b"123"],
        "base64": ["记忆", "[" * 100_000],
        "every value must be a finite number|vector": [[10**400], None],
    }
    for words, values in wrong.items():
        for value in values:
            with pytest.raises(ValueError, match=words):
                to_bytes(value)


@given(
    st.lists(st.floats(-1_000, 1_000, width=32), min_size=1, max_size=20).filter(
        lambda values: math.hypot(*values) > 2 * MIN_LENGTH
    )
)
def test_a_vector_in_a_model_survives_json(values: list[float]) -> None:
    holder = Holder(vector=values)
    assert to_array(holder.vector).tolist() == values
    assert Holder.model_validate_json(holder.model_dump_json()) == holder
    assert to_bytes(to_text(holder.vector)) == holder.vector
