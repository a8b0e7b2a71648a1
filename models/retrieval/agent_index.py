"""An agent's memories in the retrieval worker's memory, kept up to date by reading only what changed.

A row is changed by the transaction that ``changed_xid`` names. Before a look at the rows the oldest transaction
still running is noted (the snapshot's ``xmin``); whatever that one or a later one wrote is read again the next
time. So a row that is committed late, behind others with higher numbers, is not missed (design §7).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from threading import RLock
from typing import Any, get_args
from uuid import UUID

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection

from jiyi.conversations.types import Kind
from jiyi.protocol.retrieval import Filters
from jiyi.protocol.wire.vectors import Float32
from jiyi.retrieval.lexicon import Lexicon, Statistics
from jiyi.retrieval.relevance import NEIGHBOURS, Corpus, centre_of, language_code, neighbours_of, project_on_centroid
from jiyi.retrieval.scoring import MIN_NORM
from jiyi.settings import Mode
from jiyi.text.words import normalise
from models.db.connection import driver
from models.memory.agents import Identity
from models.retrieval import touches
from models.retrieval.columns import Columns

Rows = NDArray[np.intp]

TYPES = ("event", "thought", "chat")
#: A memory that was not taken from a conversation has no kind.
KINDS = ("memory", *get_args(Kind))
#: Steps in which the centre follows a growing memory: so it need not be worked out anew for each row.
CENTRE_STEPS = 16
#: Bytes of a row beside its columns and tokens: its id, its keywords, its places in dictionaries.
ROW_BYTES = 300
#: About what is kept of a node to show it.
DESCRIBED_BYTES = 2_000

#: What is read of a memory: name → SQL, in the order of a row's values. vector_send: the bytes as they are, without an
#: object for each value.
_READ = {
    "node_id": "n.node_id",
    "node_count": "n.node_count",
    "type": "n.type",
    "created": "extract(epoch FROM n.created_at)::float8",
    "expires": "coalesce(extract(epoch FROM n.expires_at)::float8, 'infinity')",
    "archived": "n.archived_at IS NOT NULL",
    "is_idle": "n.is_idle",
    "kind": "coalesce(n.kind, 'memory')",
    "superseded": "n.superseded_at IS NOT NULL",
    "says_idle": "strpos(n.embedding_key, 'idle') > 0",
    "poignancy": "coalesce(n.poignancy, 0)",
    "session": "n.session_id",
    "subject": "n.subject",
    "keywords": "n.keywords_lower",
    "tokens": "n.tokens",
    "last_accessed": "extract(epoch FROM a.last_accessed)::float8",
    "model": "coalesce(v.model, n.embedding_model)",
    "vector": "vector_send(coalesce(v.embedding, CASE WHEN n.embedding_model = %(model)s THEN n.embedding END))",
    "xid": "n.changed_xid::text::bigint",
}
#: Columns of the index that hold what is read as it is; all others are worked out from it.
_KEPT = {
    "node_count": np.int64,
    "created": np.float64,
    "expires": np.float64,
    "archived": np.bool_,
    "is_idle": np.bool_,
    "superseded": np.bool_,
    "says_idle": np.bool_,
    "poignancy": np.float64,
    "xid": np.int64,
}
_COLUMNS = {
    **_KEPT,
    "type": np.int8,
    "kind": np.int8,
    "last_accessed": np.float64,
    "session": np.int32,
    "subject": np.int32,
    "embedded": np.bool_,
    "has_vector": np.bool_,
    "has_tokens": np.bool_,
    # What relevance is worked out from, beside the vectors (``jiyi.retrieval.relevance.Corpus``).
    "vector": (np.float32, 0),
    "length": np.float64,
    "centre_dot": np.float64,
    "centred_length": np.float64,
    "language": np.int8,
    "near": (np.int32, NEIGHBOURS),
    "share": (np.float64, NEIGHBOURS),
}


@dataclass(frozen=True, slots=True)
class IndexKey:
    """What an index is of."""

    group_id: str
    agent_id: str
    model: str
    #: Archived memories are in an index of their own kind, which few ask for: they do not slow down the others.
    archived: bool = False


class AgentIndex:
    """Columns over all memories of one agent, with vectors of one model. Use it under its ``lock``."""

    def __init__(self, key: IndexKey, statistics: Statistics | None = None) -> None:
        """``statistics`` of the agent's texts, for an index of only some of them (:meth:`load`)."""
        self.key = key
        self.lock = RLock()
        self._statistics = statistics
        self._identity: Identity | None = None
        self._reset()

    def _reset(self) -> None:
        self.columns = Columns(_COLUMNS, defaults={"near": -1})
        self.node_ids: list[UUID] = []
        self.keywords: list[frozenset[str]] = []
        #: Models of the vectors there are, this one's and others'.
        self.models: set[str] = set()
        self._row_of: dict[UUID, int] = {}
        self._sessions: dict[str, int] = {}
        self._subjects: dict[str, int] = {}
        self._lexicon = Lexicon(self._statistics)
        self._horizon = 0
        self._touched = touches.Cursor(self.key.group_id, self.key.agent_id)
        self._centre: Float32 = np.zeros(0, dtype=np.float32)
        #: Of how many rows the centre is the mean, and the last of them.
        self._centre_of = (0, -1)
        self._corpus: Corpus | None = None
        self._order: Rows = np.zeros(0, dtype=np.intp)
        #: Rows accessed, or new, since the order was worked out.
        self._moved: set[int] = set()
        #: What is shown of nodes that were retrieved lately: (xid of the row, its fields), see ``models.retrieval.descriptions``.
        self.described: OrderedDict[UUID, tuple[int, dict[str, Any]]] = OrderedDict()

    def reset_if_stale(self, identity: Identity | None) -> None:
        """Start over unless this was built from the same agent, and nothing of it was erased since.

        A row that is gone from the database is nothing that :meth:`refresh` could notice.
        """
        if identity != self._identity:
            self._reset()
            self._identity = identity

    @property
    def size(self) -> int:
        return self.columns.size

    @property
    def complete(self) -> bool:
        """Whether it has all of the agent's memories."""
        return self._statistics is None

    @property
    def vectors(self) -> Float32:
        return self.columns["vector"]

    @property
    def bytes_used(self) -> int:
        return self.columns.nbytes + self.size * ROW_BYTES + self._lexicon.bytes_used + len(self.described) * DESCRIBED_BYTES

    def refresh(self, connection: Connection) -> None:
        """Read what changed since the last look: rows from the database, access times from the other workers."""
        accesses = self._touched.read()  # first: a memory that is stored and accessed meanwhile keeps its access
        with driver(connection).cursor(binary=True) as cursor:
            found = cursor.execute(
                _CHANGED,
                {
                    "group": self.key.group_id,
                    "agent": self.key.agent_id,
                    "since": self._horizon,
                    "model": self.key.model,
                    # A row that the index has must be read again when it is archived, to be dropped.
                    "archived": self.key.archived or self._horizon > 0,
                },
            ).fetchall()
        oldest_running = found[0][_OLDEST_RUNNING]
        if found[0][_NODE_ID] is None:  # nothing has changed
            found = []
        if any(self._must_rebuild(row) for row in found):
            self._reset()
            self.refresh(connection)
            return
        self._horizon = oldest_running
        if changed := [row for row in found if self._is_changed(row)]:
            self._upsert_rows(changed)
        for node_id, at in accesses:
            self.touch(node_id, at)

    def load(self, connection: Connection, node_ids: Sequence[UUID]) -> None:
        """Take in some of the agent's rows, once, as they are now."""
        accesses = self._touched.read()
        with driver(connection).cursor(binary=True) as cursor:
            parameters = {"group": self.key.group_id, "agent": self.key.agent_id, "model": self.key.model, "ids": list(node_ids)}
            if found := cursor.execute(_NAMED, parameters).fetchall():
                self._upsert_rows(found)
        for node_id, at in accesses:
            self.touch(node_id, at)

    def touch(self, node_id: UUID, at: float) -> None:
        """An access; never moves a later one back."""
        row = self._row_of.get(node_id)
        if row is not None and at > self.columns["last_accessed"][row]:
            self.columns["last_accessed"][row] = at
            self._moved.add(row)

    def select(self, filters: Filters, *, mode: Mode, now: datetime) -> Rows:
        """The rows that may be retrieved, in their order (GA-19 … GA-22)."""
        columns = self.columns
        wanted_types = np.array([name in filters.types for name in TYPES])
        wanted_kinds = np.array([name in filters.kinds for name in KINDS])
        allowed = wanted_types[columns["type"]] & wanted_kinds[columns["kind"]]
        if not filters.include_superseded:
            allowed &= ~columns["superseded"]
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
        if self._moved:
            moved = self._moved_to_the_end(np.fromiter(self._moved, np.intp, len(self._moved)))
            self._order = self._sorted(np.arange(self.size)) if moved is None else moved
            self._moved.clear()
        return self._order

    def _moved_to_the_end(self, moved: Rows) -> Rows | None:
        """The order after accesses later than all others, which is what accesses are; None if some were not."""
        stays = np.ones(self.size, dtype=bool)
        stays[moved] = False
        rest = self._order[stays[self._order]]
        times = self.columns["last_accessed"]
        if rest.size and times[rest[-1]] >= times[moved].min():
            return None
        return np.concatenate([rest, self._sorted(moved)])

    def _sorted(self, rows: Rows) -> Rows:
        return rows[np.lexsort((self.columns["node_count"][rows], self.columns["last_accessed"][rows]))]

    def corpus(self) -> Corpus:
        """What relevance is worked out from: views, valid until the next refresh."""
        if self._corpus is None:
            columns = self.columns
            self._corpus = Corpus(
                vectors=columns["vector"],
                lengths=columns["length"],
                centre=self._centre,
                centre_dots=columns["centre_dot"],
                centred_lengths=columns["centred_length"],
                lexicon=self._lexicon,
                near=columns["near"],
                shares=columns["share"],
                languages=columns["language"],
                created=columns["created"],
                subjects=columns["subject"],
                subject_codes=self._subjects,
                counted=self._centre_of[0],
            )
        return self._corpus

    def _must_rebuild(self, row: Sequence[Any]) -> bool:
        """Whether a known row gets its tokens only now (postings grow at their end alone), or leaves for the archive."""
        position = self._row_of.get(row[_NODE_ID])
        if position is None:
            return False
        late = bool(row[_TOKENS]) and not self.columns["has_tokens"][position]
        return late or (row[_ARCHIVED] and not self.key.archived)

    def _is_changed(self, row: Sequence[Any]) -> bool:
        position = self._row_of.get(row[_NODE_ID])
        if position is None:
            return self.key.archived or not row[_ARCHIVED]
        return bool(self.columns["xid"][position] != row[_XID])

    def _upsert_rows(self, found: Sequence[Sequence[Any]]) -> None:
        """Add or replace rows."""
        new = [row for row in found if row[_NODE_ID] not in self._row_of]
        self._append(new)
        positions = np.fromiter((self._row_of[row[_NODE_ID]] for row in found), np.intp, len(found))
        read = dict(zip(_READ, zip(*found, strict=True), strict=False))
        values = {name: read[name] for name in _KEPT} | {
            "type": [TYPES.index(name) for name in read["type"]],
            "kind": [KINDS.index(name) for name in read["kind"]],
            "session": [_code(self._sessions, name) for name in read["session"]],
            "subject": [_code(self._subjects, normalise(name) if name else None) for name in read["subject"]],
            "embedded": [name is not None for name in read["model"]],
            "has_tokens": [bool(text) for text in read["tokens"]],
        }
        for position, row in zip(positions.tolist(), found, strict=True):
            self.keywords[position] = frozenset(row[_KEYWORDS])
        before = np.unique(self.columns["session"][positions])
        for name, column in values.items():
            self.columns[name][positions] = column
        self.models.update(name for name in read["model"] if name is not None)
        self._store_vectors(positions, read["vector"])
        self._update_neighbours(np.union1d(before, self.columns["session"][positions]))
        self._corpus = None

    def _append(self, new: Sequence[Sequence[Any]]) -> None:
        for position, row in zip(self.columns.extend(len(new)).tolist(), new, strict=True):
            self._row_of[row[_NODE_ID]] = position
            self.node_ids.append(row[_NODE_ID])
            self.keywords.append(frozenset())
            self._lexicon.add(row[_TOKENS].split())
            self.columns["last_accessed"][position] = row[_ACCESSED]
            self.columns["session"][position] = -1
            self.columns["language"][position] = language_code(row[_TOKENS])
            self._moved.add(position)

    def _store_vectors(self, positions: Rows, packed: Sequence[bytes | None]) -> None:
        """Store vectors; one of another size than the first counts as none (GA-45)."""
        columns = self.columns
        if not columns["vector"].shape[1] and (first := next((one for one in packed if one is not None), None)):
            columns.add_column("vector", np.float32, (len(first) - _VECTOR_HEADER) // _VALUE_BYTES)
        width = columns["vector"].shape[1]
        size = _VECTOR_HEADER + _VALUE_BYTES * width
        fits = np.array([one is not None and len(one) == size for one in packed])
        columns["vector"][positions[~fits]] = 0  # it may have had one by this model before
        whole = b"".join(one[_VECTOR_HEADER:] for one in packed if one is not None and len(one) == size)
        columns["vector"][positions[fits]] = np.frombuffer(whole, dtype=">f4").reshape(-1, width) if width else 0
        rows = columns["vector"][positions]
        columns["has_vector"][positions] = fits
        columns["length"][positions] = np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))
        self._update_centroid(positions)

    def _update_centroid(self, changed: Rows) -> None:
        """Recompute the centroid of the vectors, in steps as they grow, and project the changed rows on it."""
        has = np.flatnonzero(self.columns["length"] > MIN_NORM)
        step = max(1, 1 << max(int(has.size).bit_length() - CENTRE_STEPS.bit_length(), 0))
        trusted = has[: has.size - has.size % step]
        centre_of_now = (trusted.size, int(trusted[-1]) if trusted.size else -1)
        if centre_of_now != self._centre_of or (changed <= self._centre_of[1]).any():
            self._centre_of = centre_of_now
            self._centre = centre_of(self.vectors, self.columns["length"], trusted)
            changed = np.arange(self.size)
        vectors = self.vectors if changed.size == self.size else self.vectors[changed]
        dots, lengths = project_on_centroid(vectors, self.columns["length"][changed], self._centre)
        self.columns["centre_dot"][changed], self.columns["centred_length"][changed] = dots, lengths

    def _update_neighbours(self, sessions: NDArray[np.int32]) -> None:
        """Find the neighbours of each row of these sessions."""
        columns = self.columns
        rows = np.flatnonzero(np.isin(columns["session"], sessions))
        contents = self._lexicon.contents()[rows]
        near, shares = neighbours_of(columns["session"][rows], columns["created"][rows], columns["node_count"][rows], contents)
        columns["near"][rows] = np.where(near >= 0, rows[near], -1)
        columns["share"][rows] = shares


