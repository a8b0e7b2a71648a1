"""Experiences in the database: the structured row, and the memory of kind ``experience`` that says it."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from sqlalchemy import Connection, bindparam, text
from sqlalchemy.dialects.postgresql import JSONB

from jiyi.conversations.stored.experiences import StoredExperience, merged, pattern_hash, text_of
from jiyi.conversations.stored.memories import Source, experience_event
from jiyi.conversations.types import ExtractedExperience
from models.conversations import extractions
from models.memory.agents import AgentName
from models.memory.inbox import Stored, store


def keep(connection: Connection, name: AgentName, told: ExtractedExperience, source: Source, now: datetime) -> Stored:
    """Store it, or merge it with what is known of the same problem; the memory that said less is superseded.

    Call it under the agent's lock.
    """
    key = pattern_hash(told.pain_pattern)
    row = connection.execute(_FIND, _whose(name) | {"hash": key}).one_or_none()
    known = None if row is None else StoredExperience.model_validate(row, from_attributes=True)
    made = merged(known, told)
    before = [] if row is None else _turns(connection, name, row.node_id)
    event = experience_event(made, told, source, before)
    stored = store(connection, [event])
    node_id = _in_force(connection, name, event.payload.uri, text_of(made)) or event.event_id
    if row is not None and row.node_id != node_id:
        extractions.supersede(connection, name, [row.node_id], node_id, turns=False)
    connection.execute(_SAVE, _whose(name) | made.model_dump() | {"hash": key, "node": node_id, "now": now})
    return stored


def of_agent(connection: Connection, name: AgentName, limit: int) -> list[StoredExperience]:
    """The agent's experiences, the most used first."""
    rows = connection.execute(_ALL, _whose(name) | {"limit": limit})
    return [StoredExperience.model_validate(row, from_attributes=True) for row in rows]


def _turns(connection: Connection, name: AgentName, node_id: UUID) -> list[UUID]:
    """The turns that a memory rests on."""
    found = connection.execute(_TURNS, _whose(name) | {"id": node_id}).scalar_one_or_none()
    return [UUID(turn) for turn in found or ()]


def _in_force(connection: Connection, name: AgentName, uri: str | None, content: str) -> UUID | None:
    found: UUID | None = connection.execute(_AT, _whose(name) | {"uri": uri, "content": content}).scalar_one_or_none()
    return found


def _whose(name: AgentName) -> dict[str, object]:
    return {"group": name[0], "agent": name[1]}


_COLUMNS = ", ".join(StoredExperience.model_fields)
_VALUES = ", ".join(f":{name}" for name in StoredExperience.model_fields)
_OF_AGENT = "group_id = :group AND agent_id = :agent"
_FIND = text(f"SELECT node_id, {_COLUMNS} FROM experiences WHERE {_OF_AGENT} AND pattern_hash = :hash FOR UPDATE")  # noqa: S608 – our own names; values are parameters
_ALL = text(f"SELECT {_COLUMNS} FROM experiences WHERE {_OF_AGENT} ORDER BY reuse_count DESC, updated_at DESC LIMIT :limit")  # noqa: S608 – our own names; values are parameters
_AT = text(f"""
    SELECT node_id FROM memory_nodes WHERE {_OF_AGENT} AND uri = :uri AND description = :content AND superseded_at IS NULL LIMIT 1
""")  # noqa: S608 – our own names; values are parameters
_TURNS = text(f"SELECT filling FROM memory_nodes WHERE {_OF_AGENT} AND node_id = :id")  # noqa: S608 – our own names; values are parameters
_SAVE = text(f"""
    INSERT INTO experiences (group_id, agent_id, pattern_hash, node_id, {_COLUMNS}, created_at, updated_at)
    VALUES (:group, :agent, :hash, :node, {_VALUES}, :now, :now)
    ON CONFLICT (group_id, agent_id, pattern_hash) DO UPDATE SET node_id = excluded.node_id, updated_at = excluded.updated_at,
        {", ".join(f"{name} = excluded.{name}" for name in StoredExperience.model_fields)}
""").bindparams(bindparam("solution_steps", type_=JSONB))  # noqa: S608 – our own names; values are parameters
