"""What a JSON text may have is known from its bytes, before anything is made of it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jiyi.protocol.wire import bounds
from jiyi.protocol.wire.bounds import Bounds, TooMuchError, names_in
from jiyi.protocol.wire.json_checks import keys_in

#: Bytes that are looked at in one go.
PIECE = bounds._CHUNK
FEW = Bounds(size=10_000, values=10, depth=3)


def values_in(value: object) -> int:
    """As many as the text of a value without empty lists and objects has; each of those counts as if it had
    one.
    """
    if isinstance(value, dict):
        return max(1, sum(1 + values_in(one) for one in value.values()))
    return max(1, sum(1 + values_in(one) for one in value)) if isinstance(value, list) else 0


def depth_of(value: object) -> int:
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if parts is None else 1 + max(map(depth_of, parts), default=0)


_TEXTS = st.text(alphabet=st.sampled_from('a"\\,[]{}:é记'), max_size=8)
_JSON = st.recursive(
    st.none() | st.integers() | _TEXTS,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(_TEXTS, inner, max_size=5),
    max_leaves=30,
)


@given(_JSON, st.booleans())
def test_values_and_depth_are_counted_exactly_whatever_the_words_are(value: object, ascii_only: bool) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only).encode()
    count, depth = values_in(value), depth_of(value)
    Bounds(len(text), max(count, 1), depth=depth).check(text)  # a text may stand alone
    if count:
        with pytest.raises(TooMuchError, match="more than"):
            Bounds(len(text), count - 1, depth=depth).check(text)
    if depth:
        with pytest.raises(TooMuchError, match="deep"):
            Bounds(len(text), count, depth=depth - 1).check(text)


@given(_JSON, st.booleans(), st.integers(0, 8))
def test_names_are_counted_exactly_however_the_text_is_cut(
    value: object, ascii_only: bool, first: int
) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only).encode()
    for before in range(first, len(text), 9):
        assert names_in(b" " * (PIECE - before) + text) == keys_in(value)


@pytest.mark.parametrize("one", [b'"",', b'"a",', b'{"a":"b"},'])
def test_texts_are_no_vectors(one: bytes) -> None:
    """Four bodies of 15 MB with 3.9 million texts each took half a gigabyte: there may be as many numbers in
    so many bytes.
    """
    text = b"[" + one * 20 + b"1]"
    Bounds(1_000, values=41, density=3).check(text)
    with pytest.raises(TooMuchError, match=r"more than 19 (texts|lists)"):
        Bounds(1_000, values=19, density=3).check(text)


def test_of_a_text_that_is_no_json_what_comes_before_its_error_counts() -> None:
    with pytest.raises(TooMuchError):
        FEW.check(b'[1,1,1,1,1,1,1,1,1,1,1,1 \\" and no end')
    FEW.check(b"}}}]]]")
    FEW.check(b'"' * 19)
    with pytest.raises(TooMuchError, match="more than 10,000 bytes"):
        FEW.check(b" " * 10_001)


def test_vectors_may_have_many_numbers_but_nothing_may_have_many_objects() -> None:
    bounds = Bounds(size=10_000, values=10, density=8)
    bounds.check(json.dumps([0.123456789] * 100).encode())
    with pytest.raises(TooMuchError, match="10 lists and objects"):
        bounds.check(json.dumps([[0.123456789] * 9] * 10).encode())
