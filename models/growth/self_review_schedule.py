"""When agents review themselves: settings, conversations that have ended since, and who is due."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, and_, bindparam, exists, false, func, or_, select, text, true, update

from engine.growth.self_review import ReviewState, due_at, due_trigger
from jiyi.protocol.events import SessionEnded
from jiyi.protocol.growth import SelfSettings, SelfState, SelfTrigger
from models.db.base import Timestamp
from models.growth.tables import SelfReflection
from models.memory.agents import AgentName, AgentRow, bind_name
from models.memory.event_types import Owed, StoredBatch, after_events
from models.memory.tables import Agent, MemoryNode
from models.queue import clock, pending_work
from models.queue.tables import PendingWork
from models.reflection import reflections
from models.reflection.reflections import REFLECT

#: An agent reviews itself when so many conversations have ended, unless it has its own number.
SELF_REFLECT_CONVERSATIONS = 5
#: … and when so many hours have passed in which something was said.
SELF_REFLECT_HOURS = 24


@dataclass(frozen=True, slots=True)
class ReviewSchedule:
    """An agent's settings with the deployment's where it has none, and how far it has come."""

    settings: SelfSettings
    rhythm: ReviewState
    #: ``node_count`` of the last turn that was seen.
    seen_to: int

    @property
    def due(self) -> SelfTrigger | None:
        return due_trigger(self.rhythm, datetime.now(UTC))


def ensure_schedule(connection: Connection, name: AgentName) -> None:
    """From now on the agent's hours count; nothing happens if they do already."""
    connection.execute(_BEGIN, bind_name(name))


def find_schedule(connection: Connection, name: AgentName) -> ReviewSchedule:
    """As the deployment has it where the agent has nothing of its own."""
    row = connection.execute(_FIND, bind_name(name) | _defaults()).mappings().one_or_none()
    if row is None:
        now = datetime.now(UTC)
        return ReviewSchedule(
            SelfSettings(
                conversations=SELF_REFLECT_CONVERSATIONS,
                hours=SELF_REFLECT_HOURS,
                require_approval=True,
                allow_soul_modification=False,
                use_llm=True,
                fallback=True,
            ),
            ReviewState(SELF_REFLECT_CONVERSATIONS, SELF_REFLECT_HOURS, 0, now, anything_new=False),
            0,
        )
    own = SelfSettings.model_validate({field: row[field] for field in SelfSettings.model_fields})
    rhythm = ReviewState(own.conversations, own.hours, row["ended"], row["last_at"], anything_new=row["anything_new"], asked=row["asked"])
    return ReviewSchedule(own, rhythm, row["seen_to"])


def schedule_state(connection: Connection, name: AgentName) -> SelfState:
    """What is told of it."""
    known = find_schedule(connection, name)
    return SelfState(
        agent_id=name[1],
        settings=known.settings,
        ended=known.rhythm.ended,
        last_at=known.rhythm.last_at,
        anything_new=known.rhythm.anything_new,
        due=known.due,
        due_at=due_at(known.rhythm),
    )


def configure_schedule(connection: Connection, name: AgentName, given: Mapping[str, Any]) -> None:
    """Change the settings that are given. Call it under the agent's lock."""
    ensure_schedule(connection, name)
    if given:
        connection.execute(update(_S).where(*_OF_AGENT).values(**given), bind_name(name))


def request_review(connection: Connection, name: AgentName) -> None:
    """The agent's next reflection is a self-review. Call it under the agent's lock."""
    ensure_schedule(connection, name)
    connection.execute(_ASK, bind_name(name))


def lock_schedule(connection: Connection, name: AgentName) -> None:
    """Lock the agent's self-review schedule until the transaction ends: after the agent, before its reflections."""
    connection.execute(_LOCK, bind_name(name))


@after_events
def count_conversations(batch: StoredBatch) -> list[Owed]:
    """Count the conversations of a batch that have ended."""
    over = [(event.group_id, event.agent_id) for event in batch.of_type(SessionEnded)]
    return [Owed(REFLECT, conversations_ended(batch.connection, batch.agents, over))] if over else []


def conversations_ended(connection: Connection, agents: Mapping[AgentName, AgentRow], ended: Iterable[AgentName]) -> int:
    """Count conversations that have ended, of agents that are locked; owe a reflection to those that are due, and say how many."""
    owing = 0
    for name, count in sorted(Counter(ended).items()):
        row = connection.execute(_ENDED, bind_name(name) | _defaults() | {"count": count}).one()
        if row.wanted and row.ended >= row.wanted:
            _owe(connection, name, agents[name].agent_key, "conversations")
            owing += 1
    return owing


