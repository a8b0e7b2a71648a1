"""Agents: made on their first event, their settings, their numbering; and reads of them, their keywords."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from pydantic import BaseModel
from sqlalchemy import Connection, FromClause, and_, bindparam, func, literal, or_, select, text, tuple_
from sqlalchemy.dialects.postgresql import JSONB
from uuid6 import uuid7

from engine.reflection import counters_after, is_due
from jiyi.errors import NotFound
from jiyi.protocol.agents import AgentSettings
from jiyi.protocol.events import Configuration
from jiyi.protocol.memory import AgentState, KeywordStrength
from jiyi.settings import get_settings
from models.db.connection import driver
from models.db.rows import columns, fetch, fetch_one
from models.db.spans import statement_span
from models.memory import tables
from models.memory.filters import clause
from models.memory.tables import Agent, MemoryNode
from models.operations.embedding_models import ActiveModel

#: (group_id, agent_id)
AgentName = tuple[str, str]
#: (agent_key, generation)
Identity = tuple[UUID, int]
#: Memories, the newest ones, that an agent's timeline counts: a tenth of a second of reading.
TIMELINE_NODES = 100_000
#: Agents that are offered to be chosen; others can be typed.
OFFERED = 500
#: What has pages of its own → a SELECT of an agent's rows of it.
_BELONGINGS = {
    "conversations": (
        "SELECT FROM memory_nodes WHERE group_id = :group AND agent_id = :agent AND kind = 'session'"
    )
}


def bind_name(name: AgentName) -> dict[str, str]:
    """The parameters ``:group`` and ``:agent`` of a statement about one agent."""
    return {"group": name[0], "agent": name[1]}


@dataclass(slots=True)
class AgentRow:
    """An agent's row, locked by the transaction that holds it: numbers are given out in memory."""

    group_id: str
    agent_id: str
    agent_key: UUID
    settings: AgentSettings
    node_count: int
    type_counts: dict[str, int]
    importance_trigger_curr: float
    importance_ele_n: int
    #: See ``models.memory.tables.Agent``.
    large_from: int | None = None
    changed: bool = False

    @property
    def outgrows(self) -> bool:
        """Whether it is to become large, and is not on its way yet."""
        return self.large_from is None and self.node_count > get_settings().index_max_nodes

    def number(self, node_type: str) -> tuple[int, int]:
        self.changed = True
        self.node_count += 1
        self.type_counts[node_type] = self.type_counts.get(node_type, 0) + 1
        return self.node_count, self.type_counts[node_type]

    def configure(self, configuration: Configuration) -> None:
        """Replace the settings that are given. A new trigger maximum keeps what was added up so far."""
        self.changed = True
        before = self.settings.over(get_settings()).importance_trigger_max
        changes = configuration.model_dump(exclude_unset=True, exclude={"counters"})
        self.settings = AgentSettings(**{**self.settings.model_dump(exclude_none=True), **changes})
        self.importance_trigger_curr += self.settings.over(get_settings()).importance_trigger_max - before
        if configuration.counters is not None:
            self.importance_trigger_curr = configuration.counters.importance_trigger_curr
            self.importance_ele_n = configuration.counters.importance_ele_n


def lock_agents(connection: Connection, names: Iterable[AgentName]) -> dict[AgentName, AgentRow]:
    """The named agents, made if absent, locked until the transaction ends; always in the same order."""
    sorted_names = sorted(set(names))
    locked = _select_locked(connection, sorted_names)
    if len(locked) < len(sorted_names):
        parameters = {
            "groups": [group_id for group_id, _ in sorted_names],
            "agents": [agent_id for _, agent_id in sorted_names],
            "keys": [uuid7() for _ in sorted_names],
            "trigger": get_settings().agent_defaults.importance_trigger_max,
        }
        connection.execute(_INSERT_GROUPS, parameters)
        connection.execute(_INSERT_AGENTS, parameters)
        locked = _select_locked(connection, sorted_names)
    return locked


def make_groups(connection: Connection, group_ids: Iterable[str]) -> None:
    """Groups without an agent so far: those of workflows."""
    sorted_ids = sorted(set(group_ids))
    if sorted_ids:
        connection.execute(_INSERT_GROUPS, {"groups": sorted_ids})


def save_agents(connection: Connection, agents: Iterable[AgentRow]) -> None:
    """Write back what changed of agents that :func:`lock_agents` gave."""
    rows = [
        {
            "group_id": agent.group_id,
            "agent_id": agent.agent_id,
            "settings": agent.settings.model_dump(exclude_none=True),
            "node_count": agent.node_count,
            "type_counts": agent.type_counts,
            "importance_trigger_curr": agent.importance_trigger_curr,
            "importance_ele_n": agent.importance_ele_n,
        }
        for agent in agents
        if agent.changed
    ]
    if rows:
        connection.execute(_SAVE, {"rows": rows})


