"""What compression starts from and what it leaves: a session's raw steps, and its trajectories."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from sqlalchemy import Connection, bindparam, text
from sqlalchemy.dialects.postgresql import JSONB
from uuid6 import uuid7

from engine.growth.trajectories import Trajectory
from jiyi.protocol.growth.steps import Step
from models.memory.agents.agents import AgentName

#: Steps of one trajectory: of a session with more the rest becomes the next one.
MAX_STEPS = 2_000


class Session(NamedTuple):
    """Whose steps they are."""

    group_id: str
    agent_id: str
    session_id: str

    @property
    def agent(self) -> AgentName:
        return self.group_id, self.agent_id


def session_of(connection: Connection, key: UUID) -> Session | None:
    """The session with steps of this key, of the groups of the scope; None if its steps are gone."""
    row = connection.execute(_SESSION, {"key": key}).one_or_none()
    return None if row is None else Session(*row)


def steps_of(connection: Connection, session: Session, key: UUID, silent_since: datetime) -> list[Step]:
    """Steps that are to be compressed: those that are closed; all, if none has come since then."""
    parameters = {"group": session.group_id, "key": key, "silent": silent_since, "limit": MAX_STEPS}
    return [Step(**row) for row in connection.execute(_STEPS, parameters).mappings()]


def keep(connection: Connection, session: Session, steps: Sequence[Step], made: Trajectory) -> UUID:
    """Store the trajectory of these steps, which are compressed from now on; returns its id."""
    trajectory_id = uuid7()
    ids = [step.event_id for step in steps]
    values = made.model_dump(exclude={"execution_chain", "outcome"}) | {"completion": made.outcome}
    chain: list[dict[str, Any]] = [link.model_dump(exclude_defaults=True) for link in made.execution_chain]
    parameters = {"id": trajectory_id, "group": session.group_id, "agent": session.agent_id, "session": session.session_id}
    connection.execute(_KEEP, parameters | values | {"chain": chain, "ids": ids})
    connection.execute(_COMPRESSED, {"group": session.group_id, "ids": ids, "id": trajectory_id})
    return trajectory_id


_SESSION = text("SELECT group_id, agent_id, session_id FROM trajectory_events WHERE session_key = :key LIMIT 1")
_STEPS = text("""
    SELECT event_id, step_index, step_type, occurred_at, tool, input_summary AS input, output_summary AS output, ok, tokens,
        duration_ms AS ms FROM trajectory_events e
    WHERE group_id = :group AND session_key = :key AND trajectory_id IS NULL AND (closed OR NOT EXISTS (
        SELECT FROM trajectory_events l WHERE l.group_id = :group AND l.session_key = :key AND l.received_at > :silent
    ))
    ORDER BY step_index, occurred_at, event_id LIMIT :limit
""")
_KEEP = text("""
    INSERT INTO trajectories (trajectory_id, group_id, agent_id, session_id, request_type, request, tools_used, completion,
        satisfaction, tokens, steps, duration_ms, execution_chain, step_ids, started_at, ended_at)
    VALUES (:id, :group, :agent, :session, :request_type, :request, :tools_used, :completion,
        :satisfaction, :tokens, :steps, :duration_ms, :chain, :ids, :started_at, :ended_at)
""").bindparams(bindparam("chain", type_=JSONB))
_COMPRESSED = text("UPDATE trajectory_events SET trajectory_id = :id WHERE group_id = :group AND event_id = ANY(:ids)")
