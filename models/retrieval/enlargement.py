"""How an agent becomes one that is too large for an index in memory, beside the running service.

Its new nodes carry the mark ``large`` from the moment that :func:`begin` commits; the earlier ones get it in
batches, their terms are counted, and each model's vectors get an index. Every step may be repeated.
"""

from __future__ import annotations

import hashlib
import logging
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import LiteralString
from uuid import UUID

from psycopg import sql
from psycopg.errors import DiskFull, OutOfMemory
from sqlalchemy import Connection, text

from models.db.connection import driver, session_engine
from models.db.scope import as_owner
from models.memory.event_types import StoredBatch, after_events
from models.memory.work import ENLARGE
from models.queue import pending_work

log = logging.getLogger("jiyi.enlargement")
#: Values of a vector that pgvector's HNSW can index at half precision, which halves the index; the answer
#: compares them whole.
MAX_INDEXED = 4_000
#: Stands for all terms together; no token is empty.
ALL_TERMS = ""
#: Bytes that a vector takes while its index is built, beside its values: its 32 to 48 neighbours and itself
#: (pgvector 0.8).
BUILD_BYTES = 800
#: MB that building may take: on disk, where what does not fit goes, it is ten times slower. One is built at a
#: time.
MIN_BUILD_MB, MAX_BUILD_MB = 64, 2_048


@after_events
def follow_growth(batch: StoredBatch) -> None:
    """Count the terms of large agents' new nodes; enqueue enlargement of agents that outgrow an index."""
    for name, texts in batch.terms.items():
        add_terms(batch.connection, *name, texts)
    outgrown = [(agent.agent_key, agent.group_id) for agent in batch.agents.values() if agent.outgrows]
    pending_work.enqueue(batch.connection, ENLARGE, outgrown)


@dataclass(frozen=True, slots=True)
class EnlargedAgent:
    group_id: str
    agent_id: str
    large_from: int


def begin(connection: Connection, agent_key: UUID) -> EnlargedAgent | None:
    """Mark the agent, so that its new nodes come marked; None if there is no such agent (any more)."""
    row = connection.execute(_BEGIN, {"key": agent_key}).one_or_none()
    return None if row is None else EnlargedAgent(row.group_id, row.agent_id, row.large_from)


def mark(connection: Connection, agent: EnlargedAgent, numbers: range) -> None:
    """Mark those of the earlier nodes that have these numbers (``node_count``)."""
    connection.execute(
        _MARK, {"group": agent.group_id, "agent": agent.agent_id, "first": numbers.start, "end": numbers.stop}
    )


def count_terms(connection: Connection, agent: EnlargedAgent) -> None:
    """Count the terms of the earlier nodes; those counted before are counted again."""
    parameters = {"group": agent.group_id, "agent": agent.agent_id, "upto": agent.large_from}
    connection.execute(_LONG_STATEMENT_TIMEOUT)
    connection.execute(_FORGET, parameters)
    connection.execute(_COUNT, parameters)


def add_terms(connection: Connection, group_id: str, agent_id: str, texts: Iterable[Sequence[str]]) -> None:
    """Count the terms of new nodes. The caller has locked the agent's row."""
    frequencies: Counter[str] = Counter()
    for tokens in texts:
        frequencies.update(set(tokens))
        frequencies[ALL_TERMS] += len(tokens)
    parameters = {
        "group": group_id,
        "agent": agent_id,
        "terms": list(frequencies),
        "texts": list(frequencies.values()),
    }
    connection.execute(_ADD, parameters)


def models_of(connection: Connection, agent: EnlargedAgent) -> list[tuple[str, int]]:
    """(embedding model, dimensions) of the agent's vectors: of each model the most frequent dimensions."""
    connection.execute(_LONG_STATEMENT_TIMEOUT)
    rows = connection.execute(_MODELS, {"group": agent.group_id, "agent": agent.agent_id})
    return [(row.embedding_model, row.dimensions) for row in rows]


def finish(connection: Connection, agent: EnlargedAgent) -> None:
    connection.execute(_FINISH, {"group": agent.group_id, "agent": agent.agent_id})


def all_large(connection: Connection) -> list[tuple[UUID, str]]:
    """(agent_key, group_id) of the agents that are large: a new model's vectors need an index for them."""
    return [(row.agent_key, row.group_id) for row in connection.execute(_LARGE)]


def index_name(model: str, dimensions: int) -> str:
    """The index of a model's vectors of one size; it says what they are indexed as, for workers of another
    version.
    """
    return f"memory_nodes_nearest_{hashlib.sha256(model.encode()).hexdigest()[:12]}_{dimensions}_half"


def indexed_type(dimensions: int) -> LiteralString | None:
    """What vectors of length 1 are indexed as, and searched as; None for those too long to be indexed."""
    size = int(dimensions)
    return f"halfvec({size})" if size <= MAX_INDEXED else None  # of a number only


