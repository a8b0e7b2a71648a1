"""How accepted events reach the tables: one batch, one transaction, each event once (design §3)."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from itertools import islice
from operator import attrgetter
from typing import Any
from uuid import UUID

import psycopg
from psycopg.types.json import Jsonb
from pydantic_core import to_json
from sqlalchemy import Connection, text

from jiyi.conversations.turns import memories_of, memory_of
from jiyi.memory.appraisal import missing
from jiyi.memory.nodes import Derived, counts_for_keywords, depth_of, derive
from jiyi.protocol.events import AgentConfigured, Event, MemoryObserved, NodeExecuted, Observation, SessionEnded, TurnRecorded
from jiyi.protocol.tiers.query import kind_of
from jiyi.protocol.wire.vectors import to_array
from jiyi.settings import get_settings
from jiyi.text.digests import content_digest
from models.conversations import windows
from models.db.bulk_copy import Copy, copy_rows
from models.db.connection import driver
from models.erasure import refusal
from models.memory.agents import AgentName, AgentRow, lock_agents, make_groups, save_agents
from models.memory.tables import MemoryNode, NodeAccess, StoredEvent
from models.queue import pending_work
from models.queue.tables import PendingWork
from models.reflection.reflections import REFLECT_CONVERSATION
from models.retrieval.enlargement import add_terms
from models.tiers.tables import QuarantineLog

#: Kinds of work that a new node may owe; the tasks of these names do it.
EMBED, STRENGTHEN, ACCUMULATE, DEPTH = "embed", "strengthen", "accumulate", "depth"
#: Owed before STRENGTHEN and ACCUMULATE by a node whose event lacks what the LLM is to be asked for.
APPRAISE = "appraise"
#: Owed by an agent that has become too large for an index in memory.
ENLARGE = "enlarge"
#: Owed by nodes from before there were tokens (migration 0002).
TOKENIZE = "tokenize"

#: Owed by what was taken from a conversation, and has no overview yet.
SUMMARIZE = "summarize"
SUMMARISED_KINDS = ("preference", "knowledge", "experience")
#: Owed by an entry of quarantine: may it become working memory?
INGRESS = "ingress"

#: A row to be copied: its columns' names → values.
Row = dict[str, Any]
#: Subject, predicate, object.
Triple = tuple[str | None, str | None, str | None]


class CollisionError(Exception):
    """Another intake stored one of the same events at the same time: roll back and start over."""


@dataclass(slots=True)
class Stored:
    """What a batch came to: how many events were new, and which kinds of work they set off.

    To be told after the commit (``models.queue.news``).
    """

    events: int = 0
    repeated: int = 0
    owed: Counter[str] = field(default_factory=Counter)
    #: Kinds of work that may be due later only → when.
    due: dict[str, datetime] = field(default_factory=dict)
    #: (group_id, agent_id, node_id) of the new nodes.
    nodes: list[tuple[str, str, UUID]] = field(default_factory=list)
    #: Ids of the events that were new.
    fresh: list[UUID] = field(default_factory=list)
    #: Agents whose settings have changed.
    configured: list[AgentName] = field(default_factory=list)
    #: Of events that became dead letters the groups that they say they are of, as far as that can be read.
    refused: list[str | None] = field(default_factory=list)

    def add(self, other: Stored) -> None:
        self.events += other.events
        self.repeated += other.repeated
        self.owed += other.owed
        self.due |= {kind: min(at, self.due.get(kind, at)) for kind, at in other.due.items()}
        self.nodes += other.nodes
        self.fresh += other.fresh
        self.configured += other.configured
        self.refused += other.refused


@dataclass(slots=True)
class _Rows:
    events: list[Row] = field(default_factory=list)
    nodes: list[Row] = field(default_factory=list)
    accesses: list[Row] = field(default_factory=list)
    #: (kind of work, node_id, group_id) of the new nodes.
    owed: list[tuple[str, UUID, str]] = field(default_factory=list)
    #: (event_id, group_id) of the conversations that have ended.
    ended: list[tuple[UUID, str]] = field(default_factory=list)
    quarantined: list[Row] = field(default_factory=list)
    #: Large agents → the tokens of their new nodes.
    terms: dict[AgentName, list[list[str]]] = field(default_factory=lambda: defaultdict(list))


def derive_all(events: Iterable[Event]) -> dict[UUID, Derived]:
    """What each memory has to have derived, by event id. Needs no database: time to do so while another batch is stored."""
    return {memory.event_id: derive(memory) for memory in memories_of(events)}


def store(connection: Connection, events: Sequence[Event], derived: Mapping[UUID, Derived] | None = None) -> Stored:
    """Store the events that are new, and what they set off, in the caller's transaction.

    ``derived`` is what :func:`derive_all` gave for the events, if it was called before.

    Safe to repeat because an event whose id is in ``events`` already changes nothing.

    Raises:
        CollisionError: another intake stored one of them meanwhile; roll back and call again.
    """
    unique = {event.event_id: event for event in events}
    known = set(connection.execute(_KNOWN, {"ids": list(unique)}).scalars())
    fresh = [event for event_id, event in unique.items() if event_id not in known]
    result = Stored(events=len(fresh), repeated=len(events) - len(fresh), fresh=[event.event_id for event in fresh])
    if not fresh:
        return result
    rows = _Rows()
    if refused := refusal.refused(connection, fresh):
        rows.events = [_erased_row(event) for event in fresh if event.event_id in refused]
        fresh = [event for event in fresh if event.event_id not in refused]
    # Nodes of workflows are no agents: what they say is nobody's memory yet, and waits for no agent's lock.
    make_groups(connection, (event.group_id for event in fresh if isinstance(event, NodeExecuted)))
    own = ((event.group_id, event.agent_id) for event in fresh if not isinstance(event, NodeExecuted))
    agents = lock_agents(connection, own)
    batch = _Batch(connection, agents, fresh, derive_all(fresh) if derived is None else derived)
    for event in fresh:
        batch.add(event, rows)
    save_agents(connection, agents.values())
    try:
        copy_rows(
            driver(connection),
            [
                Copy(StoredEvent, rows.events),
                Copy(MemoryNode, rows.nodes),
                Copy(NodeAccess, rows.accesses),
                Copy(QuarantineLog, rows.quarantined),
                Copy(PendingWork, [{"kind": kind, "subject_id": node_id, "group_id": group_id} for kind, node_id, group_id in rows.owed]),
            ],
        )
    except psycopg.errors.UniqueViolation as error:
        if error.diag.table_name != "events":
            raise
        raise CollisionError(str(error)) from None
    if due := windows.owe(connection, batch.spoke, batch.ended):
        result.due[windows.EXTRACT] = min(due)
    result.owed.update(kind for kind, _, _ in rows.owed)
    result.nodes = [(row["group_id"], row["agent_id"], row["node_id"]) for row in rows.nodes]
    result.configured = list({(event.group_id, event.agent_id) for event in fresh if isinstance(event, AgentConfigured)})
    pending_work.owe(connection, REFLECT_CONVERSATION, rows.ended)
    if rows.ended:
        result.owed[REFLECT_CONVERSATION] = len(rows.ended)
    for name, texts in rows.terms.items():
        add_terms(connection, *name, texts)
    outgrown = [(agent.agent_key, agent.group_id) for agent in agents.values() if agent.outgrows]
    pending_work.owe(connection, ENLARGE, outgrown)
    if outgrown:
        result.owed[ENLARGE] = len(outgrown)
    return result


class _Batch:
    """What has to be known before the first row is made: looked up once for the whole batch."""

    def __init__(
        self, connection: Connection, agents: dict[AgentName, AgentRow], events: Iterable[Event], derived: Mapping[UUID, Derived]
    ) -> None:
        self.agents = agents
        observed = memories_of(events)
        self.derived = derived
        #: Agents of which something was said, and whose sessions have ended.
        self.spoke = {(event.group_id, event.agent_id) for event in events if isinstance(event, TurnRecorded)}
        self.ended = {(event.group_id, event.agent_id) for event in events if isinstance(event, SessionEnded)}
        self.addressed = _addressed(connection, observed, derived)
        self.depths = _depths(connection, observed)
        self.twins = _twins(connection, agents, observed, self.derived)
        self.latest = _latest(connection, observed)

    def add(self, event: Event, rows: _Rows) -> None:
        if isinstance(event, NodeExecuted):
            _add_output(event, rows)
            return
        agent = self.agents[event.group_id, event.agent_id]
        if isinstance(event, AgentConfigured):
            agent.configure(event.payload)
            rows.events.append(_event_row(event, "applied", None))
            return
        if isinstance(event, SessionEnded):
            rows.events.append(_event_row(event, "applied", None))
            rows.ended.append((event.event_id, event.group_id))
            return
        derived, memory = self.derived[event.event_id], memory_of(event)
        if (known := self._known(memory, derived, agent)) is not None:
            rows.events.append(_event_row(event, "duplicate", known))
            return
        rows.events.append(_event_row(event, "stored", event.event_id))
        self._add_node(memory, derived, agent, rows)

    def _known(self, event: MemoryObserved, derived: Derived, agent: AgentRow) -> UUID | None:
        """The node that the event would only repeat, by its own rule or by its agent's; if none, it is known from now on."""
        seen, name = event.payload, (event.group_id, event.agent_id)
        if seen.kind == "session":  # what is said again is said again
            return None
        if seen.uri is not None:
            known = self.addressed.setdefault((*name, seen.uri, derived.content_hash), event.event_id)
            return None if known == event.event_id else known
        triple = (seen.subject, seen.predicate, seen.object)
        latest = self.latest.get(name)
        if latest is not None and seen.retention:
            found = next((node_id for known, node_id in islice(latest, seen.retention) if known == triple), None)
            if found is not None:
                return found
        if _dedupes(agent):
            twin = self.twins.setdefault((*name, seen.node_type, derived.content_hash), event.event_id)
            if twin != event.event_id:
                return twin
        if latest is not None and seen.node_type == "event":
            latest.appendleft((triple, event.event_id))
        return None

    def _add_node(self, event: MemoryObserved, derived: Derived, agent: AgentRow, rows: _Rows) -> None:
        seen = event.payload
        node_count, type_count = agent.number(seen.node_type)
        depths = self.depths.setdefault((event.group_id, event.agent_id), {})
        depth = depths[event.event_id] = depth_of(seen.node_type, seen.evidence, depths)
        filling: list[Any] = [str(node_id) for node_id in seen.evidence] or [list(pair) for pair in seen.utterances]
        row: Row = dict(zip(_BY_NAME, _given(seen) + _derived(derived), strict=False))
        row |= {
            "node_id": event.event_id,
            "group_id": event.group_id,
            "agent_id": event.agent_id,
            "session_id": event.session_id,
            "type": seen.node_type,
            "node_count": node_count,
            "type_count": type_count,
            "depth": depth,
            "created_at": event.occurred_at,
            "keywords_lower": [keyword.lower() for keyword in derived.keywords],
            "tokens": " ".join(derived.tokens),
            "filling": _json(filling, _EMPTY_LIST),
            "provenance": _json(seen.provenance, _EMPTY_OBJECT),
            "embedding": None if seen.vector is None else to_array(seen.vector),
            "large": agent.large_from is not None,
        }
        rows.nodes.append(row)
        rows.accesses.append({"node_id": event.event_id, "group_id": event.group_id, "last_accessed": event.occurred_at})
        if agent.large_from is not None:
            rows.terms[event.group_id, event.agent_id].append(derived.tokens)
        if seen.vector is None:
            rows.owed.append((EMBED, event.event_id, event.group_id))
        if seen.node_type == "thought" and not all(node_id in depths for node_id in seen.evidence):
            rows.owed.append((DEPTH, event.event_id, event.group_id))  # some of its evidence is still on its way
        if seen.kind in SUMMARISED_KINDS and seen.overview is None:
            rows.owed.append((SUMMARIZE, event.event_id, event.group_id))
        if not seen.historic and missing(seen, agent.settings, get_settings()):
            rows.owed.append((APPRAISE, event.event_id, event.group_id))
            return
        for kind in owed_when_complete(seen.node_type, derived.keywords, seen.predicate, seen.object):
            if kind != ACCUMULATE or not seen.historic:
                rows.owed.append((kind, event.event_id, event.group_id))