def owe_hours(connection: Connection, now: datetime, limit: int) -> list[datetime]:
    """Owe a reflection to agents whose hours are over at ``now``, with something new since: up to ``limit``; when it is due, for each.

    Safe to repeat because an agent that owes one is not found again, and two at once find different agents.
    """
    rows = connection.execute(_HOURS, _defaults() | {"now": now, "limit": limit}).all()
    for row in rows:
        _owe(connection, (row.group_id, row.agent_id), row.agent_key, "hours")
    return [now] * len(rows)


def finish_review(connection: Connection, name: AgentName, known: ReviewSchedule, seen_to: int) -> bool:
    """The look is over: what has happened since it began counts towards the next one. Whether that is due already."""
    connection.execute(_LOOKED, bind_name(name) | {"so_many": known.rhythm.ended, "seen": seen_to})
    return find_schedule(connection, name).due is not None


def _owe(connection: Connection, name: AgentName, agent_key: UUID, trigger: SelfTrigger) -> None:
    reflections.ask(connection, *name, trigger)
    pending_work.enqueue(connection, REFLECT, [(agent_key, name[0])])


def _defaults() -> dict[str, int]:
    return {"conversations": SELF_REFLECT_CONVERSATIONS, "hours": SELF_REFLECT_HOURS}


_S = SelfReflection
_OF_AGENT = (_S.group_id == bindparam("group"), _S.agent_id == bindparam("agent"))
#: The agent's number, else the deployment's.
_CONVERSATIONS = func.coalesce(_S.conversations, bindparam("conversations"))
_EVERY_HOURS = func.coalesce(_S.hours, bindparam("hours"))
_OWN_MEMORY = and_(MemoryNode.group_id == _S.group_id, MemoryNode.agent_id == _S.agent_id)
_ANYTHING_NEW = exists().where(_OWN_MEMORY, MemoryNode.kind == "session", MemoryNode.node_count > _S.seen_to)
_LOCK = text("SELECT FROM self_reflections WHERE group_id = :group AND agent_id = :agent FOR NO KEY UPDATE")
_BEGIN = text("INSERT INTO self_reflections (group_id, agent_id) VALUES (:group, :agent) ON CONFLICT DO NOTHING")
_FIND = select(
    _CONVERSATIONS.label("conversations"),
    _EVERY_HOURS.label("hours"),
    *(_S.require_approval, _S.allow_soul_modification, _S.use_llm, _S.fallback, _S.ended, _S.seen_to, _S.last_at, _S.asked),
    _ANYTHING_NEW.label("anything_new"),
).where(*_OF_AGENT)
_ASK = update(_S).where(*_OF_AGENT).values(asked=true())
_ENDED = text("""
    INSERT INTO self_reflections AS s (group_id, agent_id, ended) VALUES (:group, :agent, :count)
    ON CONFLICT (group_id, agent_id) DO UPDATE SET ended = s.ended + :count
    RETURNING ended, coalesce(conversations, :conversations) AS wanted
""")
_OWING = exists().where(PendingWork.kind == REFLECT, PendingWork.subject_id == Agent.agent_key, PendingWork.group_id == _S.group_id)
_AT = bindparam("now", type_=Timestamp)
# A look that is still to come was noted while a clock was wrong: it is none.
_HOURS = (
    select(Agent.agent_key, _S.group_id, _S.agent_id)
    .select_from(_S)
    .join(Agent, and_(Agent.group_id == _S.group_id, Agent.agent_id == _S.agent_id))
    .where(_EVERY_HOURS > 0, _ANYTHING_NEW, ~_OWING)
    .where(or_(_S.last_at <= _AT - func.make_interval(0, 0, 0, 0, _EVERY_HOURS), _S.last_at > _AT + clock.AHEAD))
    .order_by(_S.last_at)
    .limit(bindparam("limit"))
    .with_for_update(of=_S, skip_locked=True)
)
_LOOKED = (
    update(_S)
    .where(*_OF_AGENT)
    .values(
        ended=func.greatest(0, _S.ended - bindparam("so_many")),
        seen_to=func.greatest(_S.seen_to, bindparam("seen")),
        last_at=func.clock_timestamp(),
        asked=false(),
    )
)
