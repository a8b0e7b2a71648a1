"""Reflections: asked for, begun, finished; what they start from, conversations that have ended among it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, time, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, bindparam, text
from sqlalchemy.dialects.postgresql import JSONB
from uuid6 import uuid7

from engine.operations import JOBS
from engine.reflection import MAX_STATEMENTS, MemoryStatement
from jiyi.protocol.events import SessionEnded
from jiyi.settings import Mode, get_settings
from jiyi.zones import by_clock
from models.memory.agents import AgentName, time_zone
from models.memory.event_types import EventType, StoredBatch, after_events, register_event
from models.queue import pending_work
from models.queue.pending_work import MAX_ERROR_CHARS

#: Kinds of work: an agent's reflection (subject: its key), and one on a conversation (subject: the event that
#: ended it).
REFLECT, REFLECT_CONVERSATION = "reflect", "reflect_conversation"
#: When agents reflect by schedule, by the clocks of their time zones.
NIGHT = time(3)
#: Events since the last reflection below which none is scheduled: from fewer nothing follows that no single
#: memory says.
LEAST_NEW = 3
#: Chats of one session that are looked at, the latest ones.
MAX_CHATS = 50


@after_events
def enqueue_conversations(batch: StoredBatch) -> None:
    ended = [(event.event_id, event.group_id) for event in batch.of_type(SessionEnded)]
    pending_work.enqueue(batch.connection, REFLECT_CONVERSATION, ended)


@dataclass(frozen=True, slots=True)
class StartedReflection:
    """An attempt at a reflection. It may finish it as long as no other attempt has begun."""

    reflection_id: UUID
    attempt: int
    #: Why there is one.
    trigger: str = "importance"


def ask(connection: Connection, group_id: str, agent_id: str, trigger: str) -> UUID:
    """The id of the agent's open reflection; a new one if there is none. The caller enqueues the work."""
    parameters = {"id": uuid7(), "group": group_id, "agent": agent_id, "trigger": trigger}
    reflection_id: UUID = connection.execute(_ASK, parameters).scalar_one()
    return reflection_id


def begin(connection: Connection, group_id: str, agent_id: str, llm: str) -> StartedReflection:
    """Go on with the agent's open reflection, or begin one of which nobody knew: importance has added up."""
    parameters = {"id": uuid7(), "group": group_id, "agent": agent_id, "llm": llm}
    row = connection.execute(_BEGIN, parameters).one()
    return StartedReflection(row.reflection_id, row.attempts, row.trigger)


def begin_conversation(
    connection: Connection, event_id: UUID, group_id: str, agent_id: str, llm: str
) -> StartedReflection:
    parameters = {"id": event_id, "group": group_id, "agent": agent_id, "llm": llm}
    return StartedReflection(event_id, connection.execute(_BEGIN_CONVERSATION, parameters).scalar_one())


def interrupt(connection: Connection, begun: StartedReflection, error: str) -> None:
    """The attempt came to nothing; the next one goes on."""
    connection.execute(_INTERRUPT, {**_own(begun), "error": error[:MAX_ERROR_CHARS]})


def finish(
    connection: Connection,
    begun: StartedReflection,
    *,
    focal_points: Sequence[str] = (),
    thoughts: int = 0,
    nothing: str = "",
) -> bool:
    """Close the reflection. False if another attempt has begun since: then this one may write nothing."""
    parameters = {
        **_own(begun),
        "state": "nothing" if nothing else "done",
        "focal_points": list(focal_points),
        "thoughts": thoughts,
        "error": nothing or None,
    }
    return connection.execute(_FINISH, parameters).rowcount == 1


def clock(connection: Connection, group_id: str, agent_id: str) -> datetime:
    """The time that the agent lives in, real or simulated: that of its latest memories, or now."""
    moment: datetime = connection.execute(
        _CLOCK, {"group": group_id, "agent": agent_id, "newest": MAX_STATEMENTS}
    ).scalar_one()
    return moment


