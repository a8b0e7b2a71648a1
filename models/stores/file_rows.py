"""The rows of a store's files and of their chunks. Callers have locked the store's row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic_core import to_json
from sqlalchemy import Connection, text
from uuid6 import uuid7

from engine.stores.chunks import Chunk, FilePlace, KnownFile, ScannedFile, chunk_id, chunk_key
from engine.stores.file_texts import FileState
from models.stores.items import EMBED_ITEMS, of_store
from models.stores.rows import StoreRecord

#: Kind of pending work of a file that is to be read.
INDEX = "index_file"
#: Files whose rows one statement deletes: each has many chunks, and a minute.
DROPPED_AT_ONCE = 1_000
#: Characters that are kept of what is the matter.
MAX_REASON = 1_000


@dataclass(frozen=True, slots=True)
class FileRow:
    file_id: UUID
    store_id: UUID
    source: str
    path: str
    state: FileState
    file_hash: bytes | None
    encoding: str
    chunk_size: int | None
    chunk_overlap: int | None

    @property
    def place(self) -> FilePlace:
        return FilePlace(self.source, self.path)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a file that was looked at."""

    state: FileState
    reason: str = ""
    file_hash: bytes | None = None
    size: int = 0
    modified_ns: int = 0
    encoding: str = "utf-8"
    chunk_size: int | None = None
    chunk_overlap: int | None = None
    chunks_count: int = 0


def known(
    connection: Connection, store: StoreRecord, cut: Mapping[str, tuple[int, int, str]]
) -> list[KnownFile]:
    """All files of a store. ``cut``: by source how its files are cut now: size, overlap, encoding."""
    return [
        KnownFile(
            row.file_id,
            FilePlace(row.source, row.path),
            row.size,
            row.modified_ns,
            row.file_hash,
            int(row.indexed_at.timestamp() * 1e9) if row.indexed_at else 0,
            cut.get(row.source) == (row.chunk_size, row.chunk_overlap, row.encoding),
        )
        for row in connection.execute(_KNOWN, of_store(store))
    ]


def find(connection: Connection, group_id: str, file_ids: Sequence[UUID]) -> dict[UUID, FileRow]:
    rows = connection.execute(_FIND, {"group": group_id, "files": list(file_ids)})
    return {row.file_id: FileRow(*row) for row in rows}


def add(connection: Connection, store: StoreRecord, files: Sequence[ScannedFile]) -> list[UUID]:
    """New files, to be indexed. Returns the ids of those that nobody else added meanwhile."""
    places = {
        "ids": [uuid7() for _ in files],
        "sources": [file.place.source for file in files],
        "paths": [file.place.path for file in files],
    }
    return list(connection.execute(_ADD, {**of_store(store), **places}).scalars())


def move(
    connection: Connection,
    store: StoreRecord,
    revision: int,
    file_id: UUID,
    to: ScannedFile,
    day: datetime | None,
) -> list[UUID]:
    """A file is at another place: its chunks get the ids that belong there, and keep their vectors.

    Returns the chunks that still have no vector.
    """
    where = {"group": store.group_id, "file": file_id}
    chunks = connection.execute(_CHUNKS_OF, where).all()
    new_ids = [
        chunk_id(store.store_id, to.place, chunk.chunk_index, bytes(chunk.content_hash)) for chunk in chunks
    ]
    about = day.isoformat() if day else None
    moved = {"file_path": to.place.path, "file_name": to.place.path.rpartition("/")[2], "file_day": about}
    same = {"group": store.group_id, "moved": to_json(moved).decode(), "revision": revision}
    rows = [
        {**same, "old": chunk.item_id, "new": new_id, "key": chunk_key(to.place, chunk.chunk_index)}
        for chunk, new_id in zip(chunks, new_ids, strict=True)
    ]
    if rows:
        connection.execute(_MOVE_CHUNK, rows)
    stat = {"size": to.size, "modified": to.modified_ns}
    connection.execute(_MOVE, {**where, **to.place._asdict(), **stat})
    return [new_id for chunk, new_id in zip(chunks, new_ids, strict=True) if not chunk.embedded]


def first_chunk(connection: Connection, group_id: str, file_id: UUID) -> str:
    """The beginning of a file's text; "" where nothing of it is indexed."""
    return connection.execute(_FIRST_CHUNK, {"group": group_id, "file": file_id}).scalar_one_or_none() or ""


