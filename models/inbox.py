"""How accepted events reach the tables: one batch, one transaction, each event once (design §3)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import psycopg
from psycopg.types.json import Jsonb
from pydantic_core import to_json
from sqlalchemy import Connection, text

from jiyi.events import AgentConfigured, Event, MemoryObserved
from jiyi.nodes import Derived, counts_for_keywords, depth_of, derive
from jiyi.settings import get_settings
from jiyi.vectors import to_array
from models.agents import AgentName, AgentRow, lock_agents, save_agents
from models.base import driver
from models.copying import copy_rows

#: Kinds of work that a new node may owe; the tasks of these names do it.
EMBED, STRENGTHEN, ACCUMULATE, DEPTH = "embed", "strengthen", "accumulate", "depth"
#: Owed by nodes from before there were tokens (migration 0002).
TOKENIZE = "tokenize"


class CollisionError(Exception):
    """Another intake stored one of the same events at the same time: roll back and start over."""


@dataclass(slots=True)
class Stored:
    """What a batch came to: how many events were new, and which kinds of work they set off."""

    events: int = 0
    repeated: int = 0
    owed: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class _Rows:
    events: list[tuple[Any, ...]] = field(default_factory=list)
    nodes: list[tuple[Any, ...]] = field(default_factory=list)
    #: Kind of work → the new nodes that owe it.
    owed: dict[str, list[UUID]] = field(default_factory=lambda: defaultdict(list))


def store(connection: Connection, events: Sequence[Event]) -> Stored:
    """Store the events that are new, and what they set off, in the caller's transaction.

    Safe to repeat because an event whose id is in ``events`` already changes nothing.

    Raises:
        CollisionError: another intake stored one of them meanwhile; roll back and call again.
    """
    unique = {event.event_id: event for event in events}
    known = set(connection.execute(_KNOWN, {"ids": list(unique)}).scalars())
    fresh = [event for event_id, event in unique.items() if event_id not in known]
    result = Stored(events=len(fresh), repeated=len(events) - len(fresh))
    if not fresh:
        return result
    agents = lock_agents(connection, ((event.group_id, event.agent_id) for event in fresh))
    batch = _Batch(connection, agents, fresh)
    rows = _Rows()
    for event in fresh:
        batch.add(event, rows)
    save_agents(connection, agents.values())
    raw = driver(connection)
    try:
        copy_rows(raw, "events", _EVENT_COLUMNS, rows.events)
    except psycopg.errors.UniqueViolation as error:
        raise CollisionError(str(error)) from None
    copy_rows(raw, "memory_nodes", _NODE_COLUMNS, rows.nodes)
    connection.execute(_ACCESS, {"ids": [row[0] for row in rows.nodes]})
    for kind, node_ids in rows.owed.items():
        connection.execute(_OWE, {"kind": kind, "ids": node_ids})
        result.owed[kind] = len(node_ids)
    return result


class _Batch:
    """What has to be known before the first row is made: looked up once for the whole batch."""

    def __init__(self, connection: Connection, agents: dict[AgentName, AgentRow], events: Iterable[Event]) -> None:
        self.agents = agents
        observed = [event for event in events if isinstance(event, MemoryObserved)]
        self.derived = {event.event_id: derive(event) for event in observed}
        self.depths = _depths(connection, observed)
        self.twins = _twins(connection, agents, observed, self.derived)

    def add(self, event: Event, rows: _Rows) -> None:
        agent = self.agents[event.group_id, event.agent_id]
        if isinstance(event, AgentConfigured):
            agent.configure(event.payload)
            rows.events.append(_event_row(event, "applied", None))
            return
        derived = self.derived[event.event_id]
        twin_key = (event.group_id, event.agent_id, event.payload.node_type, derived.content_hash)
        if _dedupes(agent):
            if (twin := self.twins.get(twin_key)) is not None:
                rows.events.append(_event_row(event, "duplicate", twin))
                return
            self.twins[twin_key] = event.event_id
        rows.events.append(_event_row(event, "stored", event.event_id))
        self._add_node(event, derived, agent, rows)

    def _add_node(self, event: MemoryObserved, derived: Derived, agent: AgentRow, rows: _Rows) -> None:
        seen = event.payload
        node_count, type_count = agent.number(seen.node_type)
        depths = self.depths.setdefault((event.group_id, event.agent_id), {})
        depth = depths[event.event_id] = depth_of(seen.node_type, seen.evidence, depths)
        filling: list[Any] = [str(node_id) for node_id in seen.evidence] or [list(pair) for pair in seen.utterances]
        rows.nodes.append((
            event.event_id, event.group_id, event.agent_id, event.session_id, seen.node_type, node_count, type_count,
            depth, event.occurred_at, derived.expires_at, seen.subject, seen.predicate, seen.object, seen.description,
            derived.embedding_key, derived.key_hash, derived.content_hash, derived.keywords,
            [keyword.lower() for keyword in derived.keywords], " ".join(derived.tokens), seen.poignancy, derived.is_idle,
            _json(filling, _EMPTY_LIST), _json(seen.provenance, _EMPTY_OBJECT),
            None if seen.vector is None else to_array(seen.vector), seen.embedding_model,
        ))  # fmt: skip
        if seen.vector is None:
            rows.owed[EMBED].append(event.event_id)
        if derived.keywords and counts_for_keywords(seen.node_type, seen.predicate, seen.object):
            rows.owed[STRENGTHEN].append(event.event_id)
        if seen.node_type == "thought" and not all(node_id in depths for node_id in seen.evidence):
            rows.owed[DEPTH].append(event.event_id)  # some of its evidence is still on its way
        if seen.node_type == "event" and not seen.historic:
            rows.owed[ACCUMULATE].append(event.event_id)


def _dedupes(agent: AgentRow) -> bool:
    return (agent.settings.dedupe or get_settings().dedupe) == "exact"


def _depths(connection: Connection, observed: Iterable[MemoryObserved]) -> dict[AgentName, dict[UUID, int]]:
    """Depths of the stored nodes that the batch's thoughts rest on, by agent: another's evidence counts for nothing."""
    wanted = {node_id for event in observed if event.payload.node_type == "thought" for node_id in event.payload.evidence}
    if not wanted:
        return {}
    depths: dict[AgentName, dict[UUID, int]] = {}
    for row in connection.execute(_DEPTHS, {"ids": list(wanted)}):
        depths.setdefault((row.group_id, row.agent_id), {})[row.node_id] = row.depth
    return depths


def _twins(
    connection: Connection, agents: dict[AgentName, AgentRow], observed: Iterable[MemoryObserved],
    derived: dict[UUID, Derived],
) -> dict[tuple[str, str, str, bytes], UUID]:  # fmt: skip
    """Stored nodes with the content of one of the batch's, for the agents that want each content once."""
    wanted = [event for event in observed if _dedupes(agents[event.group_id, event.agent_id])]
    if not wanted:
        return {}
    parameters = {
        "groups": [event.group_id for event in wanted],
        "agents": [event.agent_id for event in wanted],
        "hashes": [derived[event.event_id].content_hash for event in wanted],
    }
    return {
        (row.group_id, row.agent_id, row.type, bytes(row.content_hash)): row.node_id
        for row in connection.execute(_TWINS, parameters)
    }


