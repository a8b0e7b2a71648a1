"""Memories of conversations: by address, by id, by text, with their summaries; and the lists of the admin."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import psycopg
from sqlalchemy import ColumnElement, Connection, Row, func, literal_column, select, text
from sqlalchemy.dialects.postgresql import array
from sqlalchemy.exc import DBAPIError
from uuid6 import uuid7

from engine.memory import content_key
from engine.text.keywords import keywords_ranked
from jiyi.errors import InvalidRequest
from jiyi.protocol import events as wire
from jiyi.protocol.base import Made
from jiyi.protocol.conversation_commands import GREP_SECONDS, Level, MemoryStats, Resource, ResourceText
from jiyi.protocol.conversations import KINDS, Kind, MemoryUri, parse_uri, uri_of
from jiyi.protocol.memory import Memory
from jiyi.protocol.origins import DEFAULT_ORIGIN
from jiyi.text.budget import cut_to_tokens
from models.conversations.tables import JudgedTurn
from models.db.rows import Record, records
from models.memory.agents import AgentName
from models.memory.filters import clause
from models.memory.inbox import store
from models.memory.reads import MemoryFilter, fetch_memories, memories, search
from models.memory.tables import MemoryNode

#: Tokens of an overview, and keywords of an abstract, that is made of the text.
OVERVIEW_TOKENS, ABSTRACT_WORDS = 200, 5
_N = MemoryNode
_CURRENT = (_N.superseded_at.is_(None), _N.archived_at.is_(None))


def add(connection: Connection, group_id: str, uri: str, content: str, **fields: Any) -> Made:
    """Store a text at an address, once: the same text that is current there stays unchanged."""
    place = parse_uri(uri)
    assert place.kind is not None
    event_id = fields.pop("event_id", None) or uuid7()
    at = fields.pop("created_at", None) or datetime.now(UTC)
    present = {name: value for name, value in fields.items() if value is not None}
    payload = {"description": content, "kind": place.kind, "uri": uri, **present}
    event = wire.made("memory.observed", (group_id, place.agent_id), at, payload, event_id=event_id)
    key = content_key(content, fields.get("user_id"), fields.get("origin") or DEFAULT_ORIGIN)
    if place.kind == "session" and (existing_id := _at(connection, group_id, uri, key)) is not None:
        return Made(id=existing_id, uri=uri, new=False)
    if store(connection, [event]).nodes:
        return Made(id=event.event_id, uri=uri, new=True)
    return Made(id=_at(connection, group_id, uri, key) or event.event_id, uri=uri, new=False)


def at_address(uri: str, **others: Any) -> MemoryFilter:
    """The filter for current memories at an address or below it; ``others`` are more of its fields."""
    place = parse_uri(uri)
    below = None if place.kind is None else uri_of(*_parts(place))
    fields: dict[str, Any] = {"agent_id": place.agent_id, "kinds": KINDS, "below": below, "superseded": False}
    return MemoryFilter(**fields | others)


def count_of_agent(connection: Connection, group_id: str, agent_id: str) -> int:
    count = select(func.count()).select_from(_N).where(_N.group_id == group_id, _N.agent_id == agent_id)
    return int(connection.execute(count).scalar_one())


def grep(connection: Connection, group_id: str, uri: str, pattern: str, limit: int) -> list[Memory]:
    """Current memories below an address that match a regular expression of PostgreSQL's.

    Raises:
        InvalidRequest: the expression is invalid, or the search takes longer than it may.
    """
    connection.execute(_LIMIT, {"timeout": str(int(GREP_SECONDS * 1_000))})
    try:
        return search(connection, group_id, at_address(uri, pattern=pattern), None, limit, most_chars=None)
    except DBAPIError as error:
        if isinstance(error.orig, psycopg.errors.InvalidRegularExpression):
            raise InvalidRequest([f"pattern: {error.orig.diag.message_primary}"]) from None
        if isinstance(error.orig, psycopg.errors.QueryCanceled):
            why = f"the search took longer than {GREP_SECONDS:g} s: use a simpler one, or a narrower uri"
            raise InvalidRequest([f"pattern: {why}"]) from None
        raise


def tree(connection: Connection, group_id: str, uri: str, depth: int) -> list[Resource]:
    """The names below an address, ``depth`` levels deep, with the number of current memories below each."""
    root = parse_uri(uri)
    start = 1 + (root.kind is not None) + len(root.path)
    resources: dict[tuple[str, ...], Resource] = {}
    top: list[Resource] = []
    counts = select(_N.uri, func.count().label("memories")).where(
        _N.group_id == group_id, clause(at_address(uri).filter_values)
    )
    for row in connection.execute(counts.group_by(_N.uri).order_by(_N.uri)):
        parts = _parts(parse_uri(row.uri))
        for level in range(start, min(len(parts), start + depth)):
            key = parts[: level + 1]
            if key not in resources:
                resources[key] = Resource(uri=uri_of(key[0], key[1], *key[2:]), name=key[-1], memories=0)
                (top if level == start else resources[key[:-1]].children).append(resources[key])
            resources[key].memories += row.memories
    return top


def text_at(memory: Memory, level: Level) -> ResourceText:
    """A memory at a level; one that is missing is made of the next deeper one."""
    keywords = memory.keywords or keywords_ranked(memory.overview or memory.description)
    texts = {
        "L2": memory.description,
        "L1": memory.overview or cut_to_tokens(memory.description, OVERVIEW_TOKENS),
        "L0": memory.abstract or ", ".join(keywords[:ABSTRACT_WORDS]),
    }
    return ResourceText(node_id=memory.node_id, uri=memory.uri, level=level, text=texts[level])


def stats(connection: Connection, group_id: str) -> MemoryStats:
    row = connection.execute(_STATS, {"group": group_id}).one()
    return MemoryStats.model_validate(row, from_attributes=True)


def _parts(uri: MemoryUri) -> tuple[str, ...]:
    return (uri.agent_id, *([] if uri.kind is None else [uri.kind]), *uri.path)


def _at(connection: Connection, group_id: str, uri: str, key: bytes) -> UUID | None:
    parameters = {"group": group_id, "agent": parse_uri(uri).agent_id, "uri": uri, "hash": key}
    node_id: UUID | None = connection.execute(_AT, parameters).scalar_one_or_none()
    return node_id


def to_summarise(connection: Connection, node_ids: Sequence[UUID]) -> list[Row[tuple[UUID, str, str, str]]]:
    """(node_id, group_id, agent_id, description) of those that have no overview."""
    return list(connection.execute(_TO_SUMMARISE, {"ids": list(node_ids)}))


def save_summary(connection: Connection, node_id: UUID, overview: str, abstract: str) -> None:
    connection.execute(_SAVE_SUMMARY, {"id": node_id, "overview": overview, "abstract": abstract})


def agents(connection: Connection, group_id: str, after: str, limit: int) -> list[Record]:
    """The group's agents by name, with the numbers of their current memories of conversations by kind."""
    return records(connection, _AGENTS, group=group_id, after=after, limit=limit)


