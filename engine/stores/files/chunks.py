"""A file's text as chunks, each with an identity and a hash."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID, uuid5

from jiyi.text.splitting import OVERLAP, SIZE, split
from jiyi.text.words import text_digest


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a file."""

    item_id: UUID
    #: The same for people.
    key: str
    index: int
    text: str
    #: SHA-256 of the text: equal texts have the same vector.
    content_hash: bytes


def chunk_key(source: str, path: str, index: int) -> str:
    """What names a chunk: the source as declared, the file within it, the chunk's number from 0. Equal files share no keys."""
    return f"{source}:{path}#{index}"


def chunk_id(store_id: UUID, source: str, path: str, index: int, content_hash: bytes) -> UUID:
    """The id of a row: the same text at the same place has always the same one, another text has another.

    So indexing again writes the same rows, and a vector that was made meanwhile cannot come to stand beside a newer text.
    """
    return uuid5(store_id, "\n".join((source, path, str(index), content_hash.hex())))


def chunks_of(store_id: UUID, source: str, path: str, text: str, size: int = SIZE, overlap: int = OVERLAP) -> list[Chunk]:
    """The chunks of a file's text, in order.

    Args:
        store_id: whose chunks they are.
        source: its source's path, as declared.
        path: the file's path within the source, with ``/``.
        text: what was read from it.
        size: characters of a chunk, at most.
        overlap: characters that a chunk repeats of the one before, at most; none only repeats.
    """
    return [chunk_of(store_id, source, path, index, piece.text) for index, piece in enumerate(split(text, size, overlap))]


def chunk_of(store_id: UUID, source: str, path: str, index: int, text: str) -> Chunk:
    """One chunk that says this."""
    digest = text_digest(text)
    return Chunk(chunk_id(store_id, source, path, index, digest), chunk_key(source, path, index), index, text, digest)
