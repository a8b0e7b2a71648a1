"""An agent's memories in the retrieval worker's memory, kept up to date by reading only what changed.

A row is changed by the transaction that ``changed_xid`` names. Before a look at the rows the oldest
transaction still running is noted (the snapshot's ``xmin``); whatever that one or a later one wrote is read
again the next time. So a row that is committed late, behind others with higher numbers, is not missed (design
§7).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from threading import RLock
from typing import Any, NamedTuple
from uuid import UUID

import numpy as np
from numpy.typing import NDArray
from psycopg import sql
from psycopg.rows import dict_row
from sqlalchemy import Connection

from engine.retrieval.corpus import FULL_CONTENT, NEIGHBOURS, NO_SESSION, Corpus, language_codes, with_hours
from engine.retrieval.lexicon import Codes, KeywordLists, Lexicon, Statistics
from engine.retrieval.ordering import MemoryView
from engine.retrieval.ranking import Candidates
from jiyi.protocol.memory import Memory
from jiyi.protocol.origins import STANDING_TRUST
from jiyi.protocol.retrieval import ScoredMemory
from jiyi.protocol.wire.vectors import Float32
from jiyi.text.words import normalise
from models.db.connection import driver, read_beside
from models.db.rows import names
from models.db.spans import statement_span
from models.memory import filters
from models.memory.agents import AgentRecord, Identity
from models.memory.filters import KINDS, TYPES, FilterValues
from models.memory.tables import MemoryNode
from models.retrieval import index_rows, records
from models.retrieval.columns import (
    NO_ROWS,
    AccessOrder,
    Centre,
    Columns,
    Rows,
    store_vectors,
    update_neighbours,
)
from models.retrieval.index_rows import MemoryColumns, Past

#: Bytes of a row beside its columns and tokens: its id, and where that is.
ROW_BYTES = 170
#: An index without rows, beside its columns: of thousands of small agents it is a third of all.
OBJECT_BYTES = 12_000
#: About what is kept of a node to show it.
DESCRIBED_BYTES = 2_000

#: Combinations of filters whose rows are kept.
KEPT_FILTERS = 8

#: Columns of the index that hold values as read; all others are computed from them.
_KEPT = {
    "node_count": np.int64,
    "type": np.int8,
    "kind": np.int8,
    "origin": np.int8,
    "trust": np.float64,
    "superseded": np.bool_,
    "created": np.float64,
    "expires": np.float64,
    "archived": np.bool_,
    "is_idle": np.bool_,
    "says_idle": np.bool_,
    "asks": np.bool_,
    "replies": np.bool_,
    "poignancy": np.float64,
    "xid": np.int64,
    "embedded": np.bool_,
}
_COLUMNS = {
    **_KEPT,
    "last_accessed": np.float64,
    "session": np.int32,
    "subject": np.int32,
    "has_vector": np.bool_,
    # Whether it says anything, and whether what is usual is measured by it: a question and the answer to it
    # change no other question's.
    "says": np.bool_,
    "counts": np.bool_,
    "has_tokens": np.bool_,
    # What relevance is worked out from, beside the vectors (``engine.retrieval.corpus.Corpus``).
    "vector": (np.float32, 0),
    "length": np.float64,
    "centre_dot": np.float64,
    "centred_length": np.float64,
    "language": np.int8,
    "near": (np.int32, NEIGHBOURS),
    "share": (np.float64, NEIGHBOURS),
}


class IndexKey(NamedTuple):
    """What an index is of. Each user has one of their own: what others said in private has no part in its
    scores.
    """

    group_id: str
    agent_id: str
    model: str
    #: Values of a vector that can be compared; others count as none. 0 where nothing is compared.
    dimensions: int
    #: Archived memories are in an index of their own kind, which few ask for: they do not slow down the
    #: others.
    archived: bool = False
    #: It has the memories visible to this user; for None those visible to all.
    user_id: str | None = None


class AgentIndex:
    """Columns over all memories of one agent, with vectors of one model and size. Use it under its
    ``lock``.
    """

    def __init__(self, key: IndexKey, statistics: Statistics | None = None) -> None:
        """``statistics`` of the agent's texts, for an index of only some of them (:meth:`load`)."""
        self.key = key
        self.lock = RLock()
        self._statistics = statistics
        self._identity: Identity | None = None
        self._reset()

    def _reset(self) -> None:
        self.columns = Columns(_COLUMNS, defaults={"near": -1})
        #: Models of the vectors there are, this one's and others'.
        self.models: set[str] = set()
        #: Sizes of this model's vectors, those that cannot be compared included.
        self.sizes: set[int] = set()
        #: Each row's id as 16 bytes, and the way back.
        self._ids: list[bytes] = []
        self._row_of: dict[bytes, int] = {}
        self._keywords = KeywordLists()
        self.sessions: dict[str | None, int] = {None: NO_SESSION}
        #: Codes by normalised name; and the same by each name as written.
        self.subjects = Codes()
        self._subject_of: dict[str | None, int] = {None: -1}
        self._lexicon = Lexicon(self._statistics)
        self.horizon = 0
        self._touched = records.Cursor(self.key.group_id, self.key.agent_id)
        #: Accesses of memories that are not here yet.
        self._early: list[records.Access] = []
        self._centre = Centre()
        self._corpus: Corpus | None = None
        self._allowed_rows: dict[Hashable, NDArray[np.bool_]] = {}
        self._order = AccessOrder()
        #: What is shown of rows that were retrieved lately, see ``models.retrieval.agent_index``.
        self.described: OrderedDict[int, Described] = OrderedDict()

    def reset_if_stale(self, identity: Identity | None) -> None:
        """Start over unless this was built from the same agent, and nothing was erased since: no row records
        an erasure.
        """
        if identity != self._identity:
            if self.horizon:
                self._reset()
            self._identity = identity

    @property
    def size(self) -> int:
        return self.columns.size

    @property
    def _whose(self) -> index_rows.IndexScope:
        return index_rows.IndexScope(self.key.group_id, self.key.agent_id, self.key.model, self.key.user_id)

    @property
    def complete(self) -> bool:
        return self._statistics is None

    @property
    def vectors(self) -> Float32:
        return self.columns["vector"]

    @property
    def bytes_used(self) -> int:
        texts = self._lexicon.bytes_used + self._keywords.nbytes
        rows = self.columns.nbytes + self.size * ROW_BYTES
        return OBJECT_BYTES + rows + texts + len(self.described) * DESCRIBED_BYTES

    def node_id(self, row: int) -> UUID:
        return UUID(bytes=self._ids[row])

    def row_of(self, node_id: UUID) -> int:
        """Where a memory is that is here."""
        return self._row_of[node_id.bytes]

    def keywords(self, row: int) -> frozenset[str]:
        """In lower case."""
        return self._keywords[row]

    def refresh(self, connection: Connection, agent: AgentRecord | None = None) -> None:
        """Read what changed since the last look: rows from the database, access times from the other workers.

        ``agent`` is its record as it was just read: unchanged memories then cost no trip of their own.
        """
        if not self.horizon:
            if agent is not None and agent.large and self.key.user_id is not None:
                self._take([index_rows.visible_rows(connection, self._whose, archived=self.key.archived)])
            else:
                self._read_all(connection, 0 if agent is None else agent.node_count)
        elif agent is None or agent.changed_xid >= self.horizon:
            self._read_changed(connection)
        else:
            self.horizon = agent.oldest_running
        self._read_accesses(connection)

    def load(self, connection: Connection, node_ids: Iterable[UUID], past: Past | None = None) -> None:
        """Take in some of the agent's rows, once, as they are now or were."""
        ids = sorted(node_ids)  # the older first, as ids are made
        first, second = ids[: len(ids) // 2], ids[len(ids) // 2 :]
        rows_of = partial(index_rows.rows_of_ids, whose=self._whose, past=past)
        rest = read_beside(partial(rows_of, node_ids=second), connection)
        self._take(read() for read in (partial(rows_of, connection, node_ids=first), rest))
        if past is None:
            self._read_accesses(connection)

    def load_past(self, connection: Connection, expected: int, past: Past) -> None:
        """Take in, once, all rows that were there at a time of the past, as they were."""
        self._read_all(connection, expected, past)

    def _read_all(self, connection: Connection, expected: int, past: Past | None = None) -> None:
        """From the beginning; ``expected`` is the highest ``node_count`` that is known of."""
        self.columns.reserve(0 if self.key.user_id is not None else expected)
        archived = self.key.archived
        self._take(
            index_rows.all_rows(connection, self._whose, archived=archived, expected=expected, past=past)
        )

    def _read_changed(self, connection: Connection) -> None:
        key = self.key
        rows = index_rows.changed_rows(connection, self._whose, self.horizon)
        positions = self._positions(rows)
        # A row that is known gets its tokens only now (postings grow at their end alone), or leaves for the
        # archive.
        here, archived = positions >= 0, rows.numbers["archived"] & (not key.archived)
        if (rows.has_tokens[here] & ~self.columns["has_tokens"][positions[here]]).any() or archived[
            here
        ].any():
            expected = int(self.columns["node_count"].max())
            self._reset()
            self._read_all(connection, expected)
            return
        mask = ~archived
        mask[here] = self.columns["xid"][positions[here]] != rows.numbers["xid"][here]
        self._take([rows if mask.all() else rows.only(mask)])

    def _read_accesses(self, connection: Connection) -> None:
        accesses, early = self._touched.read(), self._early
        # One may be of a memory that was stored after the look at the rows: the next look finds it.
        self._early = [
            access for access in accesses if not all(map(self._row_of.__contains__, access.node_ids))
        ]
        for access in (*early, *accesses):
            self.touch(access.node_ids, access.at)
        if self._touched.missed:
            self._catch_up(connection)
            self._touched.missed = False

    def _catch_up(self, connection: Connection) -> None:
        """Take over the access times that the database knows; none moves back."""
        node_ids, times = index_rows.access_times(connection, self._whose, archived=self.key.archived)
        rows = np.fromiter((self._row_of.get(node_id, -1) for node_id in node_ids), np.intp, len(node_ids))
        rows, times = rows[rows >= 0], times[rows >= 0]
        last = self.columns["last_accessed"]
        later = last[rows] < times
        last[rows[later]] = times[later]
        self._order.move(rows[later].tolist())

    def touch(self, node_ids: Iterable[bytes], at: float) -> None:
        rows = [row for node_id in node_ids if (row := self._row_of.get(node_id)) is not None]
        if rows:
            last = self.columns["last_accessed"]
            later = [row for row, before in zip(rows, last[rows].tolist(), strict=True) if before < at]
            last[later] = at
            self._order.move(later)

    def select(self, filter_values: FilterValues) -> Rows:
        """The rows that may be retrieved, in their order."""
        allowed = self._allowed(
            {name: value for name, value in filter_values.items() if name != "include_expired"}
        )
        # At a moment of each question's own.
        unexpired = filters.passing(self, "include_expired", filter_values.get("include_expired"))
        return np.flatnonzero(allowed if unexpired is None else allowed & unexpired)

    def superseded(self, filter_values: FilterValues) -> Rows:
        """The rows that are left out only because something newer superseded them."""
        if "superseded" not in filter_values or not self.columns["superseded"].any():
            return NO_ROWS
        rows = self.select({name: value for name, value in filter_values.items() if name != "superseded"})
        return np.asarray(rows[self.columns["superseded"][rows]])

    def _allowed(self, filter_values: FilterValues) -> NDArray[np.bool_]:
        """The rows that pass: kept while no row changes."""
        key = tuple(
            (name, tuple(value) if isinstance(value, list) else value)
            for name, value in filter_values.items()
        )
        if key not in self._allowed_rows:
            allowed = np.ones(self.size, dtype=bool)
            for name, value in filter_values.items():
                if (passing := filters.passing(self, name, value)) is not None:
                    allowed &= passing
            if len(self._allowed_rows) >= KEPT_FILTERS:
                self._allowed_rows.clear()
            self._allowed_rows[key] = allowed
        return self._allowed_rows[key]

    def in_session(self, session_id: str) -> NDArray[np.bool_]:
        return np.asarray(self.columns["session"] == self.sessions.get(session_id, -2))

    def with_keywords(self, keywords: Sequence[str]) -> NDArray[np.bool_]:
        return self._keywords.having_any(keywords)

    def access_order(self, rows: Rows | None = None) -> Rows:
        """All rows, least recently accessed first, the older on ties; or their positions in ``rows``."""
        order = self._order.rows(self.columns["last_accessed"], self.columns["node_count"])
        if rows is None or rows.size == self.size:
            return order
        position = np.full(self.size, -1, dtype=np.intp)
        position[rows] = np.arange(rows.size)
        places = position[order]
        return places[places >= 0]

    def candidates(self, rows: Rows, *, with_vectors: bool) -> Candidates:
        def column(name: str) -> NDArray[Any]:
            return self.columns[name] if rows.size == self.size else self.columns[name][rows]

        return Candidates(
            node_count=column("node_count"),
            is_thought=column("type") == TYPES.index("thought"),
            last_accessed=column("last_accessed"),
            poignancy=column("poignancy"),
            vectors=self.vectors[rows] if with_vectors else self.vectors[:0],
        )

    def corpus(self) -> Corpus:
        """What relevance is worked out from: views, valid until the next refresh."""
        if self._corpus is None:
            columns = self.columns
            self._corpus = Corpus(
                vectors=columns["vector"],
                lengths=columns["length"],
                sums=self._centre.sums,
                counts=self._centre.counts,
                centre=self._centre.vector,
                centre_dots=columns["centre_dot"],
                centred_lengths=columns["centred_length"],
                lexicon=self._lexicon,
                near=columns["near"],
                shares=columns["share"],
                languages=columns["language"],
                created=columns["created"],
                subjects=columns["subject"],
                subject_codes=self.subjects,
                counted=self._counted,
            )
        return self._corpus

    def _positions(self, rows: MemoryColumns) -> Rows:
        """Where the rows are; -1 for those that are not here yet."""
        return np.fromiter((self._row_of.get(node_id, -1) for node_id in rows.ids), np.intp, len(rows))

    def _take(self, parts: Iterable[MemoryColumns]) -> None:
        """Add or replace rows; what is worked out from all of them is worked out once."""
        changed, sessions, horizon = [], [], 0
        try:
            for rows in parts:
                # Of the first part: what changes meanwhile is read again.
                horizon = horizon or rows.oldest_running
                if len(rows):
                    positions = self._place(rows)
                    sessions.append(self.columns["session"][positions])
                    self._store(positions, rows)
                    store_vectors(self.columns, positions, rows, self.key.dimensions)
                    sessions.append(self.columns["session"][positions])
                    changed.append(positions)
            if changed:
                contents = self._lexicon.contents()
                self._judge(np.concatenate(changed), contents)
                self._centre.update(self.columns, np.concatenate(changed))
                update_neighbours(self.columns, np.unique(np.concatenate(sessions)), contents)
                self._corpus = None
                self._allowed_rows.clear()
        except BaseException:
            self._reset()  # half of it is here, of which nobody would know which
            raise
        self.horizon = horizon

    def _judge(self, changed: Rows, contents: NDArray[np.int32]) -> None:
        """Note what the changed rows say, and what counts; ``contents``: telling words of each row of all."""
        columns = self.columns
        replies = columns["replies"][changed]
        # "Noted." is an echo.
        least = np.where(replies, FULL_CONTENT, columns["kind"][changed] == KINDS.index("session"))
        columns["says"][changed] = ~columns["asks"][changed] & (contents[changed] >= least)
        columns["counts"][changed] = columns["says"][changed] & ~replies
        self._lexicon.count_only(self._counted)

    @property
    def _counted(self) -> NDArray[np.bool_] | None:
        """The rows that count; None if all do, or none does."""
        counts = self.columns["counts"]
        return None if counts.all() or not counts.any() else counts

    def _place(self, rows: MemoryColumns) -> Rows:
        """The rows' positions: new ones are added, with what never changes."""
        positions = self._positions(rows)
        new = positions < 0
        if not new.all():
            lists = index_rows.lists_of(rows.keywords)
            for position, keywords in zip(positions.tolist(), lists, strict=True):
                if position >= 0:
                    self._keywords.replace(position, keywords)
        if new.any():
            positions[new] = self._append(rows if new.all() else rows.only(new))
        return positions

    def _append(self, rows: MemoryColumns) -> Rows:
        """With what never changes, and the keywords."""
        added = self.columns.extend(len(rows))
        ids, tokens = rows.ids, rows.tokens
        self._ids += ids
        self._row_of.update(zip(ids, added.tolist(), strict=True))
        self._lexicon.extend(tokens)
        self._keywords.extend(rows.keywords)
        self.columns["language"][added] = language_codes(tokens)
        self.columns["last_accessed"][added] = rows.numbers["last_accessed"]
        self.columns["session"][added] = NO_SESSION
        self._order.move(added.tolist())
        return added

    def _store(self, positions: Rows, rows: MemoryColumns) -> None:
        columns = self.columns
        for name in _KEPT:
            columns[name][positions] = rows.numbers[name]
        sessions = _coded(self.sessions, rows.sessions, lambda _: len(self.sessions) - 1)
        is_observation = (columns["type"][positions] != TYPES.index("thought")) & (
            columns["kind"][positions] == KINDS.index("memory")
        )
        who = _coded(
            self._subject_of, rows.subjects, lambda name: self.subjects[normalise(name)] if name else -1
        )
        columns["subject"][positions] = who
        columns["session"][positions] = np.where(
            is_observation, with_hours(sessions, columns["created"][positions], who), sessions
        )
        columns["has_tokens"][positions] = rows.has_tokens
        of_another = np.fromiter((name is not None for name in rows.other_models), np.bool_, len(rows))
        self.sizes.update(np.unique(rows.numbers["dimensions"]).tolist())
        self.models.update(name for name in rows.other_models if name is not None)
        if (rows.numbers["embedded"] & ~of_another).any():
            self.models.add(self.key.model)


def _coded(
    codes: dict[str | None, int], names: Sequence[str | None], code: Callable[[str], int]
) -> NDArray[np.int32]:
    """The names' codes; those that were not met yet get theirs from ``code``."""
    for name in set(names) - codes.keys():
        if name is not None:
            codes[name] = code(name)
    return np.fromiter(map(codes.__getitem__, names), np.int32, len(names))


@dataclass(frozen=True, slots=True)
class Described:
    """A memory as it was when the transaction ``xid`` had changed it."""

    xid: int
    #: Those of a :class:`jiyi.protocol.retrieval.ScoredMemory` that are columns.
    fields: dict[str, Any]
    #: What its rank in an answer depends on.
    ordering: MemoryView

    @classmethod
    def of(cls, xid: int, fields: dict[str, Any]) -> Described:
        evidence = fields["filling"] if fields["type"] == "thought" else []
        ordering = MemoryView(
            fields["node_id"],
            fields["embedding_key"],
            fields["created_at"].timestamp(),
            fields["subject"],
            frozenset(UUID(node_id) for node_id in evidence),
            fields["user_id"],
            fields["trust"] >= STANDING_TRUST,
        )
        return cls(xid, fields, ordering)


#: Memories whose fields an index caches: the same ones are retrieved again and again.
CACHED = 1_000


def describe(
    connection: Connection, index: AgentIndex, rows: Rows
) -> tuple[dict[int, dict[str, Any]], dict[int, MemoryView]]:
    """The fields of the index's rows, and what their ranks depend on, by row. Under the index's lock."""
    positions, xids = rows.tolist(), index.columns["xid"][rows].tolist()
    accessed = index.columns["last_accessed"][rows].tolist()
    # Of many at once, as they were returned together.
    times = {at: datetime.fromtimestamp(at, UTC) for at in set(accessed)}
    cache = index.described
    new = [
        index.node_id(row)
        for row, xid in dict(zip(positions, xids, strict=True)).items()
        if row not in cache or cache[row].xid != xid
    ]
    if new:
        with (
            statement_span("SELECT … FROM memory_nodes"),
            driver(connection).cursor(binary=True, row_factory=dict_row) as cursor,
        ):
            for fields_of in cursor.execute(_DESCRIBE, {"group": index.key.group_id, "ids": new}):
                cache[index.row_of(fields_of["node_id"])] = Described.of(
                    fields_of.pop("xid"), fields_of | _NOT_READ
                )
    fields, orderings = {}, {}
    states = (index.columns[state][rows].tolist() for state in _SINCE)  # at the time that was asked about
    for row, at, *is_so in zip(positions, accessed, *states, strict=True):
        described = cache.get(row)
        if described is not None:  # not erased meanwhile
            cache.move_to_end(row)
            # The database hears of accesses later than the index.
            fields[row] = described.fields | {"last_accessed": times[at]}
            for state, nothing in zip(is_so, _SINCE.values(), strict=True):
                if not state:
                    fields[row].update(nothing)
            orderings[row] = described.ordering
    while len(cache) > CACHED:
        cache.popitem(last=False)
    return fields, orderings


#: What only other questions read of a memory: see its fields.
_NOT_READ = {
    name: Memory.model_fields[name].get_default()
    for name in ("access_count", "dimensions", "supersedes", "recent")
}
#: What a memory of the index's time has nothing of yet.
_SINCE = {
    "superseded": {"superseded_by": None, "superseded_at": None},
    "archived": {"archived_at": None, "archived_reason": None},
}
_FIELDS = sql.SQL(", ").join(map(sql.Identifier, names(ScoredMemory, MemoryNode)))
_DESCRIBING = sql.SQL("""
    SELECT {}, changed_xid::text::bigint AS xid FROM memory_nodes WHERE group_id = %(group)s
    AND node_id = ANY(%(ids)s)
""").format(_FIELDS)
#: Psycopg parses a string once; a ``Composed`` is rendered again for each question.
_DESCRIBE = _DESCRIBING.as_string()