@dataclass(frozen=True, slots=True)
class AgentRecord:
    """What a retrieval has to know of an agent."""

    settings: AgentSettings
    #: Memories it ever had.
    node_count: int = 0
    #: Whether it is served from the database's own indexes (``models/retrieval/large_agents.py``).
    large: bool = False
    #: The deployment's embedding model, read at the same moment; None while no memory was ever embedded.
    embedding: ActiveModel | None = None
    #: What an index of its memories was built from: the agent, not one of its name that was erased, and how
    #: often something of it was erased. None for an agent that is not there.
    identity: Identity | None = None
    #: The transaction that last changed its memories, and the oldest one still running at the same moment.
    changed_xid: int = 0
    oldest_running: int = 0


def find_agents(connection: Connection, group_id: str, agent_id: str) -> AgentRecord | None:
    """None for an agent that no event has named yet."""
    with statement_span("SELECT … FROM agents"):
        row = driver(connection).execute(_SETTINGS, {"group": group_id, "agent": agent_id}).fetchone()
    if row is None:
        return None
    settings, node_count, large, key, generation, changed_xid, oldest_running, *embedding = row
    in_use = None if embedding[0] is None else ActiveModel(*embedding)
    return AgentRecord(
        AgentSettings(**settings), node_count, large, in_use, (key, generation), changed_xid, oldest_running
    )


def agent_settings(connection: Connection, group_id: str, agent_id: str) -> AgentSettings | None:
    """The agent's own settings, or None for an agent that no event has named yet."""
    agent = find_agents(connection, group_id, agent_id)
    return None if agent is None else agent.settings


def time_zone(connection: Connection, group_id: str, agent_id: str) -> str:
    """The agent's time zone: its own, or the deployment's."""
    tz = connection.execute(_TIME_ZONE, {"group": group_id, "agent": agent_id}).scalar_one_or_none()
    return tz or get_settings().tz


def next_agents(
    connection: Connection, group_id: str | None, after: AgentName, limit: int
) -> list[AgentName]:
    """The next agents after this one, of one group or (None) of all: for jobs that see to each."""
    parameters = {"group": group_id, "after_group": after[0], "after_agent": after[1], "limit": limit}
    return [(row.group_id, row.agent_id) for row in connection.execute(_NAMES, parameters)]


def name_of(connection: Connection, agent_key: UUID) -> AgentName | None:
    """Which agent the key stands for; None if it was erased."""
    row = connection.execute(_NAME, {"key": agent_key}).one_or_none()
    return None if row is None else (row.group_id, row.agent_id)


def key_of(connection: Connection, group_id: str, agent_id: str) -> UUID | None:
    """What stands for the agent in ``pending_work``."""
    key: UUID | None = connection.execute(_KEY, {"group": group_id, "agent": agent_id}).scalar_one_or_none()
    return key


def known_agent(connection: Connection, group_id: str, agent_id: str, *, lock: bool = False) -> AgentName:
    """The name of an agent that there is, locked until the transaction ends if ``lock``. Raises
    ``NotFound``.
    """
    name = (group_id, agent_id)
    if key_of(connection, *name) is None:
        raise no_agent(*name)
    if lock:
        lock_agents(connection, [name])
    return name


def no_agent(group_id: str, agent_id: str) -> NotFound:
    return NotFound(f"agent_id: no agent {agent_id!r} in the group {group_id!r}; see `jiyi agents list`")


def why_unknown(connection: Connection, group_id: str, agent_id: str) -> str:
    """What is said of an agent that :func:`find_agents` does not know: is there its group, at least?"""
    if connection.execute(_GROUP, {"group": group_id}).scalar_one_or_none() is None:
        return f"no group {group_id!r}: nothing has been stored in it yet"
    return f"no agent {agent_id!r} in the group {group_id!r}: nothing has been stored of it yet"


def counters(connection: Connection, agent_key: UUID) -> tuple[float, int]:
    row = connection.execute(_COUNTERS, {"key": agent_key}).one()
    return row.importance_trigger_curr, row.importance_ele_n


