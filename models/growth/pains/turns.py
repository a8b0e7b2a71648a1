"""Turns that were not looked through for pain yet, up to where extraction came, and what was advised after a turn."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import Connection, text

from models.conversations import extractions
from models.conversations.extractions import StoredTurn
from models.memory.agents import AgentName

#: Answers that are looked through for advice, the latest.
MAX_ANSWERS = 10


@dataclass(frozen=True, slots=True)
class NewTurns:
    """What one run looks at: the cursor as it was seen, and turns with those before them by session."""

    seen: int
    turns: list[StoredTurn]
    context: dict[str, list[StoredTurn]]


def new(connection: Connection, name: AgentName, limit: int) -> NewTurns:
    """The next turns, each session's with what was said right before."""
    seen = cursor(connection, name)
    end = extractions.cursor(connection, name)
    turns = [turn for turn in extractions.new_turns(connection, name, seen, limit) if turn.node_count <= end]
    context = {
        session_id: extractions.context_of(connection, name, session_id, some[0].node_count)
        for session_id, some in extractions.sessions_of(turns).items()
    }
    return NewTurns(seen, turns, context)


def cursor(connection: Connection, name: AgentName) -> int:
    """``node_count`` of the last turn that was looked through for pain."""
    found = connection.execute(_CURSOR, {"group": name[0], "agent": name[1]}).scalar_one_or_none()
    return 0 if found is None else int(found)


def move_cursor(connection: Connection, name: AgentName, seen: int, to: int) -> bool:
    """Move it from where it was seen; False if another run has moved it."""
    return connection.execute(_MOVE, {"group": name[0], "agent": name[1], "seen": seen, "to": to}).rowcount == 1


def behind(connection: Connection, name: AgentName) -> bool:
    """Whether extraction has come further; call it under the agent's lock."""
    return cursor(connection, name) < extractions.cursor(connection, name)


def answers_after(connection: Connection, name: AgentName, pain_id: UUID) -> list[str]:
    """What assistants answered right after the turns that told of a pain point, the newest first."""
    parameters = {"group": name[0], "agent": name[1], "pain": pain_id, "limit": MAX_ANSWERS}
    return list(connection.execute(_ANSWERS, parameters).scalars())


_CURSOR = text("SELECT looked_to FROM pain_cursors WHERE group_id = :group AND agent_id = :agent")
_MOVE = text("""
    INSERT INTO pain_cursors AS c (group_id, agent_id, looked_to) VALUES (:group, :agent, :to)
    ON CONFLICT (group_id, agent_id) DO UPDATE SET looked_to = :to WHERE c.looked_to = :seen
""")
_ANSWERS = text("""
    SELECT a.description FROM pain_evidence e
    JOIN memory_nodes n ON n.group_id = e.group_id AND n.node_id = e.source_id AND n.agent_id = :agent
    CROSS JOIN LATERAL (
        SELECT m.description, m.provenance ->> 'role' AS role FROM memory_nodes m
        WHERE m.group_id = n.group_id AND m.agent_id = n.agent_id AND m.kind = 'session' AND m.session_id = n.session_id
          AND m.node_count > n.node_count ORDER BY m.node_count LIMIT 1
    ) AS a
    WHERE e.group_id = :group AND e.pain_id = :pain AND a.role = 'assistant' ORDER BY e.said_at DESC LIMIT :limit
""")
