"""Files in stores: what a scan makes of what it found, and chunks of at most 500 characters with an identity each."""

from __future__ import annotations

from hashlib import sha256
from itertools import product
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.stores.changes import TRUSTED_AFTER_NS, Changes, Found, Known, Place, changes
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


READ = 10 * TRUSTED_AFTER_NS


def found(path: str, size: int = 3, modified_ns: int = 5) -> Found:
    return Found(Place("docs", path), size, modified_ns)


def known(path: str, number: int, text: bytes = b"abc", *, modified_ns: int = 5, read_ns: int = READ, current: bool = True) -> Known:
    return Known(UUID(int=number), Place("docs", path), len(text), modified_ns, sha256(text).digest(), read_ns, current)


def never(_: Found) -> bytes | None:
    raise AssertionError("nothing has to be read for this")


def test_added_changed_and_removed() -> None:
    assert changes([found("a.md")], [known("a.md", 1)], never) == Changes()
    made = changes([found("a.md", modified_ns=6), found("b.md", 9)], [known("a.md", 1), known("c.md", 2)], never)
    assert made == Changes(added=[found("b.md", 9)], changed=[UUID(int=1)], removed=[UUID(int=2)])
    assert changes([found("a.md")], [known("a.md", 1, current=False)], never).changed == [UUID(int=1)], "another chunk size"
    # Read right after it changed, it may have changed once more within the same tick of the file system's clock.
    assert changes([found("a.md")], [known("a.md", 1, read_ns=6)], never).changed == [UUID(int=1)]
    assert changes([], [known("a.md", 1)], never, lambda place: place.path == "a.md") == Changes(), "it could not be looked at"


def test_a_renamed_file_is_the_same_file_and_each_old_one_is_taken_once() -> None:
    olds = [known("x.md", 1), known("y.md", 2)]
    made = changes([found(f"{name}.md", modified_ns=9) for name in "abc"], olds, lambda _: sha256(b"abc").digest())
    assert [(old.place.path, new.place.path) for old, new in made.renamed] == [("x.md", "a.md"), ("y.md", "b.md")]
    assert (made.added, made.removed) == ([found("c.md", modified_ns=9)], [])


def test_a_new_file_of_the_same_size_is_not_a_renamed_one() -> None:
    made = changes([found("new.md")], [known("old.md", 1)], lambda _: sha256(b"xyz").digest())
    assert made == Changes(added=[found("new.md")], removed=[UUID(int=1)])
    assert changes([found("new.md")], [known("old.md", 1)], lambda _: None) == made
