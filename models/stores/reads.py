"""Looking at stores: what there is, how far indexes are, which node uses what, what was done."""

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
from jiyi.protocol.base import BY_ID, BY_POSITION, Rows
from jiyi.protocol.stores import FilesQuery, ItemsQuery, ListedFile, ListedItem, StoresQuery, StoreState
from jiyi.protocol.wire.vectors import Float32
from jiyi.stores.registry import store_type
from models.db.rows import Record, fetch, page, records
from models.stores import items, rows
from models.stores.rows import StoreRecord

#: Bytes of all indexes that a process keeps: some 100,000 items of 384 values.
MAX_BYTES = 512 << 20
#: Bytes that an item takes beside its vector: its words, and their places.
_BESIDES = 1_500
#: Rows fetched at once: the driver's copy of them lives beside ours.
_PAGE = 2_000


def listed(connection: Connection, group_id: str, query: StoresQuery) -> Rows[StoreState]:
    """A page of stores, newest first."""
    values = {
        "group": group_id,
        "run": query.run_id,
        "after": query.place(BY_ID),
        "one": None,
        "limit": query.limit + 1,
    }
    stores = [_described(one) for one in fetch(connection, StoreState, _STORES, **values)]
    return page(stores, query.limit, lambda last: last.store_id)


def state(connection: Connection, group_id: str, name: str, run_id: str) -> StoreState:
    """One store. Raises :class:`jiyi.errors.NotFound`."""
    store_id = rows.need(connection, group_id, name, run_id).store_id
    values = {"group": group_id, "run": None, "after": None, "one": store_id, "limit": 1}
    return _described(fetch(connection, StoreState, _STORES, **values)[0])


def page_of_items(connection: Connection, group_id: str, query: ItemsQuery) -> Rows[ListedItem]:
    """A page of items, newest first, without the bytes of their attachments."""
    store = rows.need(connection, group_id, query.name, query.run_id)
    latest = items.latest(connection, store, query.limit + 1, query.place(BY_POSITION))
    listing = [
        ListedItem(
            **items.item_of(connection, row, whole=False).model_dump(),
            position=row.position,
            embedded=row.embedding_model is not None,
        )
        for row in latest
    ]
    return page(listing, query.limit, lambda last: last.position)


def page_of_files(connection: Connection, group_id: str, query: FilesQuery) -> Rows[ListedFile]:
    """A page of the files of a store, in the order of their paths."""
    store = rows.need(connection, group_id, query.name, query.run_id)
    values = {"group": group_id, "store": store.store_id, "state": query.state, "limit": query.limit + 1}
    files = fetch(connection, ListedFile, _FILES, **values, after=query.place(BY_ID))
    return page(files, query.limit, lambda last: last.file_id)


def node_map(connection: Connection, group_id: str) -> list[Record]:
    """Which node uses which store, in the order of their declaration; ``retrieve_stage`` None: all stages."""
    return records(connection, _MAP, group=group_id)


def operations(connection: Connection, group_id: str, limit: int) -> list[Record]:
    """What nodes did with stores, newest first."""
    return records(connection, _OPERATIONS, group=group_id, limit=limit)


def _described(store: StoreState) -> StoreState:
    kind = store_type(store.type)
    return store.model_copy(update={"summary": "" if kind is None else kind.summary})


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


def index_of(connection: Connection, store: StoreRecord, model: str, dimensions: int | None) -> StoreIndex:
    """The store's index with the vectors of this model, as of its revision or later.

    ``dimensions``: values of the question's vector, with which those of another size cannot be compared;
    None: words alone are asked for.
    """
    with _lock:
        index = _indexes.get(store.store_id)
        if (
            index is not None
            and index.model == model
            and index.revision >= store.revision
            and dimensions in (None, index.dimensions)
        ):
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
    where = {**items.of_store(store), "model": model}
    count = connection.execute(_FILES_COUNT if of_files else items.COUNT, where).scalar_one()
    vectors: Float32 = np.zeros((count, dimensions), np.float32)
    positions = np.zeros(count, np.int64)
    words, files, times = [""] * count, [0] * count, [0.0] * count
    numbers: dict[UUID, int] = {}
    skipped = pending = row = 0
    result = connection.execute(
        _CHUNKS if of_files else _ITEMS, where, execution_options={"yield_per": _PAGE}
    )
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


_FILES = text("""
    SELECT f.file_id, f.source, f.path, f.state, f.state_reason, f.size, f.chunks_count, f.indexed_at,
        (SELECT count(i.embedding) FROM store_items i WHERE i.group_id = f.group_id
        AND i.file_id = f.file_id) AS embedded
    FROM store_files f
    WHERE f.group_id = :group AND f.store_id = :store AND (CAST(:state AS text) IS NULL OR f.state = :state)
        AND (CAST(:after AS uuid) IS NULL OR (f.source, f.path) > (
            SELECT source, path FROM store_files WHERE group_id = :group AND file_id = :after
        ))
    ORDER BY f.source, f.path LIMIT :limit
""")
_STORES = text("""
    SELECT s.store_id, s.name, s.run_id, s.type, s.config, s.state, s.state_reason, s.created_at, s.used_at,
        s.loaded_at, s.scanned_at, i.items, i.pending, f.files, a.attachments, a.attachment_bytes
    FROM stores s
    CROSS JOIN LATERAL (
        SELECT count(*) AS items, count(*) FILTER (WHERE embedding IS NULL) AS pending FROM store_items
        WHERE group_id = s.group_id AND store_id = s.store_id
    ) i
    CROSS JOIN LATERAL (
        SELECT coalesce(jsonb_object_agg(state, number), '{}') AS files FROM (
            SELECT state, count(*) AS number FROM store_files WHERE group_id = s.group_id
            AND store_id = s.store_id GROUP BY 1
        ) n
    ) f
    CROSS JOIN LATERAL (
        SELECT count(*) AS attachments, coalesce(sum(size), 0)::bigint AS attachment_bytes FROM attachments
        WHERE group_id = s.group_id AND store_id = s.store_id
    ) a
    WHERE s.group_id = :group AND (CAST(:run AS text) IS NULL OR s.run_id = :run)
        AND (CAST(:after AS uuid) IS NULL OR s.store_id < :after)
        AND (CAST(:one AS uuid) IS NULL OR s.store_id = :one)
    ORDER BY s.store_id DESC LIMIT :limit
""")
_MAP = text("""
    SELECT graph, node_id, store_name, store_type, retrieve_stage, top_k, similarity_threshold, read, write
    FROM store_nodes WHERE group_id = :group ORDER BY graph, node_id, number
""")
_OPERATIONS = text("""
    SELECT operation_id, graph, run_id, node_id, operation_type, stage, item_count, attachment_count,
        input_size, output_size, duration_ms, stores, created_at
    FROM store_operations WHERE group_id = :group ORDER BY operation_id DESC LIMIT :limit
""")
_indexes: OrderedDict[UUID, StoreIndex] = OrderedDict()
_lock = Lock()
_ITEMS = text("""
    SELECT position, tokens, created_at, embedding_model AS model,
        CASE WHEN embedding_model = :model THEN embedding END AS embedding
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
    WHERE i.group_id = :group AND i.store_id = :store AND f.state <> 'pending'
    ORDER BY i.file_id, i.chunk_index
""")
