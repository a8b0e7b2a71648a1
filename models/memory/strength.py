"""Keyword strengths: counted, checked against the memories and repaired; the importance that adds up to a reflection."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import BigInteger, Connection, Text, bindparam, cast, column, func, select, text
from sqlalchemy.dialects.postgresql import insert

from models.memory.tables import KeywordStrength
from models.memory.work import APPRAISE, STRENGTHEN

#: Agents whose drift a summary names.
MAX_SHOWN = 100
#: A memory that owes one of these, or failed at it, has not been counted.
NOT_COUNTED_YET = [APPRAISE, STRENGTHEN]


@dataclass(frozen=True, slots=True)
class Drift:
    """How many of an agent's keywords had a wrong strength, and by how much together."""

    keywords: int
    off_by: int


def strengthen(connection: Connection, node_ids: Sequence[UUID]) -> None:
    """Each keyword of each node counts one more, for its agent and the node's type."""
    connection.execute(_STRENGTHEN, {"ids": list(node_ids)})


def accumulate(connection: Connection, node_ids: Sequence[UUID]) -> list[tuple[UUID, str]]:
    """Each event's poignancy comes off its agent's trigger, and the count of events goes up.

    Returns (agent_key, group_id) of the agents whose trigger is used up: a reflection is owed to them.
    """
    rows = connection.execute(_ACCUMULATE, {"ids": list(node_ids)})
    return [(row.agent_key, row.group_id) for row in rows if row.importance_trigger_curr <= 0]


def drift(connection: Connection, group_id: str, agent_id: str) -> Drift:
    drift = connection.execute(_DRIFT, {"group": group_id, "agent": agent_id, "kinds": NOT_COUNTED_YET}).one()
    return Drift(drift.keywords, drift.off_by)


def repair(connection: Connection, group_id: str, agent_id: str) -> Drift:
    """Make strengths what the memories say.

    What differs is *added*, so that a memory which is counted by another worker meanwhile stays counted. A lock
    of its own keeps two repairs from adding the same difference twice.
    """
    parameters = {"group": group_id, "agent": agent_id, "kinds": NOT_COUNTED_YET}
    connection.execute(_LOCK, parameters)
    repaired = connection.execute(_REPAIR, parameters).one()
    if repaired.keywords:
        connection.execute(_DELETE_EMPTY, parameters)
    return Drift(repaired.keywords, repaired.off_by)


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
_LOCK = text("""
    SELECT pg_advisory_xact_lock(hashtextextended('jiyi:strength/' || CAST(:group AS text) || '/' || CAST(:agent AS text), 0))
""")
# One statement sees one state: a memory that is not yet counted in it still owes the work, or failed at it.
_DIFFERENCE = (
    text("""
    WITH counted AS (
        SELECT n.type AS memory_type, k.keyword, count(*) AS strength
        FROM memory_nodes n CROSS JOIN unnest(n.keywords_lower) AS k(keyword)
        WHERE n.group_id = :group AND n.agent_id = :agent AND n.type <> 'chat'
          AND (n.predicate IS DISTINCT FROM 'is' OR n.object IS DISTINCT FROM 'idle')
          AND NOT EXISTS (SELECT FROM pending_work p WHERE p.kind = ANY(:kinds) AND p.subject_id = n.node_id AND p.group_id = :group)
          AND NOT EXISTS (
              SELECT FROM dead_letters d
              WHERE d.kind = ANY(:kinds) AND d.subject_id = n.node_id AND d.group_id = :group AND d.state = 'open'
          )
        GROUP BY 1, 2
    ), known AS (
        SELECT memory_type, keyword, strength FROM kw_strength WHERE group_id = :group AND agent_id = :agent
    )
    SELECT memory_type, keyword, coalesce(counted.strength, 0) - coalesce(known.strength, 0) AS missing
    FROM counted FULL JOIN known USING (memory_type, keyword)
    WHERE coalesce(counted.strength, 0) <> coalesce(known.strength, 0)
    """)
    .columns(column("memory_type", Text), column("keyword", Text), column("missing", BigInteger))
    .cte("difference")
)
_WRONG = _DIFFERENCE.c
_DRIFT = select(func.count().label("keywords"), cast(func.coalesce(func.sum(func.abs(_WRONG.missing)), 0), BigInteger).label("off_by"))
_ADDED = insert(KeywordStrength).from_select(
    ["group_id", "agent_id", "memory_type", "keyword", "strength"],
    select(bindparam("group", type_=Text), bindparam("agent", type_=Text), _WRONG.memory_type, _WRONG.keyword, _WRONG.missing).order_by(
        _WRONG.memory_type, _WRONG.keyword
    ),
)
_REPAIR = _DRIFT.add_cte(
    _ADDED.on_conflict_do_update(
        index_elements=list(KeywordStrength.__table__.primary_key), set_={"strength": KeywordStrength.strength + _ADDED.excluded.strength}
    ).cte("repaired")
)
_DELETE_EMPTY = text("DELETE FROM kw_strength WHERE group_id = :group AND agent_id = :agent AND strength <= 0")
