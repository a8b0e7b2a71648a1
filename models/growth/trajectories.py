"""Trajectories: steps as they come, when they are due to be compressed, and what they come to."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID, uuid5

from sqlalchemy import Connection, Uuid, any_, bindparam, insert, select, text
from sqlalchemy.dialects.postgresql import ARRAY
from uuid6 import uuid7

from engine.growth.trajectories import Trajectory, TrajectoryStep
from jiyi.protocol.events import SessionEnded, StepRecorded
from models.db.rows import Record, packed_time, records
from models.growth.tables import TrajectoryEvent, TrajectoryRow
from models.memory.agents import AgentName
from models.memory.event_types import EventType, StoredBatch, after_events, register_event
from models.operations import numbers
from models.queue import pending_work

#: Steps of a session that did not end are compressed after so many minutes without a new one.
SILENCE_MINUTES = 30

#: Enqueued for a session with steps that were not compressed.
COMPRESS = "compress"
#: Namespace of the keys of sessions.
SESSIONS = UUID("3f0c8d6e-52a1-5b7e-8f7e-6d1f5f3f9a10")


def session_key(agent_id: str, session_id: str) -> UUID:
    """What stands for an agent's session within its group."""
    return uuid5(SESSIONS, f"{agent_id}\x00{session_id}")


def _step_row(event: StepRecorded) -> dict[str, Any]:
    step, session_id = event.payload, event.session_id or ""
    return {
        "group_id": event.group_id,
        "event_id": event.event_id.bytes,
        "agent_id": event.agent_id,
        "session_id": session_id,
        "session_key": session_key(event.agent_id, session_id).bytes,
        "step_index": step.index,
        "step_type": step.step_type,
        "tool": step.tool,
        "input_summary": step.input,
        "output_summary": step.output,
        "ok": step.ok,
        "tokens": step.tokens,
        "duration_ms": step.ms,
        "occurred_at": packed_time(event.occurred_at),
    }


register_event(StepRecorded, EventType(table=TrajectoryEvent, row=_step_row))


@after_events
def enqueue_compressions(batch: StoredBatch) -> None:
    """Enqueue compression of sessions with new steps, whose rows are stored, and of ended sessions.

    The agents are locked. Claimed work is left unchanged: its worker looks once more under that lock.
    """
    connection, steps, ended = batch.connection, batch.of_type(StepRecorded), batch.of_type(SessionEnded)
    over = {
        (event.group_id, session_key(event.agent_id, event.session_id))
        for event in ended
        if event.session_id is not None
    }
    came = {(event.group_id, session_key(event.agent_id, event.session_id or "")) for event in steps}
    for group_id, key in sorted(over):
        connection.execute(_CLOSE, {"group": group_id, "key": key, "before": None})
    for event in steps:
        if event.payload.compacted:
            key = session_key(event.agent_id, event.session_id or "")
            connection.execute(_CLOSE, {"group": event.group_id, "key": key, "before": event.payload.index})
    for group_id, key in sorted(over | came):
        at = compression_due_at(connection, group_id, key)
        if at is not None:
            pending_work.enqueue_at(connection, COMPRESS, (key, group_id), at)


def compression_due_at(connection: Connection, group_id: str, key: UUID) -> datetime | None:
    """When a session's steps are due: closed ones now, others after a silence; None without any."""
    row = connection.execute(_WAITING, {"group": group_id, "key": key}).one()
    if not row.steps:
        return None
    now = datetime.now(UTC)
    silence = timedelta(minutes=SILENCE_MINUTES)
    return (
        now if row.closed else min(row.last, now) + silence
    )  # a time in the future was noted while a clock was wrong


_CLOSE = text("""
    UPDATE trajectory_events SET closed = true
    WHERE group_id = :group AND session_key = :key AND trajectory_id IS NULL AND NOT closed
      AND (CAST(:before AS integer) IS NULL OR step_index < :before)
""")
_WAITING = text("""
    SELECT count(*) AS steps, coalesce(bool_or(closed), false) AS closed, max(received_at) AS last
    FROM trajectory_events WHERE group_id = :group AND session_key = :key AND trajectory_id IS NULL
""")


