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