def remembered(
    connection: Connection, name: AgentName, kind: Kind, user_id: str | None, limit: int
) -> list[Memory]:
    """Current memories of a kind, of a user or of all, newest first; turns: all of them."""
    turns = [_N.kind == literal_column("'session'")]  # as their index has it
    of_kind = turns if kind == "session" else [_N.kind == kind, *_CURRENT]
    selection = memories(name[0]).where(_N.agent_id == name[1], *of_kind, *_of(user_id))
    return fetch_memories(connection, name[0], selection.order_by(_N.node_count.desc()).limit(limit))


def _of(user_id: str | None) -> tuple[ColumnElement[bool], ...]:
    return () if user_id is None else (_N.user_id == user_id,)


def superseded(connection: Connection, name: AgentName, user_id: str | None, limit: int) -> list[Memory]:
    """What was once so of a user or of all, the latest changes first; turns are left out."""
    once_so = _N.agent_id == name[1], _N.kind != "session", _N.superseded_at.is_not(None), *_of(user_id)
    latest = memories(name[0]).where(*once_so).order_by(_N.superseded_at.desc(), _N.node_count.desc())
    return fetch_memories(connection, name[0], latest.limit(limit))


_LIMIT = text("SELECT set_config('statement_timeout', :timeout, true)")
_AT = text("""
    SELECT node_id FROM memory_nodes
    WHERE group_id = :group AND agent_id = :agent AND uri = :uri AND content_hash = :hash
      AND superseded_at IS NULL ORDER BY node_count LIMIT 1
""")
_STATS = text("""
    WITH these AS (
        SELECT kind, agent_id, created_at, superseded_at, octet_length(description) AS size
        FROM memory_nodes WHERE group_id = :group AND kind IS NOT NULL
    ), kinds AS (SELECT kind, count(*) AS n FROM these GROUP BY kind),
    agents AS (SELECT agent_id, count(*) AS n FROM these GROUP BY agent_id)
    SELECT count(*) AS total, count(superseded_at) AS superseded, min(created_at) AS oldest,
        max(created_at) AS newest, coalesce(sum(size), 0)::bigint AS size_bytes,
        (SELECT coalesce(jsonb_object_agg(kind, n), '{}') FROM kinds) AS by_type,
        (SELECT coalesce(jsonb_object_agg(agent_id, n), '{}') FROM agents) AS by_agent
    FROM these
""")
_TO_SUMMARISE = text("""
    SELECT node_id, group_id, agent_id, description FROM memory_nodes
    WHERE node_id = ANY(:ids) AND overview IS NULL
""")
_SAVE_SUMMARY = text("""
    UPDATE memory_nodes SET overview = :overview, abstract = :abstract, changed_xid = pg_current_xact_id()
    WHERE node_id = :id
""")
_AGENTS = text("""
    SELECT agent_id, max(created_at) AS latest,
        count(*) FILTER (WHERE kind = 'preference') AS preference,
        count(*) FILTER (WHERE kind = 'knowledge') AS knowledge,
        count(*) FILTER (WHERE kind = 'experience') AS experience,
        count(*) FILTER (WHERE kind = 'session') AS session
    FROM memory_nodes
    WHERE group_id = :group AND agent_id > :after AND kind IS NOT NULL
      AND (superseded_at IS NULL OR kind = 'session')
    GROUP BY agent_id ORDER BY agent_id LIMIT :limit
""")