def reflected(
    connection: Connection,
    group_id: str,
    agent_id: str,
    start: tuple[float, int],
    maximum: float,
    *,
    original: bool,
) -> bool:
    """Reset the counters after a reflection that began with ``start`` under the trigger ``maximum``.

    True if another one is due. Takes the agent's lock, as :func:`models.memory.nodes.accumulate` does before
    a reflection is enqueued: one that is called for meanwhile is either seen here or enqueued afterwards.
    """
    agent = lock_agents(connection, [(group_id, agent_id)])[group_id, agent_id]
    maximum_now = agent.settings.over(get_settings()).importance_trigger_max
    start = (start[0] + maximum_now - maximum, start[1])  # as ``configure`` has moved what is left
    now = (agent.importance_trigger_curr, agent.importance_ele_n)
    after = counters_after(now, start, maximum_now, original=original)
    agent.importance_trigger_curr, agent.importance_ele_n = after
    agent.changed = True
    save_agents(connection, [agent])
    return is_due(after[0])


def _select_locked(connection: Connection, names: Sequence[AgentName]) -> dict[AgentName, AgentRow]:
    groups, agents = [group_id for group_id, _ in names], [agent_id for _, agent_id in names]
    rows = connection.execute(_SELECT_LOCKED, {"groups": groups, "agents": agents}).mappings()
    return {
        (row["group_id"], row["agent_id"]): AgentRow(**{**row, "settings": AgentSettings(**row["settings"])})
        for row in rows
    }


class TimelineSpan(BaseModel):
    """How many memories happened in a span of time, of each type."""

    start: datetime
    memories: int
    event: int
    thought: int
    chat: int


def agent_row(connection: Connection, group_id: str, agent_id: str) -> AgentState | None:
    selection = select(*columns(AgentState, Agent, profile=None)).where(
        Agent.group_id == group_id, Agent.agent_id == agent_id
    )
    return fetch_one(connection, AgentState, selection)


def agent_rows(connection: Connection, group_id: str, after: str, limit: int) -> list[AgentState]:
    """Agents in the order of their names, after the one named."""
    selection = select(*columns(AgentState, Agent, profile=None)).where(
        Agent.group_id == group_id, Agent.agent_id > after
    )
    return fetch(connection, AgentState, selection.order_by(Agent.agent_id).limit(limit))


def agent_names(
    connection: Connection, group_id: str, limit: int = OFFERED, containing: str = ""
) -> list[str]:
    """Names of agents, to choose one; upper and lower case are the same in what they contain."""
    selection = select(Agent.agent_id).where(
        Agent.group_id == group_id, Agent.agent_id.icontains(containing, autoescape=True)
    )
    return list(connection.execute(selection.order_by(Agent.agent_id).limit(limit)).scalars())


def belongings(connection: Connection, group_id: str, agent_id: str) -> dict[str, bool]:
    """Whether the agent has what has pages of its own, beside its memories."""
    parts = ", ".join(f"EXISTS ({rows}) AS {name}" for name, rows in _BELONGINGS.items())
    return dict(
        connection.execute(text(f"SELECT {parts}"), {"group": group_id, "agent": agent_id}).mappings().one()
    )


def belonging(name: str, rows: str) -> None:
    """Register a part of :func:`belongings`: a SELECT of rows of the agent ``:agent`` of ``:group``."""
    _BELONGINGS[name] = rows


def keywords(
    connection: Connection,
    group_id: str,
    agent_id: str,
    limit: int,
    *,
    user_id: str | None = None,
    offset: int = 0,
    after: tuple[int, str, str] | None = None,
) -> list[KeywordStrength]:
    """An agent's keywords, strongest first: without the first ``offset``, or after a (strength, keyword,
    type).

    For a user only those of memories visible to the user, counted on request.
    """
    row = (tables.KeywordStrengthRow.__table__ if user_id is None else _keywords_of(user_id)).c
    selection = select(row.keyword, row.memory_type, row.strength).where(
        row.group_id == group_id, row.agent_id == agent_id
    )
    if after is not None:
        same = tuple_(row.keyword, row.memory_type) > tuple_(literal(after[1]), literal(after[2]))
        selection = selection.where(or_(row.strength < after[0], and_(row.strength == after[0], same)))
    order = (row.strength.desc(), row.keyword, row.memory_type)
    return fetch(connection, KeywordStrength, selection.order_by(*order).offset(offset).limit(limit))


def _keywords_of(user_id: str) -> FromClause:
    """As ``kw_strength`` has them (``engine.memory.counts_for_keywords``)."""
    node = MemoryNode
    counts = and_(
        node.type != "chat", or_(node.predicate.is_distinct_from("is"), node.object.is_distinct_from("idle"))
    )
    keyword = func.unnest(node.keywords_lower).label("keyword")
    each = (
        select(node.group_id, node.agent_id, node.type.label("memory_type"), keyword)
        .where(counts, clause({"user_id": user_id}))
        .subquery()
    )
    return select(each, func.count().label("strength")).group_by(*each.c).subquery()