def latest(
    connection: Connection, group_id: str, agent_id: str, count: int, *, mode: Mode, now: datetime
) -> list[MemoryStatement]:
    """The agent's latest ``count`` events and thoughts that are not idle, the latest last.

    Latest by what happened; in ``stanford`` mode by last access, as the original has it.
    """
    statement = _LATEST_ACCESSED if mode == "stanford" else _LATEST
    parameters = {"group": group_id, "agent": agent_id, "count": count, "now": now}
    rows = connection.execute(statement, parameters).all()
    return [MemoryStatement(row.node_id, row.embedding_key, user_id=row.private_to) for row in reversed(rows)]


def private_users(connection: Connection, group_id: str, node_ids: Sequence[UUID]) -> dict[UUID, str]:
    """Those of some memories that are visible to one user alone, with that user."""
    return {
        row.node_id: row.user_id
        for row in connection.execute(_PRIVATE_USERS, {"group": group_id, "ids": list(node_ids)})
    }


def already_thought(
    connection: Connection, group_id: str, agent_id: str, texts: Sequence[str]
) -> set[tuple[str, str | None]]:
    """Those of some texts that a thought of the agent's, not archived, says word for word, and for whom."""
    rows = connection.execute(_ALREADY_THOUGHT, {"group": group_id, "agent": agent_id, "texts": list(texts)})
    return {(row.description, row.user_id) for row in rows}


def last_night(now: datetime, tz: str) -> datetime:
    """The latest :data:`NIGHT` by the clocks of a time zone; of UTC where the zone's name is unknown here."""
    local = by_clock(now.astimezone(UTC), tz)
    tonight = datetime.combine(local.date(), NIGHT, local.tzinfo)
    return tonight if tonight <= local else tonight - timedelta(days=1)


def next_scheduled(
    connection: Connection, name: AgentName, new_events: int, now: datetime
) -> datetime | None:
    """When an agent with so many new events reflects by schedule, in its time zone; None if it does not."""
    if new_events < LEAST_NEW or not JOBS["reflect"].schedule(get_settings()).every:
        return None
    return last_night(now, time_zone(connection, *name)) + timedelta(days=1)


def due_by_schedule(
    connection: Connection, group_id: str | None, now: datetime, limit: int
) -> list[tuple[UUID, str, str]]:
    """(agent_key, group_id, agent_id) of agents with events of before last night that no reflection has
    seen.
    """
    deployment = get_settings().tz
    zones = {deployment, *connection.execute(_ZONES).scalars()}
    nights = {tz: last_night(now, tz) for tz in sorted(zones)}
    parameters: dict[str, Any] = {"group": group_id, "deployment": deployment}
    parameters |= {"zones": list(nights), "nights": list(nights.values()), "least": LEAST_NEW, "limit": limit}
    rows = connection.execute(_DUE_BY_SCHEDULE, parameters)
    return [(row.agent_key, row.group_id, row.agent_id) for row in rows]


def _own(begun: StartedReflection) -> dict[str, UUID | int]:
    return {"id": begun.reflection_id, "attempt": begun.attempt}


@dataclass(frozen=True, slots=True)
class EndedSession:
    group_id: str
    agent_id: str
    session_id: str | None
    occurred_at: datetime
    partner: str | None
    chat_ids: list[UUID]
    user_id: str | None = None


@dataclass(frozen=True, slots=True)
class Transcript:
    """The chats, what was said in them in their order, and which of those named are not there."""

    chat_ids: list[UUID] = field(default_factory=list)
    utterances: list[tuple[str, str]] = field(default_factory=list)
    missing: list[UUID] = field(default_factory=list)
    #: Why there is nothing to think about, if there is not.
    nothing: str = ""


def find_ended(connection: Connection, event_id: UUID) -> EndedSession | None:
    row = connection.execute(_ENDED, {"id": event_id}).one_or_none()
    if row is None:
        return None
    chat_ids = [UUID(chat_id) for chat_id in row.payload.get("chat_ids", [])]
    partner, user_id = row.payload.get("partner"), row.payload.get("user_id")
    return EndedSession(
        row.group_id, row.agent_id, row.session_id, row.occurred_at, partner, chat_ids, user_id
    )