def _event_row(event: Event, outcome: str, node_id: UUID | None) -> tuple[Any, ...]:
    if isinstance(event, AgentConfigured):
        payload = event.payload.model_dump_json(exclude_unset=True).encode()
    else:
        payload = event.payload.model_dump_json(exclude_none=True, exclude_defaults=True, exclude={"vector"}).encode()
    return (
        event.event_id, event.type, event.version, event.group_id, event.agent_id, event.session_id,
        event.correlation_id, event.occurred_at, Jsonb(payload, dumps=_as_it_is), outcome, node_id,
    )  # fmt: skip


def _json(value: Any, empty: Jsonb) -> Jsonb:
    return Jsonb(to_json(value), dumps=_as_it_is) if value else empty


def _as_it_is(encoded: bytes) -> bytes:
    return encoded


#: Most nodes have neither evidence nor provenance.
_EMPTY_LIST, _EMPTY_OBJECT = Jsonb(b"[]", dumps=_as_it_is), Jsonb(b"{}", dumps=_as_it_is)

# These rows follow from the nodes' own, so the database makes them: less to send, and it has the time.
_ACCESS = text("""
    INSERT INTO node_access (node_id, last_accessed) SELECT node_id, created_at FROM memory_nodes WHERE node_id = ANY(:ids)
""")
_OWE = text("""
    INSERT INTO pending_work (kind, subject_id, group_id)
    SELECT :kind, node_id, group_id FROM memory_nodes WHERE node_id = ANY(:ids)
""")
_KNOWN = text("SELECT event_id FROM events WHERE event_id = ANY(:ids)")
_DEPTHS = text("SELECT group_id, agent_id, node_id, depth FROM memory_nodes WHERE node_id = ANY(:ids)")
_TWINS = text("""
    SELECT DISTINCT ON (n.group_id, n.agent_id, n.type, n.content_hash)
        n.group_id, n.agent_id, n.type, n.content_hash, n.node_id
    FROM memory_nodes n JOIN unnest(CAST(:groups AS text[]), CAST(:agents AS text[]), CAST(:hashes AS bytea[]))
        AS w(group_id, agent_id, content_hash) USING (group_id, agent_id, content_hash)
    WHERE n.archived_at IS NULL
    ORDER BY n.group_id, n.agent_id, n.type, n.content_hash, n.node_count
""")

_EVENT_COLUMNS = {
    "event_id": "uuid", "type": "text", "version": "int4", "group_id": "text", "agent_id": "text",
    "session_id": "text", "correlation_id": "text", "occurred_at": "timestamptz", "payload": "jsonb",
    "outcome": "text", "node_id": "uuid",
}  # fmt: skip
_NODE_COLUMNS = {
    "node_id": "uuid", "group_id": "text", "agent_id": "text", "session_id": "text", "type": "text",
    "node_count": "int4", "type_count": "int4", "depth": "int4", "created_at": "timestamptz",
    "expires_at": "timestamptz", "subject": "text", "predicate": "text", "object": "text", "description": "text",
    "embedding_key": "text", "key_hash": "bytea", "content_hash": "bytea", "keywords": "text[]",
    "keywords_lower": "text[]", "tokens": "text", "poignancy": "float8", "is_idle": "bool", "filling": "jsonb",
    "provenance": "jsonb", "embedding": "vector", "embedding_model": "text",
}  # fmt: skip