#: Steps of one trajectory: of a session with more the rest becomes the next one.
MAX_STEPS = 2_000


class TrajectorySession(NamedTuple):
    group_id: str
    agent_id: str
    session_id: str

    @property
    def agent(self) -> AgentName:
        return self.group_id, self.agent_id


def session_of(connection: Connection, key: UUID) -> TrajectorySession | None:
    """The session with steps of this key, of the groups of the scope; None if its steps are gone."""
    row = connection.execute(_SESSION, {"key": key}).one_or_none()
    return None if row is None else TrajectorySession(*row)


def steps_of(
    connection: Connection, session: TrajectorySession, key: UUID, silent_since: datetime
) -> list[TrajectoryStep]:
    """Steps that are to be compressed: those that are closed; all, if none has come since then."""
    parameters = {"group": session.group_id, "key": key, "silent": silent_since, "limit": MAX_STEPS}
    return [TrajectoryStep(**row) for row in connection.execute(_OPEN_STEPS, parameters).mappings()]


def store_trajectory(
    connection: Connection,
    session: TrajectorySession,
    steps: Sequence[TrajectoryStep],
    trajectory: Trajectory,
) -> UUID:
    """Store the trajectory of these steps, which are compressed from now on; returns its id."""
    trajectory_id = uuid7()
    ids = [step.event_id for step in steps]
    says = trajectory.model_dump(exclude={"execution_chain", "outcome"})
    chain = [link.model_dump(exclude_defaults=True) for link in trajectory.execution_chain]
    details = {"completion": trajectory.outcome, "execution_chain": chain, "step_ids": ids}
    connection.execute(insert(_T).values(trajectory_id=trajectory_id, **session._asdict(), **says, **details))
    connection.execute(_COMPRESSED, {"group": session.group_id, "ids": ids, "id": trajectory_id})
    return trajectory_id


_T = TrajectoryRow
_SESSION = text(
    "SELECT group_id, agent_id, session_id FROM trajectory_events WHERE session_key = :key LIMIT 1"
)
_OPEN_STEPS = text("""
    SELECT event_id, step_index, step_type, occurred_at, tool, input_summary AS input,
        output_summary AS output, ok, tokens, duration_ms AS ms FROM trajectory_events e
    WHERE group_id = :group AND session_key = :key AND trajectory_id IS NULL AND (closed OR NOT EXISTS (
        SELECT FROM trajectory_events l WHERE l.group_id = :group AND l.session_key = :key
        AND l.received_at > :silent
    ))
    ORDER BY step_index, occurred_at, event_id LIMIT :limit
""")
_COMPRESSED = text(
    "UPDATE trajectory_events SET trajectory_id = :id WHERE group_id = :group AND event_id = ANY(:ids)"
)


def latest_trajectories(connection: Connection, group_id: str, agent_id: str, limit: int) -> list[Record]:
    """An agent's trajectories, newest first."""
    statement = _SHOWN.where(_T.group_id == group_id, _T.agent_id == agent_id)
    return records(connection, statement.order_by(_T.trajectory_id.desc()).limit(limit))


def trajectories_by_id(connection: Connection, group_id: str, ids: Sequence[UUID]) -> list[Record]:
    """Those of the trajectories that are there, newest first."""
    return records(connection, _SOME, group=group_id, ids=list(ids))


_SHOWN = select(
    *(_T.trajectory_id.label("id"), _T.completion.label("outcome"), _T.agent_id, _T.session_id),
    *(_T.request_type, _T.request, _T.tools_used, _T.satisfaction, _T.tokens, _T.steps),
    *(_T.duration_ms, _T.execution_chain, _T.started_at, _T.ended_at),
)
_AMONG = _T.trajectory_id == any_(bindparam("ids", type_=ARRAY(Uuid)))
_SOME = _SHOWN.where(_T.group_id == bindparam("group"), _AMONG).order_by(_T.trajectory_id.desc())

#: Days after which raw steps are deleted. What they were compressed to stays; those of a session that goes on
#: will be, at its next silence.
TRAJECTORY_DAYS = 7
numbers.prunes("trajectory_events", "received_at < :before", TRAJECTORY_DAYS)
