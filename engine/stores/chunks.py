"""A store's file as chunks, each with an identity and a hash, parsed in a process of its own
(``engine.stores.children``); and what changed between a look at the files and what is stored of them.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, BinaryIO, NamedTuple
from uuid import UUID, uuid5

from engine.stores.file_texts import suffix_of, text_of
from engine.stores.limits import Limits
from engine.times.past import named_spans
from jiyi.text.splitting import split
from jiyi.text.words import text_digest, tokens


class Place(NamedTuple):
    """Where a file is: its source's path as declared, and its own within it, with ``/``."""

    source: str
    path: str


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a file."""

    item_id: UUID
    #: The same for people.
    key: str
    index: int
    text: str
    #: Its tokens, with spaces between.
    tokens: str
    #: SHA-256 of the text: equal texts have the same vector.
    content_hash: bytes


def chunk_key(place: Place, index: int) -> str:
    """What names a chunk: its file's place, and the chunk's number from 0. Equal files share no keys."""
    return f"{place.source}:{place.path}#{index}"


def chunk_id(store_id: UUID, place: Place, index: int, content_hash: bytes) -> UUID:
    """The id of a row: the same text at the same place has always the same one, another text has another.

    So indexing again writes the same rows, and a vector that was made meanwhile cannot come to stand beside a
    newer text.
    """
    return uuid5(store_id, "\n".join((*place, str(index), content_hash.hex())))


def chunk_of(store_id: UUID, place: Place, index: int, text: str, words: str | None = None) -> Chunk:
    """One chunk that says this. ``words``: its tokens, if they are known."""
    digest, said = text_digest(text), " ".join(tokens(text)) if words is None else words
    return Chunk(chunk_id(store_id, place, index, digest), chunk_key(place, index), index, text, said, digest)


#: Two moments far apart: what both understand as the same day was written with its year.
_MOMENTS = (datetime(2001, 1, 1, tzinfo=UTC), datetime(2099, 7, 1, tzinfo=UTC))
#: Characters of the first line that are looked at.
_FIRST_LINE = 200
#: A day as file names have it, whatever stands around it.
_STAMP = re.compile(r"(?<![0-9])((?:19|20)[0-9]{2})([-_.]?)([0-9]{2})\2([0-9]{2})(?![0-9])")


def day_of(name: str, text: str) -> datetime | None:
    """The first day with its year in a file's name, else in the first line of its text; None without one."""
    for stamp in _STAMP.finditer(name):
        with suppress(ValueError):  # no day: 20231342
            return datetime(int(stamp[1]), int(stamp[3]), int(stamp[4]), tzinfo=UTC)
    for told in (name, text.lstrip().split("\n", 1)[0][:_FIRST_LINE]):
        spans = [set(named_spans(told, moment)) for moment in _MOMENTS]
        days = sorted(start for start, end in spans[0] & spans[1] if end - start == timedelta(days=1))
        if days:
            return days[0]
    return None


def limits_of(path: str) -> Limits:
    """What a file may cost: a full text takes some seconds, a PDF has some thousand pages."""
    return Limits() if suffix_of(path) == ".pdf" else Limits(cpu_seconds=30, wall_seconds=60.0)


def parse_document(source: BinaryIO, *, path: str, encoding: str, size: int, overlap: int) -> Iterator[Any]:
    """First ``{"encoding", "day"}`` (a day in ISO 8601, or None), then ``[text, tokens]`` of each chunk in
    order. ``path`` says how the file is read, ``encoding`` is its source's, ``size`` and ``overlap`` are
    characters of a chunk.

    Raises:
        Unusable: with the state that says why there is no text.
    """
    decoded = text_of(source.read(), path, encoding)
    day = day_of(path.rpartition("/")[2], decoded.text)
    yield {"encoding": decoded.encoding, "day": None if day is None else day.isoformat()}
    for piece in split(decoded.text, size, overlap):
        yield [piece.text, " ".join(tokens(piece.text))]


#: Nanoseconds. A file that changed so shortly before it was read may change again and keep its time: the
#: clocks of file systems tick as slowly as that.
TRUSTED_AFTER_NS = 2_000_000_000


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
    """What a scan makes of the files that there are, and those that are stored.

    A file is read again if its size or time differs, its time cannot be trusted, or it was cut in another
    way. A new file of the size of a missing one is hashed to detect a rename.

    Args:
        found: the files that there are.
        known: those that are stored.
        hash_of: SHA-256 of a file's bytes; None where it cannot be read.
        unseen: whether a place could not be looked at; what is stored of it stays.
    """
    by_place = {one.place: one for one in known}
    seen = {one.place: one for one in found}
    new = [one for one in seen.values() if one.place not in by_place]
    gone = [one for one in known if one.place not in seen and not unseen(one.place)]
    moved = _moved(new, gone, hash_of)
    left = {stored.file_id for stored in moved.values()}
    return Changes(
        added=[one for one in new if one.place not in moved],
        changed=[one.file_id for one in known if one.place in seen and not _unchanged(seen[one.place], one)],
        removed=[one.file_id for one in gone if one.file_id not in left],
        renamed=[(moved[one.place], one) for one in new if one.place in moved],
    )


def _unchanged(found: Found, known: Known) -> bool:
    same = (found.size, found.modified_ns) == (known.size, known.modified_ns)
    return same and known.current and known.read_ns - known.modified_ns > TRUSTED_AFTER_NS


def _moved(
    new: Sequence[Found], gone: Sequence[Known], hash_of: Callable[[Found], bytes | None]
) -> Mapping[Place, Known]:
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