def drop(connection: Connection, group_id: str, file_ids: Sequence[UUID]) -> None:
    """Files that are gone, and their chunks."""
    for first in range(0, len(file_ids), DROPPED_AT_ONCE):
        some = file_ids[first : first + DROPPED_AT_ONCE]
        drop_chunks(connection, group_id, some)
        connection.execute(_DROP, {"group": group_id, "files": list(some)})


def drop_chunks(connection: Connection, group_id: str, file_ids: Sequence[UUID]) -> None:
    connection.execute(_DROP_CHUNKS, {"group": group_id, "files": list(file_ids)})


def is_there(connection: Connection, group_id: str, file_id: UUID) -> bool:
    """Whether a file is still stored: a scan may have dropped it meanwhile."""
    return connection.execute(_IS_THERE, {"group": group_id, "file": file_id}).one_or_none() is not None


def touch(connection: Connection, group_id: str, file_id: UUID, size: int, modified_ns: int) -> None:
    """A file was read, and had the bytes that are indexed."""
    stat = {"size": size, "modified": modified_ns}
    connection.execute(_TOUCH, {"group": group_id, "file": file_id, **stat})


def write_outcome(connection: Connection, group_id: str, file_id: UUID, outcome: Outcome) -> None:
    """What became of a file; its chunks are written by :func:`write_chunks`."""
    connection.execute(_OUTCOME, {"group": group_id, "file": file_id, **asdict(outcome)})


def write_chunks(
    connection: Connection,
    store: StoreRecord,
    file_id: UUID,
    revision: int,
    chunks: Sequence[Chunk],
    metadata: Mapping[str, Any],
) -> list[UUID]:
    """Replace the chunks of a file. Vectors of equal texts in the store are reused.

    Returns the ids of the chunks that still need a vector.
    """
    hashes = {"hashes": [chunk.content_hash for chunk in chunks]}
    existing = connection.execute(_VECTORS, {**of_store(store), **hashes}).all()
    vectors = {row.content_hash: (row.embedding, row.embedding_model) for row in existing}
    drop_chunks(connection, store.group_id, [file_id])
    rows = []
    for chunk in chunks:
        vector, model = vectors.get(chunk.content_hash, (None, None))
        placed = {**metadata, "chunk_index": chunk.index, "total_chunks": len(chunks)}
        own = {"file": file_id, "revision": revision, "metadata": to_json(placed).decode()}
        rows.append({**of_store(store), **asdict(chunk), **own, "vector": vector, "model": model})
    if rows:
        connection.execute(_WRITE, rows)
    return [chunk.item_id for chunk in chunks if chunk.content_hash not in vectors]


def stores_of_files(
    connection: Connection, group_id: str | None, after: UUID | None, limit: int
) -> list[tuple[UUID, str]]:
    """A page of the stores of files with their groups, by their ids; ``group_id`` None: of all groups."""
    rows = connection.execute(_STORES, {"group": group_id, "after": after, "limit": limit})
    return [(row.store_id, row.group_id) for row in rows]


def note_scan(connection: Connection, store_id: UUID, state: str, reason: str) -> None:
    """Note a scan of the sources. A corrupt saved index stays in the state until it is saved again."""
    connection.execute(_SCANNED, {"id": store_id, "state": state, "reason": reason[:MAX_REASON]})


def note_saved(connection: Connection, store_id: UUID) -> None:
    """Note that the store's file has the current index."""
    connection.execute(_SAVED, {"id": store_id})


def is_to_be_saved(connection: Connection, store: StoreRecord) -> bool:
    """Whether a store's index is complete, and another than what was saved."""
    parameters = {**of_store(store), "index": INDEX, "embed": EMBED_ITEMS}
    return bool(connection.execute(_TO_SAVE, parameters).scalar_one_or_none())


def make_due(connection: Connection, store: StoreRecord) -> list[UUID]:
    """Forget how a store's files were cut, so that each is indexed again. Returns their ids."""
    return list(connection.execute(_MAKE_DUE, of_store(store)).scalars())


