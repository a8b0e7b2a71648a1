"""A store's vectors in memory, for exact search: brought up to date before each question by reading only what changed.

Whoever changes a store's items holds its row and writes them with its next revision, so revisions grow in the order of commits: what
is newer than the revision that was seen is all that changed. That the oldest items went is told by the lowest position there is;
that others went, by the store's generation.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from uuid import UUID

import numpy as np
from pgvector import Vector
from sqlalchemy import Connection

from jiyi.protocol.wire.vectors import Float32
from models.db.connection import driver

#: Bytes of vectors that one process keeps; the stores that were asked longest ago go first.
MAX_BYTES = 512 * 1024 * 1024
#: Rows that a new index has room for.
FIRST_ROOM = 64
#: Rows read at once.
FETCHED = 2_000


class StoreIndex:
    """The vectors of one model and size that a store's items have, and where the items stand. Used under its lock."""

    def __init__(self, model: str, dimensions: int) -> None:
        self.model, self.dimensions = model, dimensions
        self.lock = threading.Lock()
        self.revision = self.generation = -1
        self._first: int | None = None
        #: Items with vectors of another model, or of another size; and without any.
        self.other: set[int] = set()
        self.pending: set[int] = set()
        self._rows: dict[int, int] = {}
        self._positions = np.empty(0, dtype=np.int64)
        self._matrix: Float32 = np.empty((0, dimensions), dtype=np.float32)

    @property
    def size(self) -> int:
        return len(self._rows)

    @property
    def bytes(self) -> int:
        return int(self._matrix.nbytes)

    def sync(self, connection: Connection, store_id: UUID) -> None:
        """Bring it up to date."""
        raw = driver(connection)
        state = raw.execute(_STATE, {"store": store_id}).fetchone()
        if state is None:
            return
        revision, generation = state
        if generation != self.generation:
            self._forget()
        if revision == self.revision and generation == self.generation:
            return
        first = raw.execute(_FIRST, {"store": store_id}).fetchone()
        self._drop_before(None if first is None else first[0])
        with raw.cursor(binary=True) as cursor:
            cursor.execute(_CHANGED, {"store": store_id, "revision": self.revision})
            while found := cursor.fetchmany(FETCHED):
                for position, model, vector in found:
                    self._put(position, model, vector)
        self.revision, self.generation = revision, generation

    def cosines(self, query: Float32) -> tuple[Float32, np.ndarray[tuple[int], np.dtype[np.int64]]]:
        """The cosine of every item with a comparable vector, and the items' positions."""
        count = len(self._rows)
        scores: Float32 = self._matrix[:count] @ query
        return scores, self._positions[:count]

    def _put(self, position: int, model: str | None, vector: Vector | None) -> None:
        self._remove(position)
        if vector is None:
            self.pending.add(position)
            return
        values: Float32 = vector.to_numpy()
        if model != self.model or len(values) != self.dimensions:
            self.other.add(position)
            return
        row = len(self._rows)
        if row == len(self._matrix):
            room = max(FIRST_ROOM, row)
            self._matrix = np.concatenate([self._matrix, np.empty((room, self.dimensions), dtype=np.float32)])
            self._positions = np.concatenate([self._positions, np.empty(room, dtype=np.int64)])
        self._matrix[row], self._positions[row], self._rows[position] = values, position, row

    def _remove(self, position: int) -> None:
        """The last row takes the place of the one that goes."""
        self.pending.discard(position)
        self.other.discard(position)
        row = self._rows.pop(position, None)
        if row is None:
            return
        last = len(self._rows)
        if row != last:
            self._matrix[row], moved = self._matrix[last], int(self._positions[last])
            self._positions[row], self._rows[moved] = moved, row

    def _drop_before(self, first: int | None) -> None:
        if first is not None and first == self._first:
            return
        self._first = first
        for position in [*self._rows, *self.pending, *self.other]:
            if first is None or position < first:
                self._remove(position)

    def _forget(self) -> None:
        self.revision = -1
        self._rows.clear()
        self.pending.clear()
        self.other.clear()


class _Indexes:
    """Those of this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[str, UUID, str, int], StoreIndex] = OrderedDict()

    def of(self, group_id: str, store_id: UUID, model: str, dimensions: int) -> StoreIndex:
        with self._lock:
            key = (group_id, store_id, model, dimensions)
            found = self._kept.setdefault(key, StoreIndex(model, dimensions))
            self._kept.move_to_end(key)
            while len(self._kept) > 1 and sum(one.bytes for one in self._kept.values()) > MAX_BYTES:
                self._kept.popitem(last=False)
            return found

    def forget(self, group_id: str) -> None:
        """A group's: something of it was erased."""
        with self._lock:
            for key in [key for key in self._kept if key[0] == group_id]:
                del self._kept[key]


INDEXES = _Indexes()

_STATE = "SELECT revision, generation FROM stores WHERE store_id = %(store)s"
_FIRST = """
    SELECT i.position FROM stores s CROSS JOIN LATERAL (
        SELECT position FROM store_items WHERE group_id = s.group_id AND store_id = s.store_id ORDER BY position LIMIT 1
    ) i WHERE s.store_id = %(store)s
"""
_CHANGED = """
    SELECT i.position, i.embedding_model, i.embedding FROM stores s
        JOIN store_items i ON i.group_id = s.group_id AND i.store_id = s.store_id
    WHERE s.store_id = %(store)s AND i.revision > %(revision)s
"""