def _code(codes: dict[str, int], name: str | None) -> int:
    return -1 if name is None else codes.setdefault(name, len(codes))


#: Places in a row.
_PLACES = {name: place for place, name in enumerate(_READ)}
_NODE_ID, _ARCHIVED, _KEYWORDS, _TOKENS = _PLACES["node_id"], _PLACES["archived"], _PLACES["keywords"], _PLACES["tokens"]
_ACCESSED, _XID = _PLACES["last_accessed"], _PLACES["xid"]
#: Behind them, where it is asked for.
_OLDEST_RUNNING = len(_READ)

#: pgvector's binary form: two 16-bit numbers, then big-endian float32.
_VECTOR_HEADER, _VALUE_BYTES = 4, 4

_ROWS = f"""
    SELECT {", ".join(f"{sql} AS {name}" for name, sql in _READ.items())}
    FROM memory_nodes n JOIN node_access a USING (node_id)
        LEFT JOIN next_vectors v ON v.node_id = n.node_id AND v.model = %(model)s
    WHERE n.group_id = %(group)s AND n.agent_id = %(agent)s AND
"""  # noqa: S608 – our own names; values are parameters
# The oldest transaction still running comes from the same snapshot, with every row, and alone if there is none.
_CHANGED = f"""
    SELECT changed.*, look.oldest_running
    FROM (SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint AS oldest_running) look LEFT JOIN (
        {_ROWS} n.changed_xid >= %(since)s::text::xid8 AND (%(archived)s OR n.archived_at IS NULL) ORDER BY n.node_count
    ) changed ON true
"""  # noqa: S608 – our own names; values are parameters
_NAMED = _ROWS + "n.node_id = ANY(%(ids)s) ORDER BY n.node_count"