def owed_when_complete(node_type: str, keywords: Sequence[str], predicate: str | None, object_: str | None) -> list[str]:
    """The work that needs a memory's importance, keywords and triple: what counts them."""
    owed = [STRENGTHEN] if keywords and counts_for_keywords(node_type, predicate, object_) else []
    return [*owed, ACCUMULATE] if node_type == "event" else owed


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
    connection: Connection, agents: dict[AgentName, AgentRow], observed: Iterable[MemoryObserved], derived: Mapping[UUID, Derived]
) -> dict[tuple[str, str, str, bytes], UUID]:
    """Stored nodes with the content of one of the batch's, for the agents that want each content once."""
    wanted = [event for event in observed if _dedupes(agents[event.group_id, event.agent_id])]
    if not wanted:
        return {}
    parameters = {
        "groups": [event.group_id for event in wanted],
        "agents": [event.agent_id for event in wanted],
        "hashes": [derived[event.event_id].content_hash for event in wanted],
    }
    return {(row.group_id, row.agent_id, row.type, bytes(row.content_hash)): row.node_id for row in connection.execute(_TWINS, parameters)}


def _addressed(
    connection: Connection, observed: Iterable[MemoryObserved], derived: Mapping[UUID, Derived]
) -> dict[tuple[str, str, str, bytes], UUID]:
    """What is in force at the addresses of the batch's memories, by address and content (ZC-25)."""
    wanted = [event for event in observed if event.payload.uri is not None and event.payload.kind != "session"]
    if not wanted:
        return {}
    parameters = {
        "groups": [event.group_id for event in wanted],
        "agents": [event.agent_id for event in wanted],
        "uris": [event.payload.uri for event in wanted],
        "hashes": [derived[event.event_id].content_hash for event in wanted],
    }
    rows = connection.execute(_ADDRESSED, parameters)
    return {(row.group_id, row.agent_id, row.uri, bytes(row.content_hash)): row.node_id for row in rows}


