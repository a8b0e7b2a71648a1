"""Memories of conversations: by address, by id, by text, with their summaries; and the lists that the admin shows of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import psycopg
from pydantic import BaseModel
from sqlalchemy import BigInteger, Boolean, Connection, Row, Uuid, any_, bindparam, func, literal_column, or_, select, text, tuple_
from sqlalchemy.dialects.postgresql import ARRAY, array
from sqlalchemy.exc import DBAPIError
from uuid6 import uuid7

from engine.memory import content_key
from engine.text.keywords import keywords_ranked
from jiyi.errors import InvalidRequest
from jiyi.protocol import events as wire
from jiyi.protocol.conversation_commands import (
    GREP_SECONDS,
    Entries,
    ExportMemories,
    Level,
    MemoryEntry,
    MemoryStats,
    Resource,
    ResourceText,
    StoredMemory,
)
from jiyi.protocol.conversations import Kind, MemoryUri, parse_uri, uri_of
from jiyi.protocol.origins import DEFAULT_ORIGIN
from jiyi.text.budget import cut_to_tokens
from models.conversations.tables import JudgedTurn
from models.db.rows import columns, fetch
from models.memory.agents import AgentName
from models.memory.inbox import Stored, store
from models.memory.tables import MemoryNode

#: Characters by which a question and a turn are known as the same.
COMPARED_CHARS = 200
#: Tokens of what is made of a deeper level where one is missing; keywords of an abstract.
OVERVIEW_TOKENS, ABSTRACT_WORDS = 200, 5
_N = MemoryNode
_COLUMNS = (
    *(_N.node_id, _N.node_count, _N.agent_id, _N.kind, _N.uri, _N.description, _N.keywords, _N.poignancy, _N.created_at),
    *(_N.session_id, _N.user_id, _N.visibility, _N.origin, _N.trust, _N.abstract, _N.overview),
    *(_N.superseded_by, _N.superseded_at, _N.provenance),
)
_OF_GROUP = (_N.group_id == bindparam("group"), _N.kind.is_not(None))
_IN_FORCE = (_N.superseded_at.is_(None), _N.archived_at.is_(None))
_HERE = (
    _N.agent_id == bindparam("agent"),
    or_(bindparam("all", type_=Boolean), _N.uri == bindparam("uri"), func.starts_with(_N.uri, bindparam("prefix"))),
)
_SELECT = select(*_COLUMNS).where(*_OF_GROUP)
_NEWEST = _SELECT.where(*_HERE, *_IN_FORCE).order_by(_N.node_count.desc()).limit(bindparam("limit"))
_ONE = _SELECT.where(_N.node_id == bindparam("id"))
_SOME = _SELECT.where(_N.node_id == any_(bindparam("ids", type_=ARRAY(Uuid))))
_PAGE = (
    _SELECT.where(tuple_(_N.agent_id, _N.node_count) > tuple_(bindparam("agent"), bindparam("after", type_=BigInteger)))
    .order_by(_N.agent_id, _N.node_count)
    .limit(bindparam("limit"))
)
_IDS_BELOW = select(_N.node_id).where(*_OF_GROUP, *_HERE)
_COUNT = select(func.count()).select_from(_N).where(_N.group_id == bindparam("group"), _N.agent_id == bindparam("agent"))
_GREP = _NEWEST.where(_N.description.regexp_match(bindparam("pattern")))
_COUNTS = select(_N.uri, func.count().label("memories")).where(*_OF_GROUP, *_HERE, *_IN_FORCE).group_by(_N.uri).order_by(_N.uri)


def add(connection: Connection, group_id: str, uri: str, content: str, stored: Stored, **fields: Any) -> StoredMemory:
    """Store a text at an address, once: what is in force there already stays as it is."""
    place = parse_uri(uri)
    assert place.kind is not None
    event_id = fields.pop("event_id", None) or uuid7()
    event = wire.build(
        {
            "type": "memory.observed",
            "event_id": event_id,
            "occurred_at": fields.pop("created_at", None) or datetime.now(UTC),
            "group_id": group_id,
            "agent_id": place.agent_id,
            "payload": {"description": content, "kind": place.kind, "uri": uri, **{k: v for k, v in fields.items() if v is not None}},
        }
    )
    key = content_key(content, fields.get("user_id"), fields.get("origin") or DEFAULT_ORIGIN)
    if place.kind == "session" and (known := _at(connection, group_id, uri, key)) is not None:
        return StoredMemory(id=known, uri=uri, new=False)
    done = store(connection, [event])
    stored.add(done)
    if done.nodes:
        return StoredMemory(id=event.event_id, uri=uri, new=True)
    return StoredMemory(id=_at(connection, group_id, uri, key) or event.event_id, uri=uri, new=False)


def memory(connection: Connection, group_id: str, node_id: UUID) -> MemoryEntry | None:
    rows = _entries(connection.execute(_ONE, {"group": group_id, "id": node_id}))
    return rows[0] if rows else None


def memories(connection: Connection, group_id: str, node_ids: Sequence[UUID]) -> list[MemoryEntry]:
    """Those of the memories that there are, in the order given."""
    by_id = {entry.id: entry for entry in _entries(connection.execute(_SOME, {"group": group_id, "ids": list(node_ids)}))}
    return [by_id[node_id] for node_id in node_ids if node_id in by_id]


def page(connection: Connection, group_id: str, request: ExportMemories) -> Entries:
    """The next memories of an agent, or of all agents in the order of their names, in the order in which they came."""
    of_agent = [] if request.agent_id is None else [_N.agent_id == request.agent_id]
    after = {"agent": request.agent_id or request.after_agent or "", "after": request.after}
    rows = connection.execute(_PAGE.where(*of_agent), {"group": group_id, **after, "limit": request.limit}).all()
    last = rows[-1] if len(rows) == request.limit else None
    next_agent = None if last is None or request.agent_id is not None else last.agent_id
    return Entries(memories=_entries(rows), next=None if last is None else last.node_count, next_agent=next_agent)


def below(connection: Connection, group_id: str, uri: str, limit: int) -> list[MemoryEntry]:
    """What is in force at an address or below it, newest first."""
    return _entries(connection.execute(_NEWEST, {**_place(group_id, uri), "limit": limit}))


def ids_below(connection: Connection, group_id: str, uri: str) -> list[UUID]:
    """Ids of all that is, or was, at an address or below it."""
    return list(connection.execute(_IDS_BELOW, _place(group_id, uri)).scalars())


def count_of_agent(connection: Connection, group_id: str, agent_id: str) -> int:
    """How many memories the agent has, of whatever kind."""
    return int(connection.execute(_COUNT, {"group": group_id, "agent": agent_id}).scalar_one())


def grep(connection: Connection, group_id: str, uri: str, pattern: str, limit: int) -> list[MemoryEntry]:
    """What is in force below an address and matches a regular expression of PostgreSQL's.

    Raises:
        InvalidRequest: it is none, or takes longer than it may.
    """
    connection.execute(_LIMIT, {"timeout": str(int(GREP_SECONDS * 1_000))})
    try:
        return _entries(connection.execute(_GREP, {**_place(group_id, uri), "pattern": pattern, "limit": limit}).all())
    except DBAPIError as error:
        if isinstance(error.orig, psycopg.errors.InvalidRegularExpression):
            raise InvalidRequest([f"pattern: {error.orig.diag.message_primary}"]) from None
        if isinstance(error.orig, psycopg.errors.QueryCanceled):
            raise InvalidRequest(
                [f"pattern: the search took longer than {GREP_SECONDS:g} s: use a simpler one, or a narrower uri"]
            ) from None
        raise


def tree(connection: Connection, group_id: str, uri: str, depth: int) -> list[Resource]:
    """The names below an address, so many levels deep, with how many memories are in force below each."""
    root = parse_uri(uri)
    start = 1 + (root.kind is not None) + len(root.path)
    resources: dict[tuple[str, ...], Resource] = {}
    top: list[Resource] = []
    for row in connection.execute(_COUNTS, _place(group_id, uri)):
        parts = _parts(parse_uri(row.uri))
        for level in range(start, min(len(parts), start + depth)):
            key = parts[: level + 1]
            if key not in resources:
                resources[key] = Resource(uri=uri_of(key[0], key[1], *key[2:]), name=key[-1], memories=0)
                (top if level == start else resources[key[:-1]].children).append(resources[key])
            resources[key].memories += row.memories
    return top


def text_at(entry: MemoryEntry, level: Level) -> ResourceText:
    """A memory at a level; one that is missing is made of the next deeper one."""
    told = {
        "L2": entry.content,
        "L1": entry.overview or cut_to_tokens(entry.content, OVERVIEW_TOKENS),
        "L0": entry.abstract or _keywords(entry),
    }
    return ResourceText(id=entry.id, uri=entry.uri, level=level, text=told[level])


def stats(connection: Connection, group_id: str) -> MemoryStats:
    row = connection.execute(_STATS, {"group": group_id}).one()
    return MemoryStats(
        total=row.total,
        by_type=row.by_type or {},
        by_agent=row.by_agent or {},
        superseded=row.superseded,
        oldest=row.oldest,
        newest=row.newest,
        size_bytes=row.size,
    )


def _keywords(entry: MemoryEntry) -> str:
    return ", ".join((entry.keywords or keywords_ranked(entry.overview or entry.content))[:ABSTRACT_WORDS])


def _parts(uri: MemoryUri) -> tuple[str, ...]:
    return (uri.agent_id, *([] if uri.kind is None else [uri.kind]), *uri.path)


def _place(group_id: str, uri: str) -> dict[str, str | bool]:
    """What an address and all below it are found by; the agent is always named."""
    place = parse_uri(uri)
    exact = uri_of(*_parts(place))
    return {"group": group_id, "agent": place.agent_id, "uri": exact, "prefix": f"{exact}/", "all": place.kind is None}


def _at(connection: Connection, group_id: str, uri: str, key: bytes) -> UUID | None:
    parameters = {"group": group_id, "agent": parse_uri(uri).agent_id, "uri": uri, "hash": key}
    node_id: UUID | None = connection.execute(_AT, parameters).scalar_one_or_none()
    return node_id


def _entries(rows: Any) -> list[MemoryEntry]:
    return [
        MemoryEntry(
            id=row.node_id,
            agent_id=row.agent_id,
            memory_type=row.kind,
            uri=row.uri,
            content=row.description,
            keywords=row.keywords,
            importance=row.poignancy,
            created_at=row.created_at,
            session_id=row.session_id,
            user_id=row.user_id,
            visibility=row.visibility,
            origin=row.origin,
            trust=row.trust,
            abstract=row.abstract,
            overview=row.overview,
            superseded_by=row.superseded_by,
            superseded_at=row.superseded_at,
            metadata=row.provenance,
        )
        for row in rows
    ]


def to_summarise(connection: Connection, node_ids: Sequence[UUID]) -> list[Row[tuple[UUID, str, str, str]]]:
    """(node_id, group_id, agent_id, description) of those that have no overview."""
    return list(connection.execute(_TO_SUMMARISE, {"ids": list(node_ids)}))


def save_summary(connection: Connection, node_id: UUID, overview: str, abstract: str) -> None:
    connection.execute(_SAVE_SUMMARY, {"id": node_id, "overview": overview, "abstract": abstract})


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
    """What is in force of a kind, newest first; of turns all."""
    if kind == "session":
        return fetch(connection, RememberedLine, _TURNS, group=name[0], agent=name[1], limit=limit)
    return fetch(connection, RememberedLine, _REMEMBERED, group=name[0], agent=name[1], kind=kind, limit=limit)


def superseded(connection: Connection, name: AgentName, limit: int) -> list[RememberedLine]:
    """What was once so, the latest changes first; turns are left out."""
    return fetch(connection, RememberedLine, _SUPERSEDED, group=name[0], agent=name[1], limit=limit)


def injections(connection: Connection, name: AgentName, before: UUID | None, limit: int) -> list[InjectionRow]:
    """What was put before the agent's answers, newest first."""
    return fetch(connection, InjectionRow, _INJECTIONS, group=name[0], agent=name[1], before=before, limit=limit)


