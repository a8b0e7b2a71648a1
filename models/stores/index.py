"""The items of a store as columns in memory, kept until the store changes; the least used ones go when there are too many.

Whoever changes a store's items holds its row and writes them with its next revision: an index of that revision has all of them.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from datetime import datetime
from threading import Lock
from uuid import UUID

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, text

from engine.stores.items import StoreCorpus
from jiyi.protocol.wire.vectors import Float32
from models.stores.rows import StoreRecord

#: Bytes of all indexes that a process keeps: some 100,000 items of 384 values.
MAX_BYTES = 512 << 20
#: Bytes that an item takes beside its vector: its words, and their places.
_BESIDES = 1_500
#: Rows fetched at once: the driver's copy of them lives beside ours.
_PAGE = 2_000


@dataclass(frozen=True, slots=True)
class StoreIndex:
    """A store's items, newest first; or its chunks, those of a file beside each other."""

    revision: int
    model: str
    items: StoreCorpus
    #: Row → the item's position in the store.
    positions: NDArray[np.int64]
    #: Values of a vector that counts; 0 where it is not known.
    dimensions: int
    #: Items whose vector another model made, or of another size; and items without one.
    skipped: int
    pending: int
    #: Held while the items are scored: a lexicon is no thread's but one's.
    lock: Lock = field(default_factory=Lock)

    @property
    def nbytes(self) -> int:
        return len(self.positions) * (4 * self.dimensions + _BESIDES)


_indexes: OrderedDict[UUID, StoreIndex] = OrderedDict()
_lock = Lock()


def index_of(connection: Connection, store: StoreRecord, model: str, dimensions: int | None) -> StoreIndex:
    """The store's index with the vectors of this model, as of its revision or later.

    ``dimensions``: values of the question's vector, with which those of another size cannot be compared; None: words alone are asked for.
    """
    with _lock:
        index = _indexes.get(store.store_id)
        if index is not None and index.model == model and index.revision >= store.revision and dimensions in (None, index.dimensions):
            _indexes.move_to_end(store.store_id)
            return index
    index = _read(connection, store, model, dimensions or 0)
    with _lock:
        _indexes[store.store_id] = index
        _indexes.move_to_end(store.store_id)
        while len(_indexes) > 1 and sum(other.nbytes for other in _indexes.values()) > MAX_BYTES:
            _indexes.popitem(last=False)
    return index


def forget() -> None:
    """Drop all indexes: some may have what an erasure is about."""
    with _lock:
        _indexes.clear()


def _read(connection: Connection, store: StoreRecord, model: str, dimensions: int) -> StoreIndex:
    of_files = store.type == "file"
    where = {"group": store.group_id, "store": store.store_id, "model": model}
    count = connection.execute(_FILES_COUNT if of_files else _COUNT, where).scalar_one()
    vectors: Float32 = np.zeros((count, dimensions), np.float32)
    positions = np.zeros(count, np.int64)
    words, files, times = [""] * count, [0] * count, [0.0] * count
    numbers: dict[UUID, int] = {}
    skipped = pending = row = 0
    result = connection.execute(_CHUNKS if of_files else _ITEMS, where, execution_options={"yield_per": _PAGE})
    for item in result:
        if row == count:  # written since they were counted
            result.close()
            break
        positions[row], words[row] = item.position, item.tokens
        if of_files:
            files[row] = numbers.setdefault(item.file_id, len(numbers))
            times[row] = datetime.fromisoformat(item.file_day).timestamp() if item.file_day else 0.0
        else:
            times[row] = item.created_at.timestamp()
        vector = None if item.embedding is None else item.embedding.to_numpy()
        if vector is not None and vector.size == dimensions:
            vectors[row] = vector
        elif item.model is None:
            pending += 1
        elif dimensions:  # else there is no vector to compare it with
            skipped += 1
        row += 1
    corpus = StoreCorpus.of(vectors[:row], words[:row], times[:row], files[:row] if of_files else None)
    return StoreIndex(store.revision, model, corpus, positions[:row], dimensions, skipped, pending)


_COUNT = text("SELECT count(*) FROM store_items WHERE group_id = :group AND store_id = :store")
_ITEMS = text("""
    SELECT position, tokens, created_at, embedding_model AS model, CASE WHEN embedding_model = :model THEN embedding END AS embedding
    FROM store_items WHERE group_id = :group AND store_id = :store ORDER BY position DESC
""")
# A file that was only taken over from a saved index counts when it was read.
_FILES_COUNT = text("""
    SELECT count(*) FROM store_items i JOIN store_files f ON f.group_id = i.group_id AND f.file_id = i.file_id
    WHERE i.group_id = :group AND i.store_id = :store AND f.state <> 'pending'
""")
_CHUNKS = text("""
    SELECT i.position, i.file_id, i.tokens, i.metadata ->> 'file_day' AS file_day, i.embedding_model AS model,
        CASE WHEN i.embedding_model = :model THEN i.embedding END AS embedding
    FROM store_items i JOIN store_files f ON f.group_id = i.group_id AND f.file_id = i.file_id
    WHERE i.group_id = :group AND i.store_id = :store AND f.state <> 'pending' ORDER BY i.file_id, i.chunk_index
""")
