"""What an index in memory holds of each memory, read from PostgreSQL as columns.

Each column of many rows comes as one value, packed as PostgreSQL sends single values, and becomes an array
unchanged: nothing is done for each row. An agent of 100,000 memories is read in about a second.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import datetime
from itertools import chain, compress
from typing import Any, LiteralString, NamedTuple
from uuid import UUID

import numpy as np
import psycopg
from numpy.typing import NDArray
from psycopg import sql
from pydantic_core import from_json, to_json
from sqlalchemy import Connection

from engine.retrieval.ranking import Floats
from jiyi.protocol.origins import ORIGINS
from jiyi.protocol.wire.vectors import Float32
from models.db.connection import driver, is_pooled
from models.db.spans import statement_span
from models.memory.filters import ASKS, FILTERS, KINDS, NOT_ARCHIVED, REPLIES, TYPES, VISIBLE

#: Rows aggregated into one value of each column. With more, the vectors take longer to send than to read:
#: PostgreSQL allocates that much memory again each time. Those of 128 rows of 384 values are 200 kB.
TOGETHER = 128
#: Rows that are asked for at once: 98 times for the 100,000 rows of a large agent.
AT_ONCE = 8 * TOGETHER

#: Column → what is read of a memory, PostgreSQL's function that packs it, and the packed values' type.
_PACKED = {
    "node_id": ("n.node_id", "uuid_send", "V16"),
    "node_count": ("n.node_count", "int4send", ">i4"),
    "type": (f"array_position(ARRAY{list(TYPES)}, n.type) - 1", "int4send", ">i4"),
    "kind": (f"array_position(ARRAY{list(KINDS)}, coalesce(n.kind, 'memory')) - 1", "int4send", ">i4"),
    "origin": (f"array_position(ARRAY{list(ORIGINS)}, n.origin) - 1", "int4send", ">i4"),
    "trust": ("n.trust", "float8send", ">f8"),
    "superseded": ("n.superseded_at IS NOT NULL", "boolsend", "?"),
    "created": ("n.created_at", "timestamptz_send", ">i8"),
    "expires": ("coalesce(n.expires_at, 'infinity')", "timestamptz_send", ">i8"),
    "last_accessed": ("a.last_accessed", "timestamptz_send", ">i8"),
    "archived": ("n.archived_at IS NOT NULL", "boolsend", "?"),
    "is_idle": ("n.is_idle", "boolsend", "?"),
    "asks": (ASKS, "boolsend", "?"),
    "replies": (REPLIES, "boolsend", "?"),
    "says_idle": ("strpos(n.embedding_key, 'idle') > 0", "boolsend", "?"),
    "poignancy": ("coalesce(n.poignancy, 0)", "float8send", ">f8"),
    "xid": ("n.changed_xid::text::bigint", "int8send", ">i8"),
    "embedded": ("n.model IS NOT NULL", "boolsend", "?"),
    "has_any_vector": ("n.vector IS NOT NULL", "boolsend", "?"),
}
#: Column → what comes as a JSON list.
_LISTED = {"session": "n.session_id", "subject": "n.subject", "other_model": "nullif(n.model, %(model)s)"}
_TIMES = ("created", "expires", "last_accessed")

#: timestamptz: microseconds since 2000, the greatest number for infinity.
_EPOCH_MICROSECONDS, _INFINITY = 946_684_800_000_000, np.iinfo(np.int64).max
#: pgvector's binary form: two 16-bit numbers, then big-endian float32.
_VECTOR_HEADER, _VALUE_BYTES = 4, 4


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryColumns:
    """Some of an agent's memories, by ``node_count``, as columns."""

    #: Name → values of numbers; ``node_id`` as 16 bytes, times as epoch seconds.
    numbers: dict[str, NDArray[Any]]
    sessions: list[str | None]
    subjects: list[str | None]
    #: Of rows one after the other, each text a JSON list of some rows' lists: few questions ask for them.
    keywords: list[str]
    #: Tokens with spaces between.
    tokens: list[str]
    #: Of vectors of other models than this one, which are not read.
    other_models: list[str | None]
    #: The vectors' binary forms one after the other.
    packed_vectors: bytes
    #: The oldest transaction still running when they were read.
    oldest_running: int

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def ids(self) -> list[bytes]:
        ids: list[bytes] = self.numbers["node_id"].tolist()
        return ids

    @property
    def has_tokens(self) -> NDArray[np.bool_]:
        return np.fromiter(map(bool, self.tokens), np.bool_, len(self.tokens))

    def only(self, mask: NDArray[np.bool_]) -> MemoryColumns:
        sizes = self._vector_bytes()
        ends = np.cumsum(sizes)
        places = np.flatnonzero(mask).tolist()
        return MemoryColumns(
            numbers={name: values[mask] for name, values in self.numbers.items()},
            sessions=[self.sessions[place] for place in places],
            subjects=[self.subjects[place] for place in places],
            keywords=[to_json(list(compress(lists_of(self.keywords), mask.tolist()))).decode()],
            tokens=[self.tokens[place] for place in places],
            other_models=[self.other_models[place] for place in places],
            packed_vectors=b"".join(
                self.packed_vectors[ends[place] - sizes[place] : ends[place]] for place in places
            ),
            oldest_running=self.oldest_running,
        )

    def _vector_bytes(self) -> NDArray[np.int64]:
        dimensions = self.numbers["dimensions"].astype(np.int64)
        return np.where(dimensions > 0, _VECTOR_HEADER + _VALUE_BYTES * dimensions, 0)

    def vectors(self, width: int) -> tuple[NDArray[np.bool_], Float32]:
        """Which rows have a vector of so many values, and these vectors."""
        dimensions = self.numbers["dimensions"]
        fits = (dimensions == width) & (dimensions > 0)
        record = np.dtype([("header", f"V{_VECTOR_HEADER}"), ("values", ">f4", (width,))])
        if fits.sum() == np.count_nonzero(dimensions):
            return fits, np.frombuffer(self.packed_vectors, record)["values"]
        ends = np.cumsum(self._vector_bytes())
        those = (self.packed_vectors[end - record.itemsize : end] for end in ends[fits].tolist())
        return fits, np.frombuffer(b"".join(those), record)["values"]


