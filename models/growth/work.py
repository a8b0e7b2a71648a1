"""Kinds of growth's work in ``pending_work``; and tallies of what an agent grew and what was used."""

from __future__ import annotations

from sqlalchemy import Connection, text

from jiyi.protocol.identity import Tally
from models.db.rows import fetch
from models.memory.agents import AgentName

#: Subject: an agent's key. Its experiences, or its trajectories, have changed.
AGGREGATE, COMPOSE = "aggregate", "compose"
#: Subject: an agent's key. Its new turns, its profile.
MERGE_PAINS, FOLLOW_PROFILE = "merge_pains", "follow_profile"
#: Subject: a pain point.
SOLVE_PAIN = "solve_pain"


def note(connection: Connection, name: AgentName, what: str, *, grown: int = 0, used: int = 0) -> None:
    """Count it today; ``what`` is a word such as ``skill``. Nothing if both are 0, or the agent is gone."""
    if grown or used:
        connection.execute(
            _NOTE, {"group": name[0], "agent": name[1], "what": what, "grown": grown, "used": used}
        )


def tallies_of(connection: Connection, name: AgentName, days: int) -> list[Tally]:
    """What was counted on the last so many days, today included: the newest day first."""
    return fetch(connection, Tally, _READ, group=name[0], agent=name[1], days=days)


_NOTE = text("""
    INSERT INTO growth_tallies AS t (group_id, agent_id, day, what, grown, used)
    SELECT group_id, agent_id, (now() AT TIME ZONE 'UTC')::date, :what, :grown, :used FROM agents
    WHERE group_id = :group AND agent_id = :agent
    ON CONFLICT (group_id, agent_id, day, what) DO UPDATE
    SET grown = t.grown + excluded.grown, used = t.used + excluded.used
""")
# Rows of skills and workflows have the time of their acceptance, and their votes the time of their use.
_READ = text("""
    SELECT day, what, CAST(sum(grown) AS int) AS grown, CAST(sum(used) AS int) AS used FROM (
        SELECT day, what, grown, used FROM growth_tallies WHERE group_id = :group AND agent_id = :agent
        UNION ALL
        SELECT (decided_at AT TIME ZONE 'UTC')::date, kind, 1, 0 FROM proposals
        WHERE group_id = :group AND agent_id = :agent AND kind IN ('skill', 'pipeline')
        AND status IN ('approved', 'archived')
          AND decided_at IS NOT NULL
        UNION ALL
        SELECT (f.given_at AT TIME ZONE 'UTC')::date, p.kind, 0, 1 FROM feedback f
        JOIN proposals p ON p.proposal_id = f.artifact_id
        WHERE f.group_id = :group AND f.agent_id = :agent AND f.signal IN ('implicit_usage', 'usage_count')
    ) AS counted
    WHERE day > (now() AT TIME ZONE 'UTC')::date - CAST(:days AS int) GROUP BY day, what
    ORDER BY day DESC, what
""")
