"""engine.stores.changes: what a scan makes of what it found."""

from __future__ import annotations

from hashlib import sha256
from uuid import UUID

from engine.stores.changes import TRUSTED_AFTER_NS, Changes, Found, Known, Place, changes

READ = 10 * TRUSTED_AFTER_NS


def found(path: str, size: int = 3, modified_ns: int = 5) -> Found:
    return Found(Place("docs", path), size, modified_ns)


def known(path: str, number: int, text: bytes = b"abc", *, modified_ns: int = 5, read_ns: int = READ, current: bool = True) -> Known:
    return Known(UUID(int=number), Place("docs", path), len(text), modified_ns, sha256(text).digest(), read_ns, current)


def never(_: Found) -> bytes | None:
    raise AssertionError("nothing has to be read for this")


def test_what_is_as_it_was_is_not_read() -> None:
    assert changes([found("a.md")], [known("a.md", 1)], never) == Changes()


def test_added_changed_and_removed() -> None:
    made = changes([found("a.md", modified_ns=6), found("b.md", 9)], [known("a.md", 1), known("c.md", 2)], never)
    assert made == Changes(added=[found("b.md", 9)], changed=[UUID(int=1)], removed=[UUID(int=2)])


def test_another_chunk_size_indexes_again() -> None:
    assert changes([found("a.md")], [known("a.md", 1, current=False)], never).changed == [UUID(int=1)]


def test_a_file_that_was_read_right_after_it_changed_is_read_again() -> None:
    """It may have changed once more within the same tick of the file system's clock."""
    assert changes([found("a.md")], [known("a.md", 1, read_ns=6)], never).changed == [UUID(int=1)]


def test_a_renamed_file_is_the_same_file() -> None:
    old = known("old.md", 1)
    made = changes([found("new.md", modified_ns=9)], [old], lambda _: sha256(b"abc").digest())
    assert made == Changes(renamed=[(old, found("new.md", modified_ns=9))])


def test_each_old_file_is_taken_once() -> None:
    olds = [known("x.md", 1), known("y.md", 2)]
    made = changes([found(f"{name}.md") for name in "abc"], olds, lambda _: sha256(b"abc").digest())
    assert [(old.place.path, new.place.path) for old, new in made.renamed] == [("x.md", "a.md"), ("y.md", "b.md")]
    assert (made.added, made.removed) == ([found("c.md")], [])


def test_a_new_file_of_the_same_size_is_not_a_renamed_one() -> None:
    made = changes([found("new.md")], [known("old.md", 1)], lambda _: sha256(b"xyz").digest())
    assert made == Changes(added=[found("new.md")], removed=[UUID(int=1)])
    assert changes([found("new.md")], [known("old.md", 1)], lambda _: None) == made


def test_what_could_not_be_looked_at_stays() -> None:
    assert changes([], [known("a.md", 1)], never, lambda place: place.path == "a.md") == Changes()