def _latest(connection: Connection, observed: Iterable[MemoryObserved]) -> dict[AgentName, deque[tuple[Triple, UUID]]]:
    """The triples of the latest events, newest first, of the agents of which an event asks for it (``retention``)."""
    most: dict[AgentName, int] = {}
    for event in observed:
        if event.payload.retention:
            name = (event.group_id, event.agent_id)
            most[name] = max(most.get(name, 0), event.payload.retention)
    if not most:
        return {}
    latest: dict[AgentName, deque[tuple[Triple, UUID]]] = {name: deque() for name in most}
    parameters = {"groups": [name[0] for name in most], "agents": [name[1] for name in most], "counts": list(most.values())}
    for row in connection.execute(_LATEST, parameters):
        latest[row.group_id, row.agent_id].append(((row.subject, row.predicate, row.object), row.node_id))
    return latest


def _add_output(event: NodeExecuted, rows: _Rows) -> None:
    """Into quarantine, whatever it says, with all that came with it (CN-16, CN-18)."""
    said = event.payload
    rows.events.append(_event_row(event, "applied", None))
    rows.quarantined.append(
        {
            "entry_id": event.event_id,
            "group_id": event.group_id,
            "agent_id": event.agent_id,
            "session_id": event.session_id,
            "node_id": said.node_id,
            "node_type": said.node_type,
            "node_name": said.node_name,
            "kind": kind_of(said.node_type, said.metadata),
            "content": said.output,
            "content_hash": content_digest(said.output),
            "confidence": said.confidence,
            "flags": list(said.flags),
            "depth": said.depth,
            "metadata": _json(said.metadata, _EMPTY_OBJECT),
            "provenance": _json(said.provenance, _EMPTY_OBJECT),
            "created_at": event.occurred_at,
        }
    )
    rows.owed.append((INGRESS, event.event_id, event.group_id))


