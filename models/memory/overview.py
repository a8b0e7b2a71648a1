"""What the admin shows and no other part asks for. Every list is bounded, every question is bound to a group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, text

Row = dict[str, Any]

#: Groups that the selector offers.
MAX_GROUPS = 200


def groups(connection: Connection) -> list[str]:
    return list(connection.execute(_GROUPS, {"limit": MAX_GROUPS}).scalars())


def agent(connection: Connection, group_id: str, agent_id: str) -> Row | None:
    return _first(connection, _AGENT, group=group_id, agent=agent_id)


def node(connection: Connection, group_id: str, node_id: UUID) -> Row | None:
    """A node with everything but its vector, of which only the size is told."""
    return _first(connection, _NODE, group=group_id, id=node_id)


def brief_nodes(connection: Connection, group_id: str, node_ids: Sequence[UUID]) -> list[Row]:
    """Those of the ids that are nodes of this group, in the order given."""
    rows = connection.execute(_BRIEF, {"group": group_id, "ids": list(node_ids)}).mappings()
    found = {row["node_id"]: dict(row) for row in rows}
    return [found[node_id] for node_id in node_ids if node_id in found]


def resting_on(connection: Connection, group_id: str, agent_id: str, node_id: UUID, limit: int) -> list[Row]:
    """Later nodes of the agent that name this one as evidence, newest first."""
    parameters = {"group": group_id, "agent": agent_id, "id": node_id, "limit": limit}
    return [dict(row) for row in connection.execute(_RESTING_ON, parameters).mappings()]


def _first(connection: Connection, statement: Any, **parameters: Any) -> Row | None:
    row = connection.execute(statement, parameters).mappings().one_or_none()
    return None if row is None else dict(row)


_GROUPS = text("SELECT group_id FROM groups ORDER BY group_id LIMIT :limit")
_AGENT = text("""
    SELECT agent_id, settings, node_count, type_counts, importance_trigger_curr, importance_ele_n, created_at
    FROM agents WHERE group_id = :group AND agent_id = :agent
""")
_NODE = text("""
    SELECT n.node_id, n.group_id, n.agent_id, n.session_id, n.type, n.node_count, n.type_count, n.depth, n.created_at,
        n.stored_at, n.expires_at, n.archived_at, n.archived_reason, n.subject, n.predicate, n.object, n.description,
        n.embedding_key, n.keywords, n.poignancy, n.is_idle, n.filling, n.provenance, n.embedding_model,
        vector_dims(n.embedding) AS dimensions, a.last_accessed, a.access_count, a.recent
    FROM memory_nodes n LEFT JOIN node_access a USING (node_id)
    WHERE n.group_id = :group AND n.node_id = :id
""")
_BRIEF_COLUMNS = "node_id, agent_id, type, created_at, description, poignancy, depth"
_BRIEF = text(f"SELECT {_BRIEF_COLUMNS} FROM memory_nodes WHERE group_id = :group AND node_id = ANY(:ids)")
# Evidence is stored before what rests on it, so only later nodes are looked through.
_RESTING_ON = text(f"""
    SELECT {_BRIEF_COLUMNS} FROM memory_nodes
    WHERE group_id = :group AND agent_id = :agent AND type <> 'chat'
      AND node_count > (SELECT node_count FROM memory_nodes WHERE group_id = :group AND node_id = :id)
      AND filling @> jsonb_build_array(CAST(:id AS text))
    ORDER BY node_count DESC LIMIT :limit
""")