def injections_for(connection: Connection, name: AgentName, session_id: str, said: Mapping[UUID, str]) -> dict[UUID, InjectionRow]:
    """For each turn of a session, by its id and text, what was put before the answer to it; of several the last."""
    beginnings = {node_id: text[:COMPARED_CHARS] for node_id, text in said.items()}
    parameters = {"group": name[0], "agent": name[1], "session": session_id, "chars": COMPARED_CHARS}
    rows = fetch(connection, InjectionRow, _INJECTIONS_FOR, **parameters, said=list(set(beginnings.values())))
    by_text = {row.query[:COMPARED_CHARS]: row for row in rows}
    return {node_id: by_text[beginning] for node_id, beginning in beginnings.items() if beginning in by_text}


_LIMIT = text("SELECT set_config('statement_timeout', :timeout, true)")
_AT = text("""
    SELECT node_id FROM memory_nodes WHERE group_id = :group AND agent_id = :agent AND uri = :uri AND content_hash = :hash
      AND superseded_at IS NULL ORDER BY node_count LIMIT 1
""")
_STATS = text("""
    WITH these AS (
        SELECT kind, agent_id, created_at, superseded_at, octet_length(description) AS size
        FROM memory_nodes WHERE group_id = :group AND kind IS NOT NULL
    )
    SELECT count(*) AS total, count(superseded_at) AS superseded, min(created_at) AS oldest, max(created_at) AS newest,
        coalesce(sum(size), 0)::bigint AS size,
        (SELECT jsonb_object_agg(kind, n) FROM (SELECT kind, count(*) AS n FROM these GROUP BY kind) k) AS by_type,
        (SELECT jsonb_object_agg(agent_id, n) FROM (SELECT agent_id, count(*) AS n FROM these GROUP BY agent_id) a) AS by_agent
    FROM these
""")
_TO_SUMMARISE = text("SELECT node_id, group_id, agent_id, description FROM memory_nodes WHERE node_id = ANY(:ids) AND overview IS NULL")
_SAVE_SUMMARY = text("""
    UPDATE memory_nodes SET overview = :overview, abstract = :abstract, changed_xid = pg_current_xact_id() WHERE node_id = :id
""")
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
# Each by an index of its own.
_TURNS = _LINES.where(MemoryNode.kind == literal_column("'session'")).order_by(MemoryNode.node_count.desc()).limit(bindparam("limit"))
_REMEMBERED = (
    _LINES.where(MemoryNode.kind == bindparam("kind"), *_IN_FORCE).order_by(MemoryNode.node_count.desc()).limit(bindparam("limit"))
)
_SUPERSEDED = (
    _LINES.where(MemoryNode.kind != "session", MemoryNode.superseded_at.is_not(None))
    .order_by(MemoryNode.superseded_at.desc(), MemoryNode.node_count.desc())
    .limit(bindparam("limit"))
)
_INJECTIONS_FOR = text("""
    SELECT DISTINCT ON (left(query, :chars)) injection_id, session_id, query, intent, tokens, node_ids, reasons, created_at FROM injections
    WHERE group_id = :group AND agent_id = :agent AND session_id = :session AND left(query, :chars) = ANY(:said)
    ORDER BY left(query, :chars), injection_id DESC
""")
_INJECTIONS = text("""
    SELECT injection_id, session_id, query, intent, tokens, node_ids, reasons, created_at FROM injections
    WHERE group_id = :group AND agent_id = :agent AND (CAST(:before AS uuid) IS NULL OR injection_id < :before)
    ORDER BY injection_id DESC LIMIT :limit
""")


