"""Steps as they come in: their rows, and when each session's steps are due to be compressed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from uuid import UUID, uuid5

from sqlalchemy import Connection, text

from jiyi.protocol.events import SessionEnded, StepRecorded
from models.db.bulk_copy import packed_time

#: Steps of a session that did not end are compressed after so many minutes without a new one.
SILENCE_MINUTES = 30

#: Owed by a session with steps that were not compressed.
COMPRESS = "compress"
#: Namespace of the keys of sessions.
SESSIONS = UUID("3f0c8d6e-52a1-5b7e-8f7e-6d1f5f3f9a10")


class StepRow(NamedTuple):
    """A row of ``trajectory_events``."""

    group_id: str
    event_id: bytes
    agent_id: str
    session_id: str
    session_key: bytes
    step_index: int
    step_type: str
    tool: str | None
    input_summary: str
    output_summary: str
    ok: bool | None
    tokens: int | None
    duration_ms: int | None
    occurred_at: bytes


def session_key(agent_id: str, session_id: str) -> UUID:
    """What stands for an agent's session within its group."""
    return uuid5(SESSIONS, f"{agent_id}\x00{session_id}")


def step_row(event: StepRecorded) -> StepRow:
    """The row of a step."""
    step, session_id = event.payload, event.session_id or ""
    return StepRow(
        event.group_id,
        event.event_id.bytes,
        event.agent_id,
        session_id,
        session_key(event.agent_id, session_id).bytes,
        step.index,
        step.step_type,
        step.tool,
        step.input,
        step.output,
        step.ok,
        step.tokens,
        step.ms,
        packed_time(event.occurred_at),
    )


def owe(connection: Connection, steps: Sequence[StepRecorded], ended: Iterable[SessionEnded]) -> datetime | None:
    """Owe compression for the sessions of new steps, whose rows are there, and of those that have ended; returns when it is first due.

    Call it under the agents' lock. Work that is in hand is left alone: whoever has it looks once more under that lock.
    """
    over = {(event.group_id, session_key(event.agent_id, event.session_id)) for event in ended if event.session_id is not None}
    came = {(event.group_id, session_key(event.agent_id, event.session_id or "")) for event in steps}
    for group_id, key in sorted(over):
        connection.execute(_CLOSE, {"group": group_id, "key": key, "before": None})
    for event in steps:
        if event.payload.compacted:
            key = session_key(event.agent_id, event.session_id or "")
            connection.execute(_CLOSE, {"group": event.group_id, "key": key, "before": event.payload.index})
    due: list[datetime] = []
    for group_id, key in sorted(over | came):
        at = due_at(connection, group_id, key)
        if at is not None:
            parameters = {"kind": COMPRESS, "subject": key, "group": group_id, "due": at}
            connection.execute(_OWE, parameters)
            connection.execute(_MOVE, parameters)
            due.append(at)
    return min(due, default=None)


def due_at(connection: Connection, group_id: str, key: UUID) -> datetime | None:
    """When the session's steps are to be compressed: those that are closed now, others after a silence; None if there are none."""
    row = connection.execute(_WAITING, {"group": group_id, "key": key}).one()
    if not row.steps:
        return None
    now = datetime.now(UTC)
    silence = timedelta(minutes=SILENCE_MINUTES)
    return now if row.closed else min(row.last, now) + silence  # what is still to come was noted while a clock was wrong


_CLOSE = text("""
    UPDATE trajectory_events SET closed = true
    WHERE group_id = :group AND session_key = :key AND trajectory_id IS NULL AND NOT closed
      AND (CAST(:before AS integer) IS NULL OR step_index < :before)
""")
_WAITING = text("""
    SELECT count(*) AS steps, coalesce(bool_or(closed), false) AS closed, max(received_at) AS last
    FROM trajectory_events WHERE group_id = :group AND session_key = :key AND trajectory_id IS NULL
""")
_OWE = text("""
    INSERT INTO pending_work (kind, subject_id, group_id, due_at) VALUES (:kind, :subject, :group, :due) ON CONFLICT DO NOTHING
""")
# What is in hand has attempts; a row that somebody has locked is about to be in hand, or to be settled.
_MOVE = text("""
    UPDATE pending_work SET due_at = :due WHERE (kind, subject_id, group_id) IN (
        SELECT kind, subject_id, group_id FROM pending_work
        WHERE kind = :kind AND subject_id = :subject AND group_id = :group AND attempts = 0 FOR UPDATE SKIP LOCKED
    )
""")