#: What is remembered of a turn has a number that is higher by at most this.
SOON_AFTER = 1_000


def judgements(connection: Connection, group_id: str, turns: Iterable[UUID]) -> dict[UUID, bool]:
    """Of the turns that somebody has judged, whether they are worth remembering."""
    selection = select(JudgedTurn.node_id, JudgedTurn.lasting).where(
        JudgedTurn.group_id == group_id, JudgedTurn.node_id.in_(turns)
    )
    return {row.node_id: row.lasting for row in connection.execute(selection)}


def remembered_of(
    connection: Connection, name: AgentName, turns: Mapping[UUID, int]
) -> dict[UUID, list[Memory]]:
    """What was remembered of each of an agent's turns, given with their numbers; none without."""
    if not turns:
        return {}
    near = _N.node_count.between(min(turns.values()), max(turns.values()) + SOON_AFTER)
    resting = (near, _N.filling.has_any(array([str(turn) for turn in turns])))
    selection = memories(name[0]).where(_N.agent_id == name[1], _N.kind != "session", *resting)
    of_turns: dict[UUID, list[Memory]] = {}
    for memory in fetch_memories(connection, name[0], selection.order_by(_N.node_count)):
        for turn in memory.evidence:
            of_turns.setdefault(turn, []).append(memory)
    return of_turns
