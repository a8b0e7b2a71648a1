"""Reads of agents: their rows, their keywords, their memories over time. Their writes stand in ``models.memory.agents``."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from pydantic import BaseModel
from sqlalchemy import Connection, and_, func, literal, or_, select, text, tuple_

from jiyi.protocol.memory import AgentState, KeywordStrength
from models.db.rows import columns, fetch, fetch_one
from models.memory import tables
from models.memory.tables import Agent

#: Memories, the newest ones, that an agent's timeline counts: a tenth of a second of reading.
TIMELINE_NODES = 100_000
#: Agents that are offered to be chosen; others can be typed.
OFFERED = 500


class TimelineSpan(BaseModel):
    """How many memories happened in a span of time, of each type."""

    start: datetime
    memories: int
    event: int
    thought: int
    chat: int


class Span(NamedTuple):
    """When the first and the last of some memories happened."""

    first: datetime
    last: datetime


def agent(connection: Connection, group_id: str, agent_id: str) -> AgentState | None:
    """One agent, or None."""
    wanted = select(*columns(AgentState, Agent)).where(Agent.group_id == group_id, Agent.agent_id == agent_id)
    return fetch_one(connection, AgentState, wanted)


def agents(connection: Connection, group_id: str, after: str, limit: int) -> list[AgentState]:
    """Agents in the order of their names, after the one named."""
    wanted = select(*columns(AgentState, Agent)).where(Agent.group_id == group_id, Agent.agent_id > after)
    return fetch(connection, AgentState, wanted.order_by(Agent.agent_id).limit(limit))


def names(connection: Connection, group_id: str, limit: int = OFFERED) -> list[str]:
    """Names of agents, to choose one."""
    wanted = select(Agent.agent_id).where(Agent.group_id == group_id)
    return list(connection.execute(wanted.order_by(Agent.agent_id).limit(limit)).scalars())


def belongings(connection: Connection, group_id: str, agent_id: str) -> dict[str, bool]:
    """Whether the agent has what has pages of its own, beside its memories."""
    parts = ", ".join(f"EXISTS ({rows}) AS {name}" for name, rows in _BELONGINGS.items())
    return dict(connection.execute(text(f"SELECT {parts}"), {"group": group_id, "agent": agent_id}).mappings().one())


def belonging(name: str, rows: str) -> None:
    """Register a part of :func:`belongings`: a SELECT of rows that the agent ``:agent`` of ``:group`` has in another subject."""
    _BELONGINGS[name] = rows


def keywords(
    connection: Connection, group_id: str, agent_id: str, limit: int, *, offset: int = 0, after: tuple[int, str, str] | None = None
) -> list[KeywordStrength]:
    """An agent's keywords, strongest first: without the first ``offset``, or after a row's strength, keyword and type."""
    row = tables.KeywordStrength
    wanted = select(*columns(KeywordStrength, row)).where(row.group_id == group_id, row.agent_id == agent_id)
    if after is not None:
        same = tuple_(row.keyword, row.memory_type) > tuple_(literal(after[1]), literal(after[2]))
        wanted = wanted.where(or_(row.strength < after[0], and_(row.strength == after[0], same)))
    order = (row.strength.desc(), row.keyword, row.memory_type)
    return fetch(connection, KeywordStrength, wanted.order_by(*order).offset(offset).limit(limit))


def timeline(connection: Connection, group_id: str, agent_id: str, unit: str) -> list[TimelineSpan]:
    """How many memories of each type began in each ``hour``, ``day``, ``week`` or ``month`` (UTC), oldest first."""
    parameters = {"group": group_id, "agent": agent_id, "unit": unit, "nodes": TIMELINE_NODES}
    return fetch(connection, TimelineSpan, _TIMELINE, **parameters)


def span(connection: Connection, group_id: str, agent_id: str) -> Span | None:
    """When the first and the last of the memories happened that the timeline counts."""
    node = tables.MemoryNode
    newest = select(node.created_at).where(node.group_id == group_id, node.agent_id == agent_id)
    counted = newest.order_by(node.node_count.desc()).limit(TIMELINE_NODES).subquery()
    first, last = connection.execute(select(func.min(counted.c.created_at), func.max(counted.c.created_at))).one()
    return None if first is None else Span(first, last)


_TIMELINE = text("""
    SELECT date_trunc(:unit, created_at, 'UTC') AS start, count(*) AS memories, count(*) FILTER (WHERE type = 'event') AS event,
        count(*) FILTER (WHERE type = 'thought') AS thought, count(*) FILTER (WHERE type = 'chat') AS chat
    FROM (
        SELECT type, created_at FROM memory_nodes WHERE group_id = :group AND agent_id = :agent
        ORDER BY node_count DESC LIMIT :nodes
    ) AS newest
    GROUP BY 1 ORDER BY 1
""")
#: What has pages of its own → a SELECT of an agent's rows of it.
_BELONGINGS = {"conversations": "SELECT FROM memory_nodes WHERE group_id = :group AND agent_id = :agent AND kind = 'session'"}