def _event_row(event: Event, outcome: str, node_id: UUID | None) -> Row:
    if isinstance(event, AgentConfigured):
        payload = event.payload.model_dump_json(exclude_unset=True).encode()
    else:
        payload = event.payload.model_dump_json(exclude_none=True, exclude_defaults=True, exclude={"vector"}).encode()
    return {
        "event_id": event.event_id,
        "type": event.type,
        "version": event.version,
        "group_id": event.group_id,
        "agent_id": event.agent_id,
        "session_id": event.session_id,
        "correlation_id": event.correlation_id,
        "occurred_at": event.occurred_at,
        "payload": Jsonb(payload, dumps=_as_it_is),
        "outcome": outcome,
        "node_id": node_id,
    }


def _erased_row(event: Event) -> Row:
    """What is kept of an event about something that is being erased: that it came."""
    nothing = {"agent_id": "", "session_id": None, "correlation_id": None, "payload": _EMPTY_OBJECT}
    return _event_row(event, "erased", None) | nothing


def _json(value: Any, empty: Jsonb) -> Jsonb:
    return Jsonb(to_json(value), dumps=_as_it_is) if value else empty


def _as_it_is(encoded: bytes) -> bytes:
    return encoded


#: Columns of a memory that hold a field of its event, or one derived from it, under the same name.
_AS_GIVEN = tuple(name for name in Observation.model_fields if name in MemoryNode.__table__.columns)
_AS_DERIVED = tuple(one.name for one in fields(Derived) if one.name in MemoryNode.__table__.columns)
_BY_NAME = _AS_GIVEN + _AS_DERIVED
_given, _derived = attrgetter(*_AS_GIVEN), attrgetter(*_AS_DERIVED)

