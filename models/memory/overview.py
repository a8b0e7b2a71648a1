"""What the admin shows and no other part asks for. Every list is bounded, every question but ``last_ticks`` is
bound to a group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, text

Row = dict[str, Any]

#: Groups that the selector offers.
MAX_GROUPS = 200
#: Jobs whose last tick is shown.
MAX_JOBS = 100


def groups(connection: Connection) -> list[str]:
    return list(connection.execute(_GROUPS, {"limit": MAX_GROUPS}).scalars())


def totals(connection: Connection, group_id: str) -> Row:
    """Agents and nodes of the group, from the agents' counters: no node is read."""
    return dict(connection.execute(_TOTALS, {"group": group_id}).mappings().one())


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


def open_dead_letters(connection: Connection, group_id: str) -> int:
    return int(connection.execute(_OPEN_LETTERS, {"group": group_id}).scalar_one())


def last_ticks(connection: Connection) -> list[Row]:
    """The last run of every scheduled job of the service."""
    return [dict(row) for row in connection.execute(_LAST_TICKS, {"limit": MAX_JOBS}).mappings()]


def _first(connection: Connection, statement: Any, **parameters: Any) -> Row | None:
    row = connection.execute(statement, parameters).mappings().one_or_none()
    return None if row is None else dict(row)


_GROUPS = text("SELECT group_id FROM groups ORDER BY group_id LIMIT :limit")
_TOTALS = text("""
    SELECT count(*) AS agents, coalesce(sum(node_count), 0)::bigint AS nodes FROM agents WHERE group_id = :group
""")
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
_OPEN_LETTERS = text("""
    SELECT count(*) FROM dead_letters WHERE state = 'open' AND (group_id = :group OR group_id IS NULL)
""")
_LAST_TICKS = text("""
    SELECT DISTINCT ON (job) job, slot, started_at, finished_at, summary,
        CASE WHEN state = 'running' AND due_by < now() THEN 'failed' ELSE state END AS state,
        CASE WHEN state = 'running' AND due_by < now() THEN 'its worker died, or it hangs' ELSE error END AS error
    FROM job_ticks ORDER BY job, slot DESC LIMIT :limit
""")
