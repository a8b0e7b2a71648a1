"""Which of an agent's memories may be retrieved, and the columns to score them by (GA-19 … GA-22)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import numpy as np
from sqlalchemy import Connection, text

from jiyi.requests import Filters
from jiyi.retrieval import Candidates
from jiyi.settings import Mode
from models.base import driver


@dataclass(frozen=True, slots=True)
class Found:
    """Candidates and, in the same order, their ids and whether each has a vector by the model asked for."""

    candidates: Candidates
    node_ids: list[UUID]
    comparable: int
    #: Models of the vectors there are, should none be comparable.
    models: list[str]


def find(
    connection: Connection, group_id: str, agent_id: str, filters: Filters, *, mode: Mode, model: str, now: datetime
) -> Found:
    """Every candidate of one agent."""
    parameters = {
        "group": group_id, "agent": agent_id, "types": filters.types, "after": filters.created_after,
        "before": filters.created_before, "session": filters.session_id, "archived": filters.include_archived,
        "keywords": [keyword.lower() for keyword in filters.keywords],
        # The original drops what contains "idle" anywhere, case and word boundaries regardless, and expires nothing.
        "substring": mode == "stanford", "expired": filters.include_expired or mode == "stanford", "now": now,
    }  # fmt: skip
    with driver(connection).cursor(binary=True) as cursor:
        cursor.execute(_CANDIDATES, parameters)
        rows = cursor.fetchall()
    vectors = [row[5].to_numpy() if row[6] == model else None for row in rows]
    return Found(
        candidates=Candidates(
            node_count=np.fromiter((row[1] for row in rows), np.int64, len(rows)),
            is_thought=np.fromiter((row[2] for row in rows), np.bool_, len(rows)),
            last_accessed=np.fromiter((row[3] for row in rows), np.float64, len(rows)),
            poignancy=np.fromiter((row[4] for row in rows), np.float64, len(rows)),
            vectors=_stack(vectors),
        ),
        node_ids=[row[0] for row in rows],
        comparable=sum(vector is not None for vector in vectors),
        models=sorted({row[6] for row in rows}),
    )


def describe(connection: Connection, group_id: str, node_ids: Sequence[UUID]) -> dict[UUID, dict[str, Any]]:
    """All that is shown of the nodes, by id."""
    rows = connection.execute(_DESCRIBE, {"group": group_id, "ids": list(node_ids)}).mappings()
    return {row["node_id"]: dict(row) for row in rows}


def _stack(vectors: Sequence[Any]) -> np.ndarray[Any, np.dtype[np.float32]]:
    width = next((len(vector) for vector in vectors if vector is not None), 0)
    stacked = np.zeros((len(vectors), width), dtype=np.float32)
    for row, vector in zip(stacked, vectors, strict=True):
        if vector is not None:
            row[:] = vector
    return stacked


_CANDIDATES = """
    SELECT n.node_id, n.node_count, n.type = 'thought', extract(epoch FROM a.last_accessed)::float8,
        coalesce(n.poignancy, 0), n.embedding, n.embedding_model
    FROM memory_nodes n JOIN node_access a USING (node_id)
    WHERE n.group_id = %(group)s AND n.agent_id = %(agent)s AND n.type = ANY(%(types)s) AND n.embedding IS NOT NULL
      AND CASE WHEN %(substring)s THEN strpos(n.embedding_key, 'idle') = 0 ELSE NOT n.is_idle END
      AND (%(archived)s OR n.archived_at IS NULL)
      AND (%(expired)s OR n.expires_at IS NULL OR n.expires_at > %(now)s)
      AND (%(after)s::timestamptz IS NULL OR n.created_at > %(after)s)
      AND (%(before)s::timestamptz IS NULL OR n.created_at < %(before)s)
      AND (%(session)s::text IS NULL OR n.session_id = %(session)s)
      AND (cardinality(%(keywords)s::text[]) = 0 OR n.keywords_lower && %(keywords)s)
"""
_DESCRIBE = text("""
    SELECT n.node_id, n.agent_id, n.session_id, n.type, n.node_count, n.depth, n.created_at, a.last_accessed,
        n.expires_at, n.subject, n.predicate, n.object, n.description, n.embedding_key, n.poignancy, n.keywords,
        n.filling, n.provenance
    FROM memory_nodes n JOIN node_access a USING (node_id)
    WHERE n.group_id = :group AND n.node_id = ANY(:ids)
""")