#: Most nodes have neither evidence nor provenance.
_EMPTY_LIST, _EMPTY_OBJECT = Jsonb(b"[]", dumps=_as_it_is), Jsonb(b"{}", dumps=_as_it_is)

# Of all groups' events and nodes: a node outlives the record of its event, which may be pruned.
_KNOWN = text("SELECT jiyi_taken(CAST(:ids AS uuid[]))")
_DEPTHS = text("SELECT group_id, agent_id, node_id, depth FROM memory_nodes WHERE node_id = ANY(:ids)")
_TWINS = text("""
    SELECT DISTINCT ON (n.group_id, n.agent_id, n.type, n.content_hash)
        n.group_id, n.agent_id, n.type, n.content_hash, n.node_id
    FROM memory_nodes n JOIN unnest(CAST(:groups AS text[]), CAST(:agents AS text[]), CAST(:hashes AS bytea[]))
        AS w(group_id, agent_id, content_hash) USING (group_id, agent_id, content_hash)
    WHERE n.archived_at IS NULL
    ORDER BY n.group_id, n.agent_id, n.type, n.content_hash, n.node_count
""")
_ADDRESSED = text("""
    SELECT n.group_id, n.agent_id, n.uri, n.content_hash, n.node_id
    FROM memory_nodes n JOIN unnest(
        CAST(:groups AS text[]), CAST(:agents AS text[]), CAST(:uris AS text[]), CAST(:hashes AS bytea[])
    ) AS w(group_id, agent_id, uri, content_hash) USING (group_id, agent_id, uri, content_hash)
    WHERE n.kind <> 'session' AND n.superseded_at IS NULL
""")
_LATEST = text("""
    SELECT w.group_id, w.agent_id, n.node_id, n.subject, n.predicate, n.object
    FROM unnest(CAST(:groups AS text[]), CAST(:agents AS text[]), CAST(:counts AS int[])) AS w(group_id, agent_id, wanted)
    CROSS JOIN LATERAL (
        SELECT * FROM memory_nodes m WHERE m.group_id = w.group_id AND m.agent_id = w.agent_id AND m.type = 'event'
        ORDER BY m.type_count DESC LIMIT w.wanted
    ) AS n
    ORDER BY n.type_count DESC
""")
