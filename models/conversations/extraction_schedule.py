"""When each agent's new turns are due for extraction: set as a turn is stored, and after each run."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

from sqlalchemy import Connection, text

from engine.conversations.forgetting import forgets
from engine.conversations.memories import memory_of
from jiyi.protocol.events import SessionEnded, TurnRecorded
from jiyi.settings import Settings, get_settings
from models.memory.agents import AgentName, bind_name
from models.memory.event_types import EventType, StoredBatch, after_events, register_event
from models.queue import pending_work

#: New turns of a conversation; fewer wait for more, or for the session's end.
EXTRACT_MIN_MESSAGES = 4
#: New turns that one extraction processes at most.
EXTRACT_MAX_MESSAGES = 60

#: Pending work of an agent with unprocessed turns.
EXTRACT = "extract"


register_event(TurnRecorded, EventType(memory=memory_of))


@after_events
def enqueue_extraction(batch: StoredBatch) -> None:
    """Enqueue extraction for the agents that have new turns, or whose sessions have ended."""
    turns = batch.of_type(TurnRecorded)
    spoke = {(event.group_id, event.agent_id) for event in turns}
    # An order to forget is carried out at once.
    orders = [turn for turn in turns if turn.payload.role == "user" and forgets(turn.payload.text)]
    over = [*batch.of_type(SessionEnded), *orders]
    ended = {(event.group_id, event.agent_id) for event in over}
    enqueue(batch.connection, spoke, ended)


def enqueue(connection: Connection, spoke: Collection[AgentName], ended: Collection[AgentName] = ()) -> None:
    """Enqueue extraction for agents whose rows this transaction has locked.

    Work in progress is left alone: its worker looks once more under the agent's lock before it ends. So
    this waits for no worker, and neither a turn nor the end of a session is forgotten.
    """
    now = datetime.now(UTC)
    for name in sorted({*spoke, *ended}):
        if name in ended:
            connection.execute(_ENDED, bind_name(name))
        agent_key, due = _due(connection, name, now)
        if due is None:
            continue
        pending_work.enqueue_at(connection, EXTRACT, (agent_key, name[0]), due, sooner=True)


def due_again(connection: Connection, name: AgentName) -> datetime | None:
    """When the rest of the agent's turns is due; call it under the agent's lock."""
    return _due(connection, name, datetime.now(UTC))[1]


def _due(connection: Connection, name: AgentName, now: datetime) -> tuple[UUID, datetime | None]:
    """The agent's key, and when its turns are due."""
    row = connection.execute(_WAITING, {**bind_name(name), "enough": EXTRACT_MIN_MESSAGES}).one()
    waiting = Waiting(row.waiting, row.since, row.last_run_at, row.ended)
    return row.agent_key, due_at(waiting, now, get_settings())


_WAITING = text("""
    SELECT a.agent_key, c.last_run_at, w.waiting, w.since,
        coalesce(c.ended_at_count > c.extracted_to, false) AS ended
    FROM agents a LEFT JOIN extraction_cursors c USING (group_id, agent_id)
    CROSS JOIN LATERAL (
        SELECT count(*) AS waiting, min(stored_at) AS since FROM (
            SELECT n.stored_at FROM memory_nodes n
            WHERE n.group_id = a.group_id AND n.agent_id = a.agent_id AND n.kind = 'session'
              AND n.provenance ->> 'role' IS NOT NULL AND n.node_count > coalesce(c.extracted_to, 0)
              AND NOT n.provenance ? 'looked_through'
            ORDER BY n.node_count LIMIT :enough
        ) AS first
    ) AS w
    WHERE a.group_id = :group AND a.agent_id = :agent
""")
_ENDED = text("""
    INSERT INTO extraction_cursors (group_id, agent_id, ended_at_count, last_run_at)
    SELECT group_id, agent_id, node_count, NULL FROM agents WHERE group_id = :group AND agent_id = :agent
    ON CONFLICT (group_id, agent_id) DO UPDATE SET ended_at_count = excluded.ended_at_count
""")


@dataclass(frozen=True, slots=True)
class Waiting:
    """An agent's unprocessed turns: how many, and since when the first waits."""

    count: int
    since: datetime | None
    last_run: datetime | None = None
    #: Nothing more is to be expected: the session has ended.
    ended: bool = False


def due_at(waiting: Waiting, now: datetime, settings: Settings) -> datetime | None:
    """When the turns are to be processed; None if there are none.

    Enough turns: at once, or when the last run's window ends. Fewer: with what follows, at the end of the
    session, or after ``extract_wait_seconds``.
    """
    if not waiting.count or waiting.since is None:
        return None
    if waiting.ended:
        return now
    # A time in the future was noted while a clock was wrong.
    due = now
    if waiting.last_run is not None:
        due = max(due, min(waiting.last_run, now) + timedelta(seconds=settings.extract_window_seconds))
    if waiting.count < EXTRACT_MIN_MESSAGES:
        due = max(due, min(waiting.since, now) + timedelta(seconds=settings.extract_wait_seconds))
    return due
