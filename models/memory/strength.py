"""Keyword strengths (GA-17, GA-18) and the importance that adds up to a reflection (GA-48)."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import Connection, text


def strengthen(connection: Connection, node_ids: Sequence[UUID]) -> None:
    """Each keyword of each node counts one more, for its agent and the node's type."""
    connection.execute(_STRENGTHEN, {"ids": list(node_ids)})


def accumulate(connection: Connection, node_ids: Sequence[UUID]) -> list[tuple[UUID, str]]:
    """Each event's poignancy comes off its agent's trigger, and the count of events goes up.

    Returns (agent_key, group_id) of the agents whose trigger is used up: a reflection is owed to them.
    """
    rows = connection.execute(_ACCUMULATE, {"ids": list(node_ids)})
    return [(row.agent_key, row.group_id) for row in rows if row.importance_trigger_curr <= 0]


# In key order, so that two workers with the same keywords queue up instead of deadlocking.
_STRENGTHEN = text("""
    INSERT INTO kw_strength (group_id, agent_id, memory_type, keyword, strength)
    SELECT n.group_id, n.agent_id, n.type, k.keyword, count(*)
    FROM memory_nodes n CROSS JOIN unnest(n.keywords_lower) AS k(keyword)
    WHERE n.node_id = ANY(:ids) GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4
    ON CONFLICT (group_id, agent_id, memory_type, keyword) DO UPDATE SET strength = kw_strength.strength + excluded.strength
""")
_ACCUMULATE = text("""
    WITH added AS (
        SELECT group_id, agent_id, sum(coalesce(poignancy, 0)) AS poignancy, count(*) AS events
        FROM memory_nodes WHERE node_id = ANY(:ids) GROUP BY 1, 2
    ), locked AS (
        SELECT a.group_id, a.agent_id FROM agents a JOIN added USING (group_id, agent_id)
        ORDER BY 1, 2 FOR NO KEY UPDATE OF a
    )
    UPDATE agents a SET importance_trigger_curr = importance_trigger_curr - added.poignancy,
        importance_ele_n = importance_ele_n + added.events
    FROM added JOIN locked USING (group_id, agent_id)
    WHERE a.group_id = added.group_id AND a.agent_id = added.agent_id
    RETURNING a.agent_key, a.group_id, a.importance_trigger_curr
""")
