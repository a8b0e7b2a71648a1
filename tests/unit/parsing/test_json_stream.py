"""JSON is read value by value, and says where it is none."""

from __future__ import annotations

import json
from io import BytesIO
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.stores.limits import RefusedDocument
from engine.stores.saved_files import JsonStream

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=4)
    ),
)


class Slow(BytesIO):
    """A file that gives few bytes at a time."""

    def __init__(self, data: bytes, at_once: int) -> None:
        super().__init__(data)
        self.at_once = at_once

    def read(self, _size: int | None = -1, /) -> bytes:
        return super().read(self.at_once)


def elements(file: BytesIO) -> list[Any]:
    stream = JsonStream(file)
    found = list(stream.elements())
    stream.end()
    return found


@given(st.lists(JSON), st.sampled_from([None, 2]), st.integers(1, 7))
def test_a_list_is_what_json_reads_of_it_in_pieces_of_any_size(
    values: list[Any], indent: int | None, at_once: int
) -> None:
    text = json.dumps(values, indent=indent, ensure_ascii=False)
    assert elements(Slow(text.encode(), at_once)) == values


def test_an_object_is_read_key_by_key() -> None:
    stream = JsonStream(BytesIO(b'{"a": [1, 2], "b" : {"c": 3} }'))
    assert {name: stream.value() for name in stream.names()} == {"a": [1, 2], "b": {"c": 3}}
    stream.end()


@pytest.mark.parametrize(
    "text", ["", "[", "[1", "[1 2]", "[1,]", "[1]x", "[\u0000]", "{}", '["a]', "[" * 100_000]
)
def test_what_is_no_list_is_refused(text: str) -> None:
    with pytest.raises(RefusedDocument, match="malformed: no JSON"):
        elements(BytesIO(text.encode()))


@pytest.mark.parametrize("text", ["{1: 2}", '{"a" 1}', '{"a": 1 "b": 2}', '{"a": 1', '{"a": 1,}'])
def test_what_is_no_object_is_refused(text: str) -> None:
    stream = JsonStream(BytesIO(text.encode()))
    with pytest.raises(RefusedDocument, match="malformed: no JSON"):
        {name: stream.value() for name in stream.names()}


def test_bytes_that_are_no_utf_8_and_a_value_beyond_its_bounds_are_refused() -> None:
    with pytest.raises(RefusedDocument, match="no UTF-8"):
        JsonStream(BytesIO(b'["\xff"]')).value()
    with pytest.raises(RefusedDocument, match="more than 32,000,000 characters"):
        elements(BytesIO(b'["' + b"x" * 33_000_000 + b'"]'))