_STORES = text("""
    SELECT store_id, group_id FROM stores
    WHERE type = 'file' AND (CAST(:group AS text) IS NULL OR group_id = :group)
    AND (CAST(:after AS uuid) IS NULL OR store_id > :after)
    ORDER BY store_id LIMIT :limit
""")
_SAVED = text("UPDATE stores SET saved_revision = revision WHERE store_id = :id")
_TO_SAVE = text("""
    SELECT revision IS DISTINCT FROM saved_revision
        AND NOT EXISTS (
            SELECT FROM pending_work p JOIN store_files f ON f.group_id = p.group_id
            AND f.file_id = p.subject_id
            WHERE p.kind = :index AND p.group_id = :group AND f.store_id = :store
        ) AND NOT EXISTS (
            SELECT FROM pending_work p JOIN store_items i ON i.group_id = p.group_id
            AND i.item_id = p.subject_id
            WHERE p.kind = :embed AND p.group_id = :group AND i.store_id = :store
        )
    FROM stores WHERE group_id = :group AND store_id = :store
""")
_SCANNED = text("""
    UPDATE stores SET scanned_at = clock_timestamp(),
        state = CASE state WHEN 'corrupt' THEN state ELSE :state END,
        state_reason = CASE state WHEN 'corrupt' THEN state_reason ELSE :reason END
    WHERE store_id = :id
""")
_KNOWN = text("""
    SELECT file_id, source, path, size, modified_ns, file_hash, indexed_at, chunk_size, chunk_overlap,
        encoding
    FROM store_files WHERE group_id = :group AND store_id = :store ORDER BY source, path
""")
_FIND = text("""
    SELECT file_id, store_id, source, path, state, file_hash, encoding, chunk_size, chunk_overlap
    FROM store_files WHERE group_id = :group AND file_id = ANY(CAST(:files AS uuid[]))
""")
_ADD = text("""
    INSERT INTO store_files (file_id, group_id, store_id, source, path)
    SELECT file_id, :group, :store, source, path
    FROM unnest(CAST(:ids AS uuid[]), CAST(:sources AS text[]), CAST(:paths AS text[]))
        AS new (file_id, source, path)
    ON CONFLICT DO NOTHING RETURNING file_id
""")
_IS_THERE = text("SELECT 1 FROM store_files WHERE group_id = :group AND file_id = :file")
_TOUCH = text("""
    UPDATE store_files SET size = :size, modified_ns = :modified, indexed_at = clock_timestamp(),
        seen_at = clock_timestamp()
    WHERE group_id = :group AND file_id = :file
""")
_CHUNKS_OF = text("""
    SELECT item_id, chunk_index, content_hash, embedding IS NOT NULL AS embedded FROM store_items
    WHERE group_id = :group AND file_id = :file ORDER BY chunk_index
""")
_FIRST_CHUNK = text(
    "SELECT content_summary FROM store_items WHERE group_id = :group AND file_id = :file AND chunk_index = 0"
)
_MOVE_CHUNK = text("""
    UPDATE store_items SET item_id = :new, key = :key, metadata = metadata || CAST(:moved AS jsonb),
        revision = :revision
    WHERE group_id = :group AND item_id = :old
""")
_MOVE = text("""
    UPDATE store_files SET source = :source, path = :path, size = :size, modified_ns = :modified,
        seen_at = clock_timestamp()
    WHERE group_id = :group AND file_id = :file
""")
_DROP_CHUNKS = text(
    "DELETE FROM store_items WHERE group_id = :group AND file_id = ANY(CAST(:files AS uuid[]))"
)
_DROP = text("DELETE FROM store_files WHERE group_id = :group AND file_id = ANY(CAST(:files AS uuid[]))")
_OUTCOME = text("""
    UPDATE store_files SET state = :state, state_reason = :reason, size = :size, modified_ns = :modified_ns,
        file_hash = coalesce(:file_hash, file_hash), encoding = :encoding, chunk_size = :chunk_size,
        chunk_overlap = :chunk_overlap, chunks_count = :chunks_count, indexed_at = clock_timestamp(),
        seen_at = clock_timestamp()
    WHERE group_id = :group AND file_id = :file
""")
_VECTORS = text("""
    SELECT DISTINCT ON (content_hash) content_hash, embedding, embedding_model FROM store_items
    WHERE group_id = :group AND store_id = :store AND content_hash = ANY(CAST(:hashes AS bytea[]))
    AND embedding IS NOT NULL
    ORDER BY content_hash, revision DESC
""")
_WRITE = text("""
    INSERT INTO store_items (item_id, group_id, store_id, key, revision, content_summary, content_hash,
        metadata, file_id, chunk_index, tokens, embedding, embedding_model)
    VALUES (:item_id, :group, :store, :key, :revision, :text, :content_hash, CAST(:metadata AS jsonb), :file,
        :index, :tokens, CAST(:vector AS vector), :model)
""")
_MAKE_DUE = text(
    "UPDATE store_files SET chunk_size = NULL WHERE group_id = :group AND store_id = :store RETURNING file_id"
)
