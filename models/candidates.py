"""What is shown of retrieved memories."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from psycopg.rows import dict_row
from sqlalchemy import Connection

from models.base import driver


def describe(connection: Connection, group_id: str, node_ids: Sequence[UUID]) -> dict[UUID, dict[str, Any]]:
    """All that is shown of the nodes, by id."""
    with driver(connection).cursor(binary=True, row_factory=dict_row) as cursor:
        rows = cursor.execute(_DESCRIBE, {"group": group_id, "ids": list(node_ids)}).fetchall()
    return {row["node_id"]: row for row in rows}


_DESCRIBE = """
    SELECT n.node_id, n.agent_id, n.session_id, n.type, n.node_count, n.depth, n.created_at, a.last_accessed,
        n.expires_at, n.subject, n.predicate, n.object, n.description, n.embedding_key, n.poignancy, n.keywords,
        n.filling, n.provenance
    FROM memory_nodes n JOIN node_access a USING (node_id)
    WHERE n.group_id = %(group)s AND n.node_id = ANY(%(ids)s)
"""
