"""An agent's memories in the retrieval worker's memory, kept up to date by reading only what changed.

A row is changed by the transaction that ``changed_xid`` names. Before a look at the rows the oldest transaction
still running is noted (the snapshot's ``xmin``); whatever that one or a later one wrote is read again the next
time. So a row that is committed late, behind others with higher numbers, is not missed (design §7).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from threading import RLock
from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection

from jiyi.lexicon import Lexicon
from jiyi.relevance import NEIGHBOUR_SHARES, Corpus, centre_of
from jiyi.requests import Filters
from jiyi.scoring import MIN_NORM
from jiyi.settings import Mode
from jiyi.text import normalise
from jiyi.vectors import Float32
from models import touches
from models.base import driver

Rows = NDArray[np.intp]

TYPES = ("event", "thought", "chat")
#: Steps in which the centre follows a growing memory: so it need not be worked out anew for each row.
CENTRE_STEPS = 16
#: Rows that an index has room for at first; doubled when full.
FIRST_ROWS = 256
#: Bytes of a row beside its vector and tokens: numbers, its id, its place in dictionaries.
ROW_BYTES = 400


@dataclass(frozen=True, slots=True)
class Keyed:
    """What an index is of."""

    group_id: str
    agent_id: str
    model: str


class AgentIndex:
    """Columns over all memories of one agent, with vectors of one model. Use it under its ``lock``."""

    def __init__(self, key: Keyed) -> None:
        self.key = key
        self.lock = RLock()
        self.size = 0
        self.node_ids: list[UUID] = []
        self.keywords: list[frozenset[str]] = []
        #: Models of the vectors there are, this one's and others'.
        self.models: set[str] = set()
        self._row_of: dict[UUID, int] = {}
        self._sessions: dict[str, int] = {}
        self._subjects: dict[str, int] = {}
        self._columns = np.zeros(FIRST_ROWS, dtype=_COLUMNS)
        self._vectors: Float32 = np.zeros((FIRST_ROWS, 0), dtype=np.float32)
        self._lexicon = Lexicon()
        self._horizon = 0
        self._touched = touches.Cursor(key.group_id, key.agent_id)
        self._corpus: Corpus | None = None
        self._order: Rows | None = None
        #: Rows accessed since the order was worked out.
        self._moved: set[int] = set()

    @property
    def columns(self) -> Any:
        """The columns as a structured array of ``size`` rows: ``index.columns["poignancy"]``."""
        return self._columns[: self.size]

    @property
    def vectors(self) -> Float32:
        return self._vectors[: self.size]

    @property
    def bytes_used(self) -> int:
        return int(self._vectors.nbytes + self._columns.nbytes + self.size * ROW_BYTES + self._lexicon.bytes_used)

    def refresh(self, connection: Connection) -> None:
        """Read what changed since the last look: rows from the database, access times from the other workers."""
        accesses = self._touched.read()  # first: a memory that is stored and accessed meanwhile keeps its access
        raw = driver(connection)
        with raw.cursor(binary=True) as cursor:
            (oldest_running,) = cursor.execute(_OLDEST_RUNNING).fetchone() or (0,)
            found = cursor.execute(_CHANGED, {
                "group": self.key.group_id, "agent": self.key.agent_id, "since": self._horizon, "model": self.key.model,
            }).fetchall()  # fmt: skip
        if any(self._gets_its_tokens(row) for row in found):  # postings only grow at their end, so from the beginning
            self._start_over()
            self.refresh(connection)
            return
        self._horizon = oldest_running
        changed = [self._put(row) for row in found]
        if any(changed):
            self._corpus = None
            self._order = None
        for node_id, at in accesses:
            self.touch(node_id, at)

    def touch(self, node_id: UUID, at: float) -> None:
        """An access; never moves a later one back."""
        row = self._row_of.get(node_id)
        if row is not None and at > self._columns["last_accessed"][row]:
            self._columns["last_accessed"][row] = at
            self._moved.add(row)

    def select(self, filters: Filters, *, mode: Mode, now: datetime) -> Rows:
        """The rows that may be retrieved, in their order (GA-19 … GA-22)."""
        columns = self.columns
        wanted_types = np.array([name in filters.types for name in TYPES])
        allowed = wanted_types[columns["type"]]
        if mode == "stanford":
            # The original drops whatever contains "idle", expires nothing, and knows no node without a vector.
            allowed &= ~columns["says_idle"] & columns["embedded"]
        else:
            allowed &= ~columns["is_idle"]
            if not filters.include_expired:
                allowed &= columns["expires"] > now.timestamp()
        if not filters.include_archived:
            allowed &= ~columns["archived"]
        if filters.created_after is not None:
            allowed &= columns["created"] > filters.created_after.timestamp()
        if filters.created_before is not None:
            allowed &= columns["created"] < filters.created_before.timestamp()
        if filters.session_id is not None:
            allowed &= columns["session"] == self._sessions.get(filters.session_id, -2)
        rows = np.flatnonzero(allowed)
        if filters.keywords:
            wanted = {keyword.lower() for keyword in filters.keywords}
            rows = np.array([row for row in rows if not wanted.isdisjoint(self.keywords[row])], dtype=np.intp)
        return rows

    def access_order(self) -> Rows:
        """All rows, least recently accessed first, the older on ties."""
        if self._order is not None and self._moved:
            self._order = self._moved_to_the_end(self._order)
        if self._order is None:
            self._order = np.lexsort((self.columns["node_count"], self.columns["last_accessed"]))
        self._moved.clear()
        return self._order

    def _moved_to_the_end(self, order: Rows) -> Rows | None:
        """The order after accesses later than all others, which is what accesses are; None if some were not."""
        moved = np.fromiter(self._moved, np.intp, len(self._moved))
        stays = np.ones(self.size, dtype=bool)
        stays[moved] = False
        rest = order[stays[order]]
        times = self.columns["last_accessed"]
        if rest.size and times[rest[-1]] >= times[moved].min():
            return None
        return np.concatenate([rest, moved[np.lexsort((self.columns["node_count"][moved], times[moved]))]])

    def corpus(self) -> Corpus:
        """What relevance is worked out from; made anew after changes."""
        if self._corpus is None:
            self._corpus = self._make_corpus()
        return self._corpus

    def _gets_its_tokens(self, row: Sequence[Any]) -> bool:
        """Whether a row that is known without tokens has some now."""
        position = self._row_of.get(row[0])
        return position is not None and bool(row[_TOKENS]) and not self._columns["has_tokens"][position]

    def _put(self, row: Sequence[Any]) -> bool:
        """Add or replace one row; False if it was known as it is."""
        node_id, node_count, kind, created, expires, archived, is_idle, says_idle, poignancy = row[:9]
        session, subject, keywords, tokens, accessed, model, vector, xid = row[9:]
        if model is not None:
            self.models.add(model)
        position = self._row_of.get(node_id)
        if position is not None and self._columns["xid"][position] == xid:
            return False
        if position is None:
            position = self._append(node_id, keywords, tokens, accessed)
        columns = self._columns
        columns[position] = (
            node_count, TYPES.index(kind), created, columns["last_accessed"][position], poignancy, expires, archived,
            is_idle, says_idle, self._sessions.setdefault(session, len(self._sessions)) if session is not None else -1,
            self._subjects.setdefault(normalise(subject), len(self._subjects)) if subject else -1,
            model is not None, self._put_vector(position, vector), bool(tokens), xid,
        )  # fmt: skip
        return True

    def _append(self, node_id: UUID, keywords: Sequence[str], tokens: str, accessed: float) -> int:
        position = self.size
        if position == len(self._columns):
            self._columns = np.concatenate([self._columns, np.zeros_like(self._columns)])
            self._vectors = np.concatenate([self._vectors, np.zeros_like(self._vectors)])
        self.size += 1
        self.node_ids.append(node_id)
        self.keywords.append(frozenset(keywords))
        self._row_of[node_id] = position
        self._lexicon.add(tokens.split())
        self._columns["last_accessed"][position] = accessed
        return position

    def _put_vector(self, position: int, packed: bytes | None) -> bool:
        """Whether the row has a vector: one of another size than the first is as good as none (GA-45)."""
        self._vectors[position] = 0  # it may have had one by this model before
        if packed is None:
            return False
        vector = np.frombuffer(packed, dtype=">f4", offset=_VECTOR_HEADER)
        if not self._vectors.shape[1]:
            self._vectors = np.zeros((len(self._columns), vector.size), dtype=np.float32)
        if vector.size != self._vectors.shape[1]:
            return False
        self._vectors[position] = vector
        return True

    def _start_over(self) -> None:
        fresh = AgentIndex(self.key)
        for name in ("size", "node_ids", "keywords", "_row_of", "_columns", "_vectors", "_lexicon", "_horizon"):
            setattr(self, name, getattr(fresh, name))
        self._touched = touches.Cursor(self.key.group_id, self.key.agent_id)
        self._corpus = self._order = None
        self._moved.clear()

    def _make_corpus(self) -> Corpus:
        vectors, columns = self.vectors, self.columns
        lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64))
        has = np.flatnonzero(lengths > MIN_NORM)
        step = max(1, 1 << max(int(has.size).bit_length() - 1 - CENTRE_STEPS.bit_length() + 1, 0))
        trusted = has[: has.size - has.size % step]
        centre = centre_of(vectors[trusted] / lengths[trusted, None].astype(np.float32))
        dots = np.zeros(self.size, dtype=np.float64)
        np.divide(vectors @ centre, lengths, out=dots, where=lengths > MIN_NORM)
        square = float(centre @ centre)
        before, after = self._neighbours()
        return Corpus(
            vectors=vectors, lengths=lengths, centre=centre, centre_dots=dots,
            centred_lengths=np.sqrt(np.maximum(1 - 2 * dots + square, 0)), lexicon=self._lexicon, before=before, after=after,
            created=columns["created"].copy(), subjects=columns["subject"].copy(), subject_codes=self._subjects,
        )  # fmt: skip

    def _neighbours(self) -> tuple[list[NDArray[np.int32]], list[NDArray[np.int32]]]:
        """For each distance, the row before and the row after in the same session."""
        columns = self.columns
        order = np.lexsort((columns["node_count"], columns["created"], columns["session"]))
        sessions = columns["session"][order]
        before, after = [], []
        for distance in range(1, len(NEIGHBOUR_SHARES) + 1):
            earlier, later = np.full(self.size, -1, np.int32), np.full(self.size, -1, np.int32)
            same = (sessions[distance:] == sessions[:-distance]) & (sessions[distance:] >= 0)
            first, second = order[:-distance][same], order[distance:][same]
            earlier[second], later[first] = first, second
            before.append(earlier)
            after.append(later)
        return before, after


_COLUMNS = np.dtype([
    ("node_count", np.int64), ("type", np.int8), ("created", np.float64), ("last_accessed", np.float64),
    ("poignancy", np.float64), ("expires", np.float64), ("archived", np.bool_), ("is_idle", np.bool_),
    ("says_idle", np.bool_), ("session", np.int32), ("subject", np.int32), ("embedded", np.bool_), ("has_vector", np.bool_),
    ("has_tokens", np.bool_), ("xid", np.int64),
])  # fmt: skip

#: Place of the tokens in a row of ``_CHANGED``.
_TOKENS = 12

#: pgvector's binary form: two 16-bit numbers, then big-endian float32.
_VECTOR_HEADER = 4

_OLDEST_RUNNING = "SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint"
# vector_send: its bytes as they are, without an object for each.
_CHANGED = """
    SELECT n.node_id, n.node_count, n.type, extract(epoch FROM n.created_at)::float8,
        coalesce(extract(epoch FROM n.expires_at)::float8, 'infinity'), n.archived_at IS NOT NULL, n.is_idle,
        strpos(n.embedding_key, 'idle') > 0, coalesce(n.poignancy, 0), n.session_id, n.subject, n.keywords_lower, n.tokens,
        extract(epoch FROM a.last_accessed)::float8,
        n.embedding_model, CASE WHEN n.embedding_model = %(model)s THEN vector_send(n.embedding) END,
        n.changed_xid::text::bigint
    FROM memory_nodes n JOIN node_access a USING (node_id)
    WHERE n.group_id = %(group)s AND n.agent_id = %(agent)s AND n.changed_xid >= %(since)s::text::xid8
    ORDER BY n.node_count
"""
