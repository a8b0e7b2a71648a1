"""engine.stores.chunks: chunks of at most 500 characters, cut as tests/unit/text/test_splitting.py says, with an identity each."""

from __future__ import annotations

from itertools import product
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.stores.chunks import chunk_id, chunks_of, day_of

STORE = UUID(int=7)


def test_an_id_is_its_source_path_number_and_text() -> None:
    """Defect: an id of the file's hash and the number is the same for two files with the same text. And a row keeps its text for life:
    else a vector that was made of the old text could be stored beside the new one.
    """
    assert len({chunk_id(*place, text) for place in product((STORE, UUID(int=8)), "ab", "cd", (0, 1)) for text in (b"x", b"y")}) == 32
    one, again, other = (chunks_of(STORE, "docs", name, "窑温到了一千二百四十度。" * 60) for name in ("a.md", "a.md", "b.md"))
    assert one == again
    assert [chunk.key for chunk in one] == ["docs:a.md#0", "docs:a.md#1"]
    assert not {chunk.item_id for chunk in one} & {chunk.item_id for chunk in other}
    assert [chunk.content_hash for chunk in one] == [chunk.content_hash for chunk in other], "they share their vectors"


@given(st.text(max_size=2_000), st.integers(20, 300))
def test_a_chunk_has_its_bound(text: str, size: int) -> None:
    assert all(0 < len(chunk.text) <= size for chunk in chunks_of(STORE, "s", "p", text, size, size // 10))


@pytest.mark.parametrize(
    ("name", "text", "day"),
    [
        ("2026-03-02.md", "", "2026-03-02"),
        ("notes/kiln_20260302_b.txt", "", "2026-03-02"),
        ("a.md", "# 1:56 pm on 8 May, 2023\n\nOn 9 May, 2023", "2023-05-08"),
        ("a.md", "# 2026年3月2日 周一\n", "2026-03-02"),
        ("a.md", "# yesterday, last week, May", None),
        ("20231342.md", "x", None),
        ("a.md", "", None),
    ],
)
def test_the_day_of_a_file(name: str, text: str, day: str | None) -> None:
    found = day_of(name, text)
    assert (None if found is None else found.date().isoformat()) == day
