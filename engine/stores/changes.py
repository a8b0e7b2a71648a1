"""What changed between a look at the files and what is stored of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID

#: Nanoseconds. A file that changed so shortly before it was read may change again and keep its time: the clocks of file
#: systems tick as slowly as that.
TRUSTED_AFTER_NS = 2_000_000_000


class Place(NamedTuple):
    """Where a file is: its source's path as declared, and its own within it, with ``/``."""

    source: str
    path: str


@dataclass(frozen=True, slots=True)
class Found:
    """A file as a scan saw it, unread."""

    place: Place
    size: int
    modified_ns: int


@dataclass(frozen=True, slots=True)
class Known:
    """A file as it was indexed last."""

    file_id: UUID
    place: Place
    size: int
    modified_ns: int
    #: SHA-256 of its bytes; None: they were not read yet.
    file_hash: bytes | None
    #: When it was read, nanoseconds since 1970; 0: never.
    read_ns: int = 0
    #: Whether it was cut as the store's configuration says now.
    current: bool = True


@dataclass(frozen=True, slots=True)
class Changes:
    added: list[Found] = field(default_factory=list)
    #: Those to be read again; their bytes may turn out to be the same.
    changed: list[UUID] = field(default_factory=list)
    removed: list[UUID] = field(default_factory=list)
    #: Same bytes, another place.
    renamed: list[tuple[Known, Found]] = field(default_factory=list)


def changes(
    found: Iterable[Found],
    known: Sequence[Known],
    hash_of: Callable[[Found], bytes | None],
    unseen: Callable[[Place], bool] = lambda _: False,
) -> Changes:
    """What a scan makes of what it found.

    A file is read again if its size or time is another, or its time cannot be trusted, or it was cut in another way. A new file of
    the size of one that is gone is hashed to tell a renamed one.

    Args:
        found: the files that there are.
        known: those that are stored.
        hash_of: SHA-256 of a file's bytes; None where it cannot be read.
        unseen: whether a place could not be looked at; what is stored of it stays.
    """
    by_place = {one.place: one for one in known}
    made = Changes()
    new: list[Found] = []
    seen: set[Place] = set()
    for one in found:
        seen.add(one.place)
        stored = by_place.get(one.place)
        if stored is None:
            new.append(one)
        elif not _unchanged(one, stored):
            made.changed.append(stored.file_id)
    gone = [one for one in known if one.place not in seen and not unseen(one.place)]
    moved = _moved(new, gone, hash_of)
    for one in new:
        if one.place in moved:
            made.renamed.append((moved[one.place], one))
        else:
            made.added.append(one)
    left = {stored.file_id for stored in moved.values()}
    made.removed.extend(one.file_id for one in gone if one.file_id not in left)
    return made


def _unchanged(found: Found, known: Known) -> bool:
    same = (found.size, found.modified_ns) == (known.size, known.modified_ns)
    return same and known.current and known.read_ns - known.modified_ns > TRUSTED_AFTER_NS


def _moved(new: Sequence[Found], gone: Sequence[Known], hash_of: Callable[[Found], bytes | None]) -> Mapping[Place, Known]:
    """For new files that are old ones at another place, which; each old one is taken once."""
    by_size: dict[int, list[Known]] = defaultdict(list)
    for known in gone:
        if known.file_hash is not None and known.current:
            by_size[known.size].append(known)
    moved: dict[Place, Known] = {}
    for one in new:
        candidates = by_size.get(one.size)
        if not candidates or (digest := hash_of(one)) is None:
            continue
        match = next((known for known in candidates if known.file_hash == digest), None)
        if match is not None:
            candidates.remove(match)
            moved[one.place] = match
    return moved