def load_transcript(connection: Connection, ending: EndedSession) -> Transcript:
    """What was said: in the chats that the event names, or else in those of its session (with its partner, if
    named).
    """
    parameters: dict[str, Any] = {"group": ending.group_id, "agent": ending.agent_id}
    if ending.chat_ids:
        rows = connection.execute(_NAMED, {**parameters, "ids": ending.chat_ids}).all()
    else:
        session = {"session": ending.session_id, "user": ending.user_id, "limit": MAX_CHATS}
        chats = connection.execute(_OF_SESSION, parameters | session).all()
        rows = [row for row in reversed(chats) if ending.partner is None or ending.partner in _people(row)]
    chat_ids = [row.node_id for row in rows]
    utterances = [pair for row in rows for pair in _utterances(row)]
    missing = [chat_id for chat_id in ending.chat_ids if chat_id not in chat_ids]
    return Transcript(chat_ids, utterances, missing, "" if utterances else _why_nothing(ending, chat_ids))


def _people(row: Any) -> set[str]:
    return {row.subject, row.object, *(speaker for speaker, _ in _utterances(row))}


def _utterances(row: Any) -> list[tuple[str, str]]:
    """(speaker, words). A chat that came with evidence holds that instead: ids."""
    return [(entry[0], entry[1]) for entry in row.filling if isinstance(entry, list)]


def _why_nothing(ending: EndedSession, chat_ids: list[UUID]) -> str:
    if chat_ids:
        return "nothing was said in the conversation's chats: they have no utterances"
    with_whom = f" with {ending.partner}" if ending.partner else ""
    whose = f" of the user {ending.user_id}" if ending.user_id else ""
    fix = "" if whose or with_whom else "; if it is several users', end it for each of them: give user_id"
    return f"the session {ending.session_id} has no memory of type chat{whose}{with_whom}{fix}"


