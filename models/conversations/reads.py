"""What the admin shows of conversations: agents that have some, and of one what is remembered, what was superseded and injected."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import BaseModel
from sqlalchemy import Connection, bindparam, func, or_, select, text

from jiyi.protocol.conversations import Kind
from models.db.rows import columns, fetch
from models.memory.agents import AgentName
from models.memory.tables import MemoryNode


class TalkingAgent(BaseModel):
    """An agent with memories of conversations: how many are in force, by kind."""

    agent_id: str
    preference: int
    knowledge: int
    experience: int
    session: int
    latest: datetime


class RememberedLine(BaseModel):
    """A memory as a list shows it: its overview (L1), or its text where it has none yet."""

    node_id: UUID
    kind: Kind
    uri: str
    line: str
    abstract: str | None
    poignancy: float | None
    created_at: datetime
    session_id: str | None
    superseded_by: UUID | None
    superseded_at: datetime | None


class InjectionRow(BaseModel):
    """What was put before one answer, and why."""

    injection_id: UUID
    session_id: str | None
    query: str
    intent: str
    tokens: int
    node_ids: list[UUID]
    reasons: list[dict[str, Any]]
    created_at: datetime


def agents(connection: Connection, group_id: str, after: str, limit: int) -> list[TalkingAgent]:
    """The group's agents with memories of conversations, in the order of their names."""
    return fetch(connection, TalkingAgent, _AGENTS, group=group_id, after=after, limit=limit)


def remembered(connection: Connection, name: AgentName, kind: Kind, limit: int) -> list[RememberedLine]:
    """What is in force of a kind, newest first."""
    return fetch(connection, RememberedLine, _REMEMBERED, group=name[0], agent=name[1], kind=kind, limit=limit)


def superseded(connection: Connection, name: AgentName, limit: int) -> list[RememberedLine]:
    """What was once so, the latest changes first; turns are left out."""
    return fetch(connection, RememberedLine, _SUPERSEDED, group=name[0], agent=name[1], limit=limit)


def injections(connection: Connection, name: AgentName, before: UUID | None, limit: int) -> list[InjectionRow]:
    """What was put before the agent's answers, newest first."""
    return fetch(connection, InjectionRow, _INJECTIONS, group=name[0], agent=name[1], before=before, limit=limit)


_AGENTS = text("""
    SELECT agent_id, max(created_at) AS latest,
        count(*) FILTER (WHERE kind = 'preference') AS preference, count(*) FILTER (WHERE kind = 'knowledge') AS knowledge,
        count(*) FILTER (WHERE kind = 'experience') AS experience, count(*) FILTER (WHERE kind = 'session') AS session
    FROM memory_nodes WHERE group_id = :group AND agent_id > :after AND kind IS NOT NULL AND (superseded_at IS NULL OR kind = 'session')
    GROUP BY agent_id ORDER BY agent_id LIMIT :limit
""")
_LINES = select(*columns(RememberedLine, MemoryNode, line=func.coalesce(MemoryNode.overview, MemoryNode.description))).where(
    MemoryNode.group_id == bindparam("group"), MemoryNode.agent_id == bindparam("agent")
)
_REMEMBERED = (
    _LINES.where(MemoryNode.kind == bindparam("kind"), or_(MemoryNode.superseded_at.is_(None), MemoryNode.kind == "session"))
    .order_by(MemoryNode.node_count.desc())
    .limit(bindparam("limit"))
)
_SUPERSEDED = (
    _LINES.where(MemoryNode.kind != "session", MemoryNode.superseded_at.is_not(None))
    .order_by(MemoryNode.superseded_at.desc(), MemoryNode.node_count.desc())
    .limit(bindparam("limit"))
)
_INJECTIONS = text("""
    SELECT injection_id, session_id, query, intent, tokens, node_ids, reasons, created_at FROM injections
    WHERE group_id = :group AND agent_id = :agent AND (CAST(:before AS uuid) IS NULL OR injection_id < :before)
    ORDER BY injection_id DESC LIMIT :limit
""")