def timeline(
    connection: Connection, group_id: str, agent_id: str, units: Sequence[tuple[str, timedelta]]
) -> tuple[str, list[TimelineSpan]]:
    """How many memories of each type began in each span (UTC), oldest first, and the spans' unit.

    ``units`` are ``hour``, ``day``, ``week`` and ``month``, each with the longest time that it is for.
    """
    names, longest = [name for name, _ in units], [length for _, length in units]
    parameters = {
        "group": group_id,
        "agent": agent_id,
        "nodes": TIMELINE_NODES,
        "units": names,
        "longest": longest,
    }
    rows = connection.execute(_TIMELINE, parameters).mappings().all()
    return rows[0]["unit"] if rows else names[0], [TimelineSpan.model_construct(**row) for row in rows]


_NAME = text("SELECT group_id, agent_id FROM agents WHERE agent_key = :key")
_GROUP = text("SELECT group_id FROM groups WHERE group_id = :group")
_KEY = text("SELECT agent_key FROM agents WHERE group_id = :group AND agent_id = :agent")
_COUNTERS = text("SELECT importance_trigger_curr, importance_ele_n FROM agents WHERE agent_key = :key")
_SETTINGS = """
    SELECT a.settings, a.node_count, a.large_ready_at IS NOT NULL, a.agent_key, a.generation,
        coalesce((
            SELECT n.changed_xid::text::bigint FROM memory_nodes n
            WHERE n.group_id = a.group_id AND n.agent_id = a.agent_id ORDER BY n.changed_xid DESC LIMIT 1
        ), 0), pg_snapshot_xmin(pg_current_snapshot())::text::bigint,
        m.model, m.spec, m.active_since, m.dimensions
    FROM agents a LEFT JOIN embedding_models m ON m.state = 'active'
    WHERE a.group_id = %(group)s AND a.agent_id = %(agent)s
"""
_TIME_ZONE = text("SELECT settings ->> 'tz' FROM agents WHERE group_id = :group AND agent_id = :agent")
_INSERT_GROUPS = text("""
    INSERT INTO groups (group_id) SELECT DISTINCT unnest(CAST(:groups AS text[]))
    ORDER BY 1 ON CONFLICT DO NOTHING
""")
_INSERT_AGENTS = text("""
    INSERT INTO agents (group_id, agent_id, agent_key, importance_trigger_curr)
    SELECT *, :trigger FROM unnest(CAST(:groups AS text[]), CAST(:agents AS text[]), CAST(:keys AS uuid[]))
    ON CONFLICT DO NOTHING
""")
_NAMES = text("""
    SELECT group_id, agent_id FROM agents
    WHERE (CAST(:group AS text) IS NULL OR group_id = :group)
    AND (group_id, agent_id) > (:after_group, :after_agent)
    ORDER BY group_id, agent_id LIMIT :limit
""")
_SELECT_LOCKED = text("""
    SELECT group_id, agent_id, agent_key, settings, node_count, type_counts, importance_trigger_curr,
    importance_ele_n,
        large_from
    FROM agents
    WHERE (group_id, agent_id) IN (SELECT * FROM unnest(CAST(:groups AS text[]), CAST(:agents AS text[])))
    ORDER BY group_id, agent_id FOR NO KEY UPDATE
""")
_SAVE = text("""
    UPDATE agents a SET settings = s.settings, node_count = s.node_count, type_counts = s.type_counts,
        importance_trigger_curr = s.importance_trigger_curr, importance_ele_n = s.importance_ele_n
    FROM jsonb_to_recordset(:rows) AS s(
        group_id text, agent_id text, settings jsonb, node_count int, type_counts jsonb,
        importance_trigger_curr float8, importance_ele_n int
    )
    WHERE a.group_id = s.group_id AND a.agent_id = s.agent_id
""").bindparams(bindparam("rows", type_=JSONB))
_TIMELINE = text("""
    WITH newest AS MATERIALIZED (
        SELECT type, created_at FROM memory_nodes WHERE group_id = :group AND agent_id = :agent
        ORDER BY node_count DESC LIMIT :nodes
    ), chosen AS MATERIALIZED (
        SELECT unit FROM unnest(CAST(:units AS text[]), CAST(:longest AS interval[])) WITH ORDINALITY AS
        u(unit, longest, place)
        WHERE longest >= (SELECT max(created_at) - min(created_at) FROM newest) ORDER BY place LIMIT 1
    )
    SELECT unit, date_trunc(unit, created_at, 'UTC') AS start, count(*) AS memories, count(*) FILTER (WHERE
    type = 'event') AS event,
        count(*) FILTER (WHERE type = 'thought') AS thought, count(*) FILTER (WHERE type = 'chat') AS chat
    FROM newest CROSS JOIN chosen GROUP BY 1, 2 ORDER BY 2
""")