def build_index(model: str, dimensions: int) -> None:
    """Make the index of a model's vectors if there is none, concurrently, which PostgreSQL does outside of
    transactions only.
    """
    kind = indexed_type(dimensions)
    if kind is None:
        return  # searched one by one
    with (
        session_engine().connect().execution_options(isolation_level="AUTOCOMMIT") as connection,
        as_owner(connection),
    ):
        if connection.execute(_VALID, {"name": index_name(model, dimensions)}).scalar_one_or_none():
            return
        name = sql.Identifier(index_name(model, dimensions))
        drop = sql.SQL("DROP INDEX CONCURRENTLY IF EXISTS {}").format(name)  # left behind half made
        create = _CREATE.format(name, sql.SQL(kind), sql.Literal(model), sql.Literal(dimensions))
        with driver(connection).cursor() as cursor:
            cursor.execute("SET statement_timeout = 0")
            vectors = connection.execute(_VECTORS, {"model": model, "dimensions": dimensions}).scalar_one()
            memory = sql.Literal(f"{build_mb(vectors, dimensions)}MB")
            cursor.execute(sql.SQL("SET maintenance_work_mem = {}").format(memory))
            cursor.execute(drop)
            try:
                cursor.execute(create)
            except (DiskFull, OutOfMemory) as error:
                # Several processes build in shared memory, of which containers have little.
                log.warning("the index of %s is built by one process: %s", model, error.diag.message_primary)
                cursor.execute("SET max_parallel_maintenance_workers = 0")
                cursor.execute(drop)
                cursor.execute(create)
        connection.detach()  # its settings are nobody else's


def build_mb(vectors: int, dimensions: int) -> int:
    """Memory in which an index of so many vectors is built, if they fit."""
    return min(MAX_BUILD_MB, max(MIN_BUILD_MB, vectors * (2 * dimensions + BUILD_BYTES) >> 20))


_CREATE = sql.SQL("""
    CREATE INDEX CONCURRENTLY {} ON memory_nodes USING hnsw ((l2_normalize(embedding)::{}) halfvec_cosine_ops)
    WHERE large AND embedding_model = {} AND vector_dims(embedding) = {}
""")
_BEGIN = text("""
    UPDATE agents SET large_from = coalesce(large_from, node_count) WHERE agent_key = :key
    RETURNING group_id, agent_id, large_from
""")
_MARK = text("""
    UPDATE memory_nodes SET large = true
    WHERE group_id = :group AND agent_id = :agent AND node_count >= :first AND node_count < :end AND NOT large
""")
_LONG_STATEMENT_TIMEOUT = text("SET LOCAL statement_timeout = '1h'")
_FORGET = text(
    "DELETE FROM term_frequencies WHERE group_id = :group AND agent_id = :agent AND counted = 'at first'"
)
_COUNT = text("""
    WITH texts AS (
        SELECT string_to_array(tokens, ' ') AS terms FROM memory_nodes
        WHERE group_id = :group AND agent_id = :agent AND node_count <= :upto AND tokens <> ''
    )
    INSERT INTO term_frequencies (group_id, agent_id, term, counted, texts)
    SELECT :group, :agent, term, 'at first', count(*)
        FROM texts CROSS JOIN LATERAL (SELECT DISTINCT unnest(terms) AS term) AS distinct_terms GROUP BY term
    UNION ALL SELECT :group, :agent, '', 'at first', coalesce(sum(cardinality(terms)), 0) FROM texts
""")
_ADD = text("""
    INSERT INTO term_frequencies (group_id, agent_id, term, counted, texts)
    SELECT :group, :agent, term, 'since', texts FROM unnest(CAST(:terms AS text[]), CAST(:texts AS bigint[]))
    AS t(term, texts)
    ON CONFLICT (group_id, agent_id, term, counted) DO UPDATE
    SET texts = term_frequencies.texts + excluded.texts
""")
_MODELS = text("""
    SELECT embedding_model, mode() WITHIN GROUP (ORDER BY vector_dims(embedding)) AS dimensions
    FROM memory_nodes
    WHERE group_id = :group AND agent_id = :agent AND embedding IS NOT NULL GROUP BY embedding_model
    ORDER BY 1
""")
_VECTORS = text("""
    SELECT count(*) FROM memory_nodes WHERE large AND embedding_model = :model
    AND vector_dims(embedding) = :dimensions
""")
_LARGE = text("SELECT agent_key, group_id FROM agents WHERE large_from IS NOT NULL")
_FINISH = text("UPDATE agents SET large_ready_at = now() WHERE group_id = :group AND agent_id = :agent")
_VALID = text("""
    SELECT i.indisvalid FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
    WHERE c.relname = :name AND c.relnamespace = current_schema()::regnamespace
""")
