"""Depths of thoughts whose evidence arrived after them (GA-16): messages may overtake each other."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import Connection, text


@dataclass(frozen=True, slots=True)
class SettledDepths:
    """How many of the thought's evidence have not arrived; the thoughts that rest on it, should its depth have changed."""

    missing: int
    dependants: list[tuple[UUID, str]]


def settle(connection: Connection, node_id: UUID) -> SettledDepths:
    """Set a thought's depth from the evidence that is there by now.

    Safe to repeat because the depth follows from the evidence alone.
    """
    found = connection.execute(_EVIDENCE, {"id": node_id}).one()
    changed = connection.execute(_SET, {"id": node_id, "depth": found.depth}).one_or_none()
    if changed is None:
        return SettledDepths(found.missing, [])
    rows = connection.execute(_DEPENDANTS, {"group": changed.group_id, "agent": changed.agent_id, "id": [str(node_id)]})
    return SettledDepths(found.missing, [(row.node_id, row.group_id) for row in rows])


_EVIDENCE = text("""
    SELECT 1 + coalesce(max(e.depth), 0) AS depth, count(*) FILTER (WHERE k.id IS NOT NULL AND e.node_id IS NULL) AS missing
    FROM memory_nodes n
    LEFT JOIN LATERAL jsonb_array_elements_text(n.filling) AS k(id) ON true
    LEFT JOIN memory_nodes e ON e.node_id = CAST(k.id AS uuid) AND e.group_id = n.group_id AND e.agent_id = n.agent_id
    WHERE n.node_id = :id
""")
_SET = text("""
    UPDATE memory_nodes SET depth = :depth, changed_xid = pg_current_xact_id()
    WHERE node_id = :id AND depth <> :depth RETURNING group_id, agent_id
""")
_DEPENDANTS = text("""
    SELECT node_id, group_id FROM memory_nodes
    WHERE group_id = :group AND agent_id = :agent AND type = 'thought' AND filling @> to_jsonb(CAST(:id AS text[]))
""")