# The update changes nothing; it is there to get the row that is in the way: reflections_one_open_idx.
_ASK = text("""
    INSERT INTO reflections (reflection_id, group_id, agent_id, trigger, state)
    VALUES (:id, :group, :agent, :trigger, 'owed')
    ON CONFLICT (group_id, agent_id) WHERE trigger <> 'conversation'
    AND state IN ('owed', 'running', 'waiting')
        DO UPDATE SET trigger = reflections.trigger
    RETURNING reflection_id
""")
_BEGIN = text("""
    INSERT INTO reflections (reflection_id, group_id, agent_id, trigger, state, attempts, started_at, llm)
    VALUES (:id, :group, :agent, 'importance', 'running', 1, clock_timestamp(), :llm)
    ON CONFLICT (group_id, agent_id) WHERE trigger <> 'conversation'
    AND state IN ('owed', 'running', 'waiting')
        DO UPDATE SET state = 'running', attempts = reflections.attempts + 1, started_at = clock_timestamp(),
            llm = excluded.llm, error = NULL
    RETURNING reflection_id, attempts, trigger
""")
_BEGIN_CONVERSATION = text("""
    INSERT INTO reflections (reflection_id, group_id, agent_id, trigger, state, attempts, started_at, llm)
    VALUES (:id, :group, :agent, 'conversation', 'running', 1, clock_timestamp(), :llm)
    ON CONFLICT (reflection_id, group_id) DO UPDATE SET state = 'running', attempts = reflections.attempts +
    1,
        started_at = clock_timestamp(), llm = excluded.llm, error = NULL
    RETURNING attempts
""")
_INTERRUPT = text("""
    UPDATE reflections SET state = 'waiting', error = :error
    WHERE reflection_id = :id AND attempts = :attempt AND state = 'running'
""")
_FINISH = text("""
    UPDATE reflections SET state = :state, focal_points = :focal_points, thoughts = :thoughts, error = :error,
        finished_at = clock_timestamp()
    WHERE reflection_id = :id AND attempts = :attempt AND state = 'running'
""").bindparams(bindparam("focal_points", type_=JSONB))
# The last numbers given out stand for the latest times: an index knows the numbers.
_CLOCK = text("""
    SELECT coalesce(max(created_at), now()) FROM (
        SELECT created_at FROM memory_nodes WHERE group_id = :group AND agent_id = :agent
        ORDER BY node_count DESC LIMIT :newest
    ) AS last
""")
_LATEST = text("""
    SELECT node_id, embedding_key,
        CASE WHEN visibility IS DISTINCT FROM 'agent' THEN user_id END AS private_to
    FROM memory_nodes
    WHERE group_id = :group AND agent_id = :agent AND type IN ('event', 'thought') AND NOT is_idle
    AND archived_at IS NULL
      AND kind IS DISTINCT FROM 'session' AND superseded_at IS NULL
      AND (expires_at IS NULL OR expires_at > :now)
    ORDER BY node_count DESC LIMIT :count
""")
_PRIVATE_USERS = text("""
    SELECT node_id, user_id FROM memory_nodes
    WHERE group_id = :group AND node_id = ANY(:ids) AND user_id IS NOT NULL AND visibility IS DISTINCT
    FROM 'agent'
""")
_ALREADY_THOUGHT = text("""
    SELECT description, user_id FROM memory_nodes
    WHERE group_id = :group AND agent_id = :agent AND type = 'thought' AND archived_at IS NULL
    AND description = ANY(:texts)
""")
# The original's order, backwards: retrieve.py sorts by last access, events before thoughts, the newest first.
_LATEST_ACCESSED = text("""
    SELECT n.node_id, n.embedding_key,
        CASE WHEN n.visibility IS DISTINCT FROM 'agent' THEN n.user_id END AS private_to
    FROM memory_nodes n JOIN node_access a USING (node_id, group_id)
    WHERE n.group_id = :group AND n.agent_id = :agent AND n.type IN ('event', 'thought')
      AND position('idle' in n.embedding_key) = 0 AND n.archived_at IS NULL
      AND n.kind IS DISTINCT FROM 'session' AND n.superseded_at IS NULL
    ORDER BY a.last_accessed DESC, n.type = 'thought' DESC, n.node_count LIMIT :count
""")
# The newest memory is found by its number, which is the agent's last one given out: no scan over the
# memories.
_ZONES = text("SELECT DISTINCT settings ->> 'tz' FROM agents WHERE settings ? 'tz'")
# The first memory stored since the last reflection shows whether there was something new by then.
_DUE_BY_SCHEDULE = text("""
    SELECT a.agent_key, a.group_id, a.agent_id FROM agents a
    JOIN unnest(CAST(:zones AS text[]), CAST(:nights AS timestamptz[])) AS z(tz, night)
        ON z.tz = coalesce(a.settings ->> 'tz', :deployment)
    CROSS JOIN LATERAL (
        SELECT n.stored_at FROM memory_nodes n
        WHERE n.group_id = a.group_id AND n.agent_id = a.agent_id
        AND n.node_count > a.node_count - a.importance_ele_n
        ORDER BY n.node_count LIMIT 1
    ) AS first
    WHERE (CAST(:group AS text) IS NULL OR a.group_id = :group)
      AND a.importance_ele_n >= :least AND first.stored_at < z.night
      AND NOT EXISTS (SELECT FROM pending_work p WHERE p.kind = 'reflect' AND p.subject_id = a.agent_key)
      AND NOT EXISTS (
          SELECT FROM reflections r WHERE r.group_id = a.group_id AND r.agent_id = a.agent_id
            AND r.trigger = 'schedule' AND r.created_at >= z.night
      )
    ORDER BY first.stored_at LIMIT :limit
""")
_ENDED = text("""
    SELECT group_id, agent_id, session_id, occurred_at, payload FROM events WHERE event_id = :id
    AND type = 'session.ended'
""")
_NAMED = text("""
    SELECT node_id, subject, object, filling FROM memory_nodes
    WHERE group_id = :group AND agent_id = :agent AND type = 'chat' AND node_id = ANY(:ids)
    ORDER BY type_count
""")
# Unless somebody is named, a session that is one user's is that user's.
_OF_SESSION = text("""
    SELECT node_id, subject, object, filling FROM memory_nodes
    WHERE group_id = :group AND agent_id = :agent AND type = 'chat' AND session_id = :session
      AND user_id IS NOT DISTINCT FROM coalesce(:user, (
          SELECT min(user_id) FROM memory_nodes
          WHERE group_id = :group AND agent_id = :agent AND type = 'chat' AND session_id = :session
          HAVING count(DISTINCT coalesce(user_id, '')) = 1
      ))
    ORDER BY type_count DESC LIMIT :limit
""")


register_event(SessionEnded, EventType())