class Past(NamedTuple):
    """A time of the past: what was stored by then, with the accesses until ``accessed`` of the agent's
    time.
    """

    as_of: datetime
    accessed: datetime


class IndexScope(NamedTuple):
    """An agent's memories that are visible to the user, with the vectors of a model; without a user those
    visible to all.
    """

    group: str
    agent: str
    model: str
    user_id: str | None = None


def all_rows(
    connection: Connection, whose: IndexScope, *, archived: bool, expected: int, past: Past | None = None
) -> Iterator[MemoryColumns]:
    """All memories of an agent, archived ones if wanted, in parts of ``AT_ONCE`` numbers; at least one part.

    ``expected``: the highest ``node_count`` that is known of; the last part has all above it, too. While a
    part is taken in, PostgreSQL gathers the next one: nothing else may use the connection until the last.
    """

    def ask(after: int) -> psycopg.Cursor[Any]:
        rest = max(-(-(expected - after) // TOGETHER), 1)
        these = {
            "archived": archived,
            "after": after,
            "count": min(rest, AT_ONCE // TOGETHER),
            "last": rest - 1,
        }
        query, moments = (_ALL, {}) if past is None else (_ALL_PAST, past._asdict())
        return _ask(connection, query, whose, **these, **moments)

    starts = range(0, max(expected, 1), AT_ONCE)
    one_trip = len(starts) == 1 or is_pooled()  # not every PgBouncer knows how to do otherwise
    with nullcontext() if one_trip else driver(connection).pipeline():
        cursor = ask(0)
        for start in starts[1:]:
            following = ask(start)
            yield _rows_of(cursor)
            cursor = following
        yield _rows_of(cursor)


def lists_of(packed: Sequence[str]) -> Iterator[list[str]]:
    """Each row's list, from JSON lists of some rows' lists each."""
    return chain.from_iterable(map(from_json, packed))


def changed_rows(connection: Connection, whose: IndexScope, since: int) -> MemoryColumns:
    """Those that transactions changed from ``since`` on, also archived ones."""
    return _read(connection, _CHANGED, whose, since=since)


def rows_of_ids(
    connection: Connection, whose: IndexScope, node_ids: Sequence[UUID], past: Past | None = None
) -> MemoryColumns:
    query, moments = (_NAMED, {}) if past is None else (_NAMED_PAST, past._asdict())
    return _read(connection, query, whose, ids=list(node_ids), **moments)


def visible_rows(connection: Connection, whose: IndexScope, *, archived: bool) -> MemoryColumns:
    """All memories of a large agent visible to the user, few rows among many; see :func:`few_visible`."""
    return _read(connection, _VISIBLE_LARGE, whose, archived=archived)


def few_visible(connection: Connection, whose: IndexScope, most: int) -> bool:
    """Whether at most so many memories of a large agent are visible to the user."""
    with driver(connection).cursor(binary=True) as cursor:
        row = cursor.execute(_COUNT, {**whose._asdict(), "limit": most + 1}).fetchone()
    assert row is not None  # an aggregate
    return bool(row[0] <= most)


def access_times(connection: Connection, whose: IndexScope, *, archived: bool) -> tuple[list[bytes], Floats]:
    """The ids of an agent's memories, and when each was accessed last, as the database knows it."""
    with driver(connection).cursor(binary=True) as cursor:
        packed = cursor.execute(_ACCESS_TIMES, {**whose._asdict(), "archived": archived}).fetchone()
    assert packed is not None  # an aggregate
    (_, _, id_type), (_, _, time_type) = _PACKED["node_id"], _PACKED["last_accessed"]
    node_ids, times = packed
    return np.frombuffer(node_ids or b"", id_type).tolist(), _seconds(np.frombuffer(times or b"", time_type))


def _read(connection: Connection, query: sql.Composed, whose: IndexScope, **parameters: Any) -> MemoryColumns:
    return _rows_of(_ask(connection, query, whose, **parameters))


def _ask(
    connection: Connection, query: sql.Composed, whose: IndexScope, **parameters: Any
) -> psycopg.Cursor[Any]:
    with statement_span("SELECT … FROM memory_nodes"):
        return driver(connection).cursor(binary=True).execute(query, {**whose._asdict(), **parameters})


def _rows_of(cursor: psycopg.Cursor[Any]) -> MemoryColumns:
    parts = cursor.fetchall()
    cursor.close()
    read = {
        name: [value for value in values if value is not None]
        for name, values in zip(_NAMES, zip(*parts, strict=True), strict=True)
    }
    numbers = {name: np.frombuffer(b"".join(read[name]), dtype) for name, (_, _, dtype) in _PACKED.items()}
    for name in _TIMES:
        numbers[name] = _seconds(numbers[name])
    # Not by vector_dims(), for which PostgreSQL would have to get each vector twice.
    vectors = b"".join(read["vectors"])
    numbers["dimensions"] = dimensions_of(numbers.pop("has_any_vector"), vectors)
    return MemoryColumns(
        numbers=numbers,
        sessions=list(chain.from_iterable(read["session"])),
        subjects=list(chain.from_iterable(read["subject"])),
        keywords=read["keywords"],
        tokens="\n".join(read["tokens"]).split("\n") if numbers["node_id"].size else [],
        other_models=list(chain.from_iterable(read["other_model"])),
        packed_vectors=vectors,
        oldest_running=read["oldest_running"][0],
    )


def dimensions_of(has: NDArray[np.bool_], packed: bytes) -> NDArray[np.int32]:
    """The number of each vector's values, 0 where there is none, from the binary forms of those there are."""
    dimensions = np.zeros(has.size, np.int32)
    if not packed:
        return dimensions
    first = int.from_bytes(packed[:2], "big")
    length = _VECTOR_HEADER + _VALUE_BYTES * first
    if len(packed) == np.count_nonzero(has) * length:
        heads = np.frombuffer(packed, np.dtype([("size", ">u2"), ("rest", f"V{length - 2}")]))
        if (heads["size"] == first).all():
            dimensions[has] = first
            return dimensions
    sizes, at = list[int](), 0
    while at < len(packed):
        sizes.append(int.from_bytes(packed[at : at + 2], "big"))
        at += _VECTOR_HEADER + _VALUE_BYTES * sizes[-1]
    dimensions[has] = sizes
    return dimensions


def _seconds(microseconds: NDArray[np.int64]) -> Floats:
    """Epoch seconds, to the bit what ``extract(epoch FROM …)`` gives."""
    infinite = microseconds == _INFINITY
    return np.where(infinite, np.inf, (np.where(infinite, 0, microseconds) + _EPOCH_MICROSECONDS) / 1e6)


# The order of what is gathered is that of the rows beneath, which PostgreSQL keeps for aggregates without an
# order of their own.
_GATHERED = {
    **{name: f"string_agg({packed}({name}), ''::bytea)" for name, (_, packed, _) in _PACKED.items()},
    **{name: f"json_agg({name})" for name in _LISTED},
    "keywords": "json_agg(keywords)::text",
    "tokens": "string_agg(tokens, E'\\n')",  # which have no white space in them
    "vectors": "string_agg(vector_send(vector), ''::bytea)",
    "oldest_running": "pg_snapshot_xmin(pg_current_snapshot())::text::bigint",
}
_NAMES = tuple(_GATHERED)
_READ = (
    {name: read for name, (read, *_) in _PACKED.items()}
    | _LISTED
    | {"keywords": "n.keywords_lower", "tokens": "n.tokens", "vector": "n.vector"}
)
#: The same as it was: of accesses the latest ones are known, of others that there was none but its creation.
_READ_PAST = _READ | {
    "superseded": "coalesce(coalesce(n.superseded_since, n.superseded_at) <= %(as_of)s, false)",
    "archived": "coalesce(n.archived_at <= %(as_of)s, false)",
    "last_accessed": """coalesce(
        CASE WHEN a.last_accessed <= %(accessed)s THEN a.last_accessed END,
        (SELECT max(accessed) FROM unnest(a.recent) AS accessed WHERE accessed <= %(accessed)s), n.created_at
    )""",
}


def _query(read: Mapping[str, str], condition: sql.Composable) -> sql.Composed:
    return sql.SQL(
        f"""
        SELECT {", ".join(_GATHERED.values())} FROM (
            SELECT {", ".join(f"{column} AS {name}" for name, column in read.items())}
            FROM (
                SELECT n.*, coalesce(v.model, n.embedding_model) AS model,
                    coalesce(v.embedding, CASE WHEN n.embedding_model = %(model)s THEN n.embedding END) AS
                    vector
                FROM memory_nodes n LEFT JOIN next_vectors v
                    ON v.node_id = n.node_id AND v.group_id = n.group_id AND v.model = %(model)s
                WHERE n.group_id = %(group)s AND n.agent_id = %(agent)s AND {VISIBLE} AND
        """  # noqa: S608 – our own names; values are parameters
        "{} ) n JOIN node_access a USING (node_id, group_id) ORDER BY n.node_count ) rows"
    ).format(condition)


_BOUNDS = sql.SQL("""
    n.node_count > %(after)s + part * {together}
    AND n.node_count <= CASE WHEN part = %(last)s THEN {most} ELSE %(after)s + (part + 1) * {together} END
""").format(together=TOGETHER, most=np.iinfo(np.int32).max)
_PARTS = """
    SELECT rows.* FROM generate_series(0, {parts} - 1) AS part, LATERAL ({rows}) AS rows
    WHERE part < %(count)s
"""


def _in_parts(read: Mapping[str, str], condition: LiteralString) -> sql.Composed:
    return sql.SQL(_PARTS).format(parts=AT_ONCE // TOGETHER, rows=_query(read, _BOUNDS + sql.SQL(condition)))


_ALL = _in_parts(_READ, f"AND (%(archived)s OR {NOT_ARCHIVED})")
_ALL_PAST = _in_parts(
    _READ_PAST, f"AND {FILTERS['as_of'].sql} AND (%(archived)s OR {FILTERS['include_archived'].past})"
)
_ACCESS_TIMES = sql.SQL(f"""
    SELECT string_agg(uuid_send(a.node_id), ''::bytea), string_agg(timestamptz_send(a.last_accessed),
    ''::bytea)
    FROM memory_nodes n JOIN node_access a USING (node_id, group_id)
    WHERE n.group_id = %(group)s AND n.agent_id = %(agent)s AND {VISIBLE} AND (%(archived)s OR {NOT_ARCHIVED})
""")  # noqa: S608 – as above
_CHANGED = _query(_READ, sql.SQL("n.changed_xid >= %(since)s::text::xid8"))
_NAMED = _query(_READ, sql.SQL("n.node_id = ANY(%(ids)s)"))
_NAMED_PAST = _query(_READ_PAST, sql.SQL("n.node_id = ANY(%(ids)s)"))
_VISIBLE_LARGE = _query(_READ, sql.SQL(f"n.large AND (%(archived)s OR {NOT_ARCHIVED})"))
_COUNT = sql.SQL(f"""
    SELECT count(*) FROM (
        SELECT FROM memory_nodes n WHERE n.group_id = %(group)s AND n.agent_id = %(agent)s AND n.large
        AND {VISIBLE} LIMIT %(limit)s
    ) visible
""")  # noqa: S608 – as above
