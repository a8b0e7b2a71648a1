"""The chunks of a store of files as columns in memory, kept until the store changes; the least used ones go when there are too many."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from datetime import datetime
from threading import Lock
from uuid import UUID

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, text

from engine.stores.files.scoring import FileCorpus
from jiyi.protocol.wire.vectors import Float32
from models.stores.kinds.kept import KeptStore

#: Bytes of all indexes that a process keeps: some 100,000 chunks of 384 values.
MAX_BYTES = 512 << 20
#: Bytes that a chunk takes beside its vector: its words, and their places.
_BESIDES = 1_500
#: Rows fetched at once: the driver's copy of them lives beside ours.
_PAGE = 2_000


@dataclass(frozen=True, slots=True)
class FileIndex:
    """A store's chunks, those of a file beside each other."""

    revision: int
    model: str
    chunks: FileCorpus
    #: Row → the item's position in the store.
    positions: NDArray[np.int64]
    #: Values of a vector that counts; 0 where it is not known.
    dimensions: int
    #: Chunks whose vector another model made, and chunks without one.
    skipped: int
    pending: int

    @property
    def nbytes(self) -> int:
        return len(self.positions) * (4 * self.dimensions + _BESIDES)


_kept: OrderedDict[UUID, FileIndex] = OrderedDict()
_lock = Lock()


def index_of(connection: Connection, store: KeptStore, model: str, dimensions: int | None) -> FileIndex:
    """The store's index with the vectors of this model, as of its revision or later.

    ``dimensions``: values of the question's vector, with which those of another size cannot be compared; None: words alone are asked for.
    """
    with _lock:
        kept = _kept.get(store.store_id)
        if kept is not None and kept.model == model and kept.revision >= store.revision and dimensions in (None, kept.dimensions):
            _kept.move_to_end(store.store_id)
            return kept
    made = _read(connection, store, model, dimensions or 0)
    with _lock:
        _kept[store.store_id] = made
        _kept.move_to_end(store.store_id)
        while len(_kept) > 1 and sum(one.nbytes for one in _kept.values()) > MAX_BYTES:
            _kept.popitem(last=False)
    return made


def forget() -> int:
    """Drop what is kept: some of it may be about whom an erasure is about. Returns how many stores."""
    with _lock:
        count = len(_kept)
        _kept.clear()
    return count


def _read(connection: Connection, store: KeptStore, model: str, dimensions: int) -> FileIndex:
    where = {"group": store.group_id, "store": store.store_id, "model": model}
    count = connection.execute(_SIZE, where).scalar_one()
    vectors: Float32 = np.zeros((count, dimensions), np.float32)
    positions = np.zeros(count, np.int64)
    words, files, days = [""] * count, [0] * count, [0.0] * count
    numbers: dict[UUID, int] = {}
    skipped = pending = row = 0
    result = connection.execute(_CHUNKS, where, execution_options={"yield_per": _PAGE})
    for chunk in result:
        if row == count:  # written since they were counted
            result.close()
            break
        positions[row], words[row] = chunk.position, chunk.tokens
        files[row] = numbers.setdefault(chunk.file_id, len(numbers))
        days[row] = datetime.fromisoformat(chunk.file_day).timestamp() if chunk.file_day else 0.0
        vector = None if chunk.embedding is None else chunk.embedding.to_numpy()
        if vector is not None and vector.size == dimensions:
            vectors[row] = vector
        elif chunk.model is None:
            pending += 1
        else:
            skipped += 1
        row += 1
    corpus = FileCorpus.of(vectors[:row], words[:row], files[:row], days[:row])
    return FileIndex(store.revision, model, corpus, positions[:row], dimensions, skipped, pending)


# A file that was only taken over from a saved index counts when it was read.
_SIZE = text("""
    SELECT count(*) FROM store_items i JOIN store_files f ON f.group_id = i.group_id AND f.file_id = i.file_id
    WHERE i.group_id = :group AND i.store_id = :store AND f.state <> 'pending'
""")
_CHUNKS = text("""
    SELECT i.position, i.file_id, i.tokens, i.metadata ->> 'file_day' AS file_day, i.embedding_model AS model,
        CASE WHEN i.embedding_model = :model THEN i.embedding END AS embedding
    FROM store_items i JOIN store_files f ON f.group_id = i.group_id AND f.file_id = i.file_id
    WHERE i.group_id = :group AND i.store_id = :store AND f.state <> 'pending' ORDER BY i.file_id, i.chunk_index
""")
