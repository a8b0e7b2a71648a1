"""How often agents look at themselves: settings, conversations that have ended since, and who is due (ZC-140)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, text

from jiyi.growth.reflections.due import Rhythm, SelfTrigger, due, due_at
from jiyi.protocol.growth.reflections import SelfSettings, SelfState
from jiyi.settings import get_settings
from models.memory.agents.agents import AgentName, AgentRow
from models.queue import pending_work
from models.reflection import reflections
from models.reflection.reflections import REFLECT


@dataclass(frozen=True, slots=True)
class Known:
    """An agent's settings with the deployment's where it has none, and how far it has come."""

    settings: SelfSettings
    rhythm: Rhythm
    #: ``node_count`` of the last turn that was seen.
    seen_to: int

    @property
    def due(self) -> SelfTrigger | None:
        return due(self.rhythm, datetime.now(UTC))


def begin(connection: Connection, name: AgentName) -> None:
    """From now on the agent's hours count; nothing happens if they do already."""
    connection.execute(_BEGIN, _whose(name))


def find(connection: Connection, name: AgentName) -> Known:
    """As the deployment has it where the agent has nothing of its own."""
    row = connection.execute(_FIND, _whose(name) | _defaults()).mappings().one_or_none()
    if row is None:
        now = datetime.now(UTC)
        settings = get_settings()
        return Known(
            SelfSettings(
                conversations=settings.self_reflect_conversations,
                hours=settings.self_reflect_hours,
                require_approval=True,
                allow_soul_modification=False,
                use_llm=True,
                fallback=True,
            ),
            Rhythm(settings.self_reflect_conversations, settings.self_reflect_hours, 0, now, anything_new=False),
            0,
        )
    own = SelfSettings.model_validate({field: row[field] for field in SelfSettings.model_fields})
    rhythm = Rhythm(own.conversations, own.hours, row["ended"], row["last_at"], anything_new=row["anything_new"], asked=row["asked"])
    return Known(own, rhythm, row["seen_to"])


def state(connection: Connection, name: AgentName) -> SelfState:
    """What is told of it."""
    known = find(connection, name)
    return SelfState(
        agent_id=name[1],
        settings=known.settings,
        ended=known.rhythm.ended,
        last_at=known.rhythm.last_at,
        anything_new=known.rhythm.anything_new,
        due=known.due,
        due_at=due_at(known.rhythm),
    )


def configure(connection: Connection, name: AgentName, given: Mapping[str, Any]) -> None:
    """Change the settings that are given. Call it under the agent's lock."""
    begin(connection, name)
    before = connection.execute(_OWN, _whose(name)).mappings().one()
    connection.execute(_CONFIGURE, _whose(name) | {**before, **given})


def ask(connection: Connection, name: AgentName) -> None:
    """The agent's next reflection is a look at itself. Call it under the agent's lock."""
    begin(connection, name)
    connection.execute(_ASK, _whose(name))


def conversations_ended(connection: Connection, agents: Mapping[AgentName, AgentRow], ended: Iterable[AgentName]) -> int:
    """Count conversations that have ended, of agents that are locked; owe a reflection to those that are due, and say how many."""
    owing = 0
    for name, count in sorted(Counter(ended).items()):
        row = connection.execute(_ENDED, _whose(name) | _defaults() | {"count": count}).one()
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


def looked(connection: Connection, name: AgentName, known: Known, seen_to: int) -> bool:
    """The look is over: what has happened since it began counts towards the next one. Whether that is due already."""
    connection.execute(_LOOKED, _whose(name) | {"ended": known.rhythm.ended, "seen": seen_to})
    return find(connection, name).due is not None


def _owe(connection: Connection, name: AgentName, agent_key: UUID, trigger: SelfTrigger) -> None:
    reflections.ask(connection, *name, trigger)
    pending_work.owe(connection, REFLECT, [(agent_key, name[0])])


def _whose(name: AgentName) -> dict[str, object]:
    return {"group": name[0], "agent": name[1]}


def _defaults() -> dict[str, object]:
    settings = get_settings()
    return {"conversations": settings.self_reflect_conversations, "hours": settings.self_reflect_hours}


_OF_AGENT = "s.group_id = :group AND s.agent_id = :agent"
_NEW = """
    EXISTS (
        SELECT FROM memory_nodes n WHERE n.group_id = s.group_id AND n.agent_id = s.agent_id AND n.kind = 'session'
          AND n.node_count > s.seen_to
    )
"""
_BEGIN = text("INSERT INTO self_reflections (group_id, agent_id) VALUES (:group, :agent) ON CONFLICT DO NOTHING")
_FIND = text(f"""
    SELECT coalesce(s.conversations, :conversations) AS conversations, coalesce(s.hours, :hours) AS hours, s.require_approval,
        s.allow_soul_modification, s.use_llm, s.fallback, s.ended, s.seen_to, s.last_at, s.asked, {_NEW} AS anything_new
    FROM self_reflections s WHERE {_OF_AGENT}
""")  # noqa: S608 – our own names; values are parameters
_OWN = text(f"""
    SELECT conversations, hours, require_approval, allow_soul_modification, use_llm, fallback FROM self_reflections s WHERE {_OF_AGENT}
""")  # noqa: S608 – our own names; values are parameters
_CONFIGURE = text(f"""
    UPDATE self_reflections s SET conversations = :conversations, hours = :hours, require_approval = :require_approval,
        allow_soul_modification = :allow_soul_modification, use_llm = :use_llm, fallback = :fallback WHERE {_OF_AGENT}
""")  # noqa: S608 – our own names; values are parameters
_ASK = text(f"UPDATE self_reflections s SET asked = true WHERE {_OF_AGENT}")  # noqa: S608 – our own names; values are parameters
_ENDED = text("""
    INSERT INTO self_reflections AS s (group_id, agent_id, ended) VALUES (:group, :agent, :count)
    ON CONFLICT (group_id, agent_id) DO UPDATE SET ended = s.ended + :count
    RETURNING ended, coalesce(conversations, :conversations) AS wanted
""")
_HOURS = text(f"""
    SELECT a.agent_key, s.group_id, s.agent_id FROM self_reflections s JOIN agents a USING (group_id, agent_id)
    WHERE coalesce(s.hours, :hours) > 0 AND {_NEW}
      AND s.last_at <= CAST(:now AS timestamptz) - make_interval(hours => coalesce(s.hours, :hours))
      AND NOT EXISTS (
          SELECT FROM pending_work p WHERE p.kind = 'reflect' AND p.subject_id = a.agent_key AND p.group_id = s.group_id
      )
    ORDER BY s.last_at LIMIT :limit FOR UPDATE OF s SKIP LOCKED
""")  # noqa: S608 – our own names; values are parameters
_LOOKED = text(f"""
    UPDATE self_reflections s SET ended = greatest(0, s.ended - :ended), seen_to = greatest(s.seen_to, :seen), last_at = clock_timestamp(),
        asked = false WHERE {_OF_AGENT}
""")  # noqa: S608 – our own names; values are parameters
