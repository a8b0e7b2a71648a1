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
from engine.stores.limits import ParseLimits
from engine.times.past import named_spans
from jiyi.text.splitting import split
from jiyi.text.words import text_digest, tokens


class FilePlace(NamedTuple):
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


def chunk_key(place: FilePlace, index: int) -> str:
    """What names a chunk: its file's place, and the chunk's number from 0. Equal files share no keys."""
    return f"{place.source}:{place.path}#{index}"


def chunk_id(store_id: UUID, place: FilePlace, index: int, content_hash: bytes) -> UUID:
    """The id of a row: the same text at the same place has always the same one, another text has another.

    So indexing again writes the same rows, and a vector that was made meanwhile cannot come to stand beside a
    newer text.
    """
    return uuid5(store_id, "\n".join((*place, str(index), content_hash.hex())))


def chunk_of(store_id: UUID, place: FilePlace, index: int, text: str, words: str | None = None) -> Chunk:
    """One chunk that says this. ``words``: its tokens, if they are known."""
    digest, token_text = text_digest(text), " ".join(tokens(text)) if words is None else words
    return Chunk(
        chunk_id(store_id, place, index, digest), chunk_key(place, index), index, text, token_text, digest
    )


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
    for line in (name, text.lstrip().split("\n", 1)[0][:_FIRST_LINE]):
        spans = [set(named_spans(line, moment)) for moment in _MOMENTS]
        days = sorted(start for start, end in spans[0] & spans[1] if end - start == timedelta(days=1))
        if days:
            return days[0]
    return None


def limits_of(path: str) -> ParseLimits:
    """What a file may cost: a full text takes some seconds, a PDF has some thousand pages."""
    return ParseLimits() if suffix_of(path) == ".pdf" else ParseLimits(cpu_seconds=30, wall_seconds=60.0)


def parse_document(source: BinaryIO, *, path: str, encoding: str, size: int, overlap: int) -> Iterator[Any]:
    """First ``{"encoding", "day"}`` (a day in ISO 8601, or None), then ``[text, tokens]`` of each chunk in
    order. ``path`` says how the file is read, ``encoding`` is its source's, ``size`` and ``overlap`` are
    characters of a chunk.

    Raises:
        UnindexableFile: with the state that says why there is no text.
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
class ScannedFile:
    """A file as a scan saw it, unread."""

    place: FilePlace
    size: int
    modified_ns: int


@dataclass(frozen=True, slots=True)
class KnownFile:
    """A file as it was indexed last."""

    file_id: UUID
    place: FilePlace
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
    added: list[ScannedFile] = field(default_factory=list)
    #: Those to be read again; their bytes may turn out to be the same.
    changed: list[UUID] = field(default_factory=list)
    removed: list[UUID] = field(default_factory=list)
    #: Same bytes, another place.
    renamed: list[tuple[KnownFile, ScannedFile]] = field(default_factory=list)


def changes(
    files: Iterable[ScannedFile],
    indexed: Sequence[KnownFile],
    hash_of: Callable[[ScannedFile], bytes | None],
    unseen: Callable[[FilePlace], bool] = lambda _: False,
) -> Changes:
    """What a scan makes of the files that there are, and those that are stored.

    A file is read again if its size or time differs, its time cannot be trusted, or it was cut in another
    way. A new file of the size of a missing one is hashed to detect a rename.

    Args:
        files: the files that there are.
        indexed: those that are stored.
        hash_of: SHA-256 of a file's bytes; None where it cannot be read.
        unseen: whether a place could not be looked at; what is stored of it stays.
    """
    by_place = {one.place: one for one in indexed}
    file_by_place = {one.place: one for one in files}
    new = [one for one in file_by_place.values() if one.place not in by_place]
    gone = [one for one in indexed if one.place not in file_by_place and not unseen(one.place)]
    moved = _find_moved(new, gone, hash_of)
    renamed_ids = {file.file_id for file in moved.values()}
    return Changes(
        added=[one for one in new if one.place not in moved],
        changed=[
            one.file_id
            for one in indexed
            if one.place in file_by_place and not _unchanged(file_by_place[one.place], one)
        ],
        removed=[one.file_id for one in gone if one.file_id not in renamed_ids],
        renamed=[(moved[one.place], one) for one in new if one.place in moved],
    )


def _unchanged(file: ScannedFile, indexed: KnownFile) -> bool:
    same = (file.size, file.modified_ns) == (indexed.size, indexed.modified_ns)
    return same and indexed.current and indexed.read_ns - indexed.modified_ns > TRUSTED_AFTER_NS


def _find_moved(
    new: Sequence[ScannedFile], gone: Sequence[KnownFile], hash_of: Callable[[ScannedFile], bytes | None]
) -> Mapping[FilePlace, KnownFile]:
    """For new files that are old ones at another place, which; each old one is taken once."""
    by_size: dict[int, list[KnownFile]] = defaultdict(list)
    for file in gone:
        if file.file_hash is not None and file.current:
            by_size[file.size].append(file)
    moved: dict[FilePlace, KnownFile] = {}
    for one in new:
        candidates = by_size.get(one.size)
        if not candidates or (digest := hash_of(one)) is None:
            continue
        match = next((file for file in candidates if file.file_hash == digest), None)
        if match is not None:
            candidates.remove(match)
            moved[one.place] = match
    return moved