#: What is remembered of a turn has a number that is higher by at most this.
SOON_AFTER = 1_000


def judgements(connection: Connection, group_id: str, turns: Iterable[UUID]) -> dict[UUID, bool]:
    """Of the turns that somebody has judged, whether they are worth remembering."""
    wanted = select(JudgedTurn.node_id, JudgedTurn.lasting).where(JudgedTurn.group_id == group_id, JudgedTurn.node_id.in_(turns))
    return {row.node_id: row.lasting for row in connection.execute(wanted)}


class RememberedOfTurn(BaseModel):
    """What was remembered of a turn."""

    node_id: UUID
    kind: Kind
    description: str
    superseded_at: datetime | None
    filling: list[str]


def remembered_of(connection: Connection, name: AgentName, turns: Mapping[UUID, int]) -> dict[UUID, list[RememberedOfTurn]]:
    """What was remembered of each of an agent's turns, which are given with their numbers; turns of which nothing was are left out."""
    if not turns:
        return {}
    node = MemoryNode
    near = node.node_count.between(min(turns.values()), max(turns.values()) + SOON_AFTER)
    resting = (near, node.filling.has_any(array([str(turn) for turn in turns])))
    statement = select(*columns(RememberedOfTurn, node)).where(
        node.group_id == name[0], node.agent_id == name[1], node.kind != "session", *resting
    )
    found: dict[UUID, list[RememberedOfTurn]] = {}
    for memory in fetch(connection, RememberedOfTurn, statement.order_by(node.node_count)):
        for turn in memory.filling:
            found.setdefault(UUID(turn), []).append(memory)
    return found
