"""Experiences in the database: the structured row, and the memory of kind ``experience`` that says it."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from sqlalchemy import Connection, bindparam, select

from engine.conversations.memories import Source, StoredExperience, experience_event, merged, pattern_hash, text_of
from jiyi.protocol.conversations import ExtractedExperience
from models.conversations import extractions
from models.conversations.tables import Experience
from models.db.rows import columns, upsert
from models.memory.agents import AgentName, bind_name
from models.memory.inbox import Stored, store
from models.memory.tables import MemoryNode


def keep(connection: Connection, name: AgentName, told: ExtractedExperience, source: Source, now: datetime) -> Stored:
    """Store it, or merge it with what is known of the same problem; the memory that said less is superseded.

    Call it under the agent's lock.
    """
    key = pattern_hash(told.pain_pattern)
    row = connection.execute(_FIND, bind_name(name) | {"hash": key}).one_or_none()
    known = None if row is None else StoredExperience.model_validate(row, from_attributes=True)
    experience = merged(known, told)
    before = [] if row is None else _turns(connection, name, row.node_id)
    event = experience_event(experience, told, source, before)
    stored = store(connection, [event])
    node_id = _in_force(connection, name, event.payload.uri, text_of(experience)) or event.event_id
    if row is not None and row.node_id != node_id:
        extractions.supersede(connection, name, [row.node_id], node_id, turns=False)
    whose = {"group_id": name[0], "agent_id": name[1], "pattern_hash": key, "node_id": node_id}
    connection.execute(_SAVE, {**whose, **experience.model_dump(), "created_at": now, "updated_at": now})
    return stored


def of_agent(connection: Connection, name: AgentName, limit: int) -> list[StoredExperience]:
    """The agent's experiences, the most used first."""
    rows = connection.execute(_ALL, bind_name(name) | {"limit": limit})
    return [StoredExperience.model_validate(row, from_attributes=True) for row in rows]


def _turns(connection: Connection, name: AgentName, node_id: UUID) -> list[UUID]:
    """The turns that a memory rests on."""
    filling = connection.execute(_TURNS, bind_name(name) | {"id": node_id}).scalar_one_or_none()
    return [UUID(turn) for turn in filling or ()]


def _in_force(connection: Connection, name: AgentName, uri: str | None, content: str) -> UUID | None:
    node_id: UUID | None = connection.execute(_AT, bind_name(name) | {"uri": uri, "content": content}).scalar_one_or_none()
    return node_id


_FIELDS = columns(StoredExperience, Experience)
_OF_AGENT = (Experience.group_id == bindparam("group"), Experience.agent_id == bindparam("agent"))
_MEMORY_OF_AGENT = (MemoryNode.group_id == bindparam("group"), MemoryNode.agent_id == bindparam("agent"))
_FIND = select(Experience.node_id, *_FIELDS).where(*_OF_AGENT, Experience.pattern_hash == bindparam("hash")).with_for_update()
_ALL = select(*_FIELDS).where(*_OF_AGENT).order_by(Experience.reuse_count.desc(), Experience.updated_at.desc()).limit(bindparam("limit"))
_AT = (
    select(MemoryNode.node_id)
    .where(*_MEMORY_OF_AGENT, MemoryNode.uri == bindparam("uri"), MemoryNode.description == bindparam("content"))
    .where(MemoryNode.superseded_at.is_(None))
    .limit(1)
)
_TURNS = select(MemoryNode.filling).where(*_MEMORY_OF_AGENT, MemoryNode.node_id == bindparam("id"))
_SAVE = upsert(Experience, "node_id", "updated_at", *StoredExperience.model_fields)
