"""Keyword strengths against the memories they count (GA-17, GA-18): how far they differ, and their repair."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, text

from models.memory.inbox import APPRAISE, STRENGTHEN

#: Agents whose drift a summary names.
MAX_SHOWN = 100
#: A memory that owes one of these, or failed at it, has not been counted.
NOT_COUNTED_YET = [APPRAISE, STRENGTHEN]


@dataclass(frozen=True, slots=True)
class Drift:
    """How many of an agent's keywords had a wrong strength, and by how much together."""

    keywords: int
    off_by: int


def drift(connection: Connection, group_id: str, agent_id: str) -> Drift:
    found = connection.execute(_DRIFT, {"group": group_id, "agent": agent_id, "kinds": NOT_COUNTED_YET}).one()
    return Drift(found.keywords, found.off_by)


def repair(connection: Connection, group_id: str, agent_id: str) -> Drift:
    """Make strengths what the memories say.

    What differs is *added*, so that a memory which is counted by another worker meanwhile stays counted. A lock
    of its own keeps two repairs from adding the same difference twice.
    """
    parameters = {"group": group_id, "agent": agent_id, "kinds": NOT_COUNTED_YET}
    connection.execute(_LOCK, parameters)
    found = connection.execute(_REPAIR, parameters).one()
    if found.keywords:
        connection.execute(_DELETE_EMPTY, parameters)
    return Drift(found.keywords, found.off_by)


_LOCK = text("""
    SELECT pg_advisory_xact_lock(hashtextextended('jiyi:strength/' || CAST(:group AS text) || '/' || CAST(:agent AS text), 0))
""")
# One statement sees one state: a memory that is not yet counted in it still owes the work, or failed at it.
_DIFFERENCE = """
    counted AS (
        SELECT n.type AS memory_type, k.keyword, count(*) AS strength
        FROM memory_nodes n CROSS JOIN unnest(n.keywords_lower) AS k(keyword)
        WHERE n.group_id = :group AND n.agent_id = :agent AND n.type <> 'chat'
          AND (n.predicate IS DISTINCT FROM 'is' OR n.object IS DISTINCT FROM 'idle')
          AND NOT EXISTS (SELECT FROM pending_work p WHERE p.kind = ANY(:kinds) AND p.subject_id = n.node_id)
          AND NOT EXISTS (
              SELECT FROM dead_letters d WHERE d.kind = ANY(:kinds) AND d.subject_id = n.node_id AND d.state = 'open'
          )
        GROUP BY 1, 2
    ), known AS (
        SELECT memory_type, keyword, strength FROM kw_strength WHERE group_id = :group AND agent_id = :agent
    ), difference AS (
        SELECT memory_type, keyword, coalesce(counted.strength, 0) - coalesce(known.strength, 0) AS missing
        FROM counted FULL JOIN known USING (memory_type, keyword)
        WHERE coalesce(counted.strength, 0) <> coalesce(known.strength, 0)
    )
"""
_TOTALS = "SELECT count(*) AS keywords, CAST(coalesce(sum(abs(missing)), 0) AS bigint) AS off_by FROM difference"
_DRIFT = text(f"WITH {_DIFFERENCE} {_TOTALS}")
_REPAIR = text(f"""
    WITH {_DIFFERENCE}, repaired AS (
        INSERT INTO kw_strength (group_id, agent_id, memory_type, keyword, strength)
        SELECT :group, :agent, memory_type, keyword, missing FROM difference ORDER BY memory_type, keyword
        ON CONFLICT (group_id, agent_id, memory_type, keyword) DO UPDATE
            SET strength = kw_strength.strength + excluded.strength
    )
    {_TOTALS}
""")  # noqa: S608 – our own names; values are parameters
_DELETE_EMPTY = text("DELETE FROM kw_strength WHERE group_id = :group AND agent_id = :agent AND strength <= 0")
