"""engine.stores.chunks: chunks of 500 characters with an identity each, and what the original's rule does instead."""

from __future__ import annotations

from itertools import product
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.stores.chunks import chunk_id, chunks_of, day_of

STORE = UUID(int=7)


def original_split(text: str, size: int = 500, overlap: int = 50) -> list[str]:
    """The original's rule: break at the last sentence end beyond half a chunk, then go back by the overlap, whatever is left."""
    chunks, start = [], 0
    while start < len(text):
        end = start + size
        if end < len(text):
            place = max(text.rfind(mark, start, end) for mark in "。！？.!?\n")
            if place > start + size // 2:
                end = place + 1
        chunks.append(text[start:end].strip())
        start = end - overlap
    return [chunk for chunk in chunks if chunk]


def lengths(text: str) -> list[int]:
    return [len(chunk.text) for chunk in chunks_of(STORE, "docs", "a.md", text)]


@pytest.mark.parametrize("letter", ["x", "土"])
def test_no_chunk_only_repeats(letter: str) -> None:
    """Defect: 501 characters become 500 + 51, of which 50 are the overlap; 950 get a third chunk of nothing new."""
    assert [len(chunk) for chunk in original_split(letter * 501)] == [500, 51]
    assert [len(chunk) for chunk in original_split(letter * 950)] == [500, 500, 50]
    assert lengths(letter * 500) == [500]
    assert sum(lengths(letter * 501)) - 501 <= 50
    assert lengths(letter * 950) == [500, 500]


def test_a_full_stop_ends_a_sentence_only_before_white_space() -> None:
    """Defect: the original ends a chunk within 3.5, an address, or a file's name."""
    text = "x" * 300 + " see the log of version 3.5 at kiln.example.org " + "y" * 300
    assert original_split(text)[0].endswith("kiln.example.")
    assert not any(chunk.text.endswith(("3.", "kiln.", "example.")) for chunk in chunks_of(STORE, "docs", "a.md", text))


def test_sentences_end_in_both_languages() -> None:
    english = "The kiln reached 1,240 degrees; Tomas feared for the glaze. " * 20
    chinese = "窑温到了一千二百四十度；托马斯担心釉面会裂。" * 40
    for text, end in ((english, (".", ";")), (chinese, ("。", "；"))):
        assert all(chunk.text.endswith(end) for chunk in chunks_of(STORE, "docs", "a.md", text))


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
