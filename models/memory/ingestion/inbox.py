"""How accepted events reach the tables: one batch, one transaction, each event once (design §3)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from operator import itemgetter
from typing import Any, TypeVar, assert_never
from uuid import UUID

import psycopg
from sqlalchemy import Connection, text

from jiyi.conversations.stored.turns import memory_of
from jiyi.memory.appraisal import missing
from jiyi.memory.nodes import Derived, counts_for_keywords, depth_of, derive
from jiyi.protocol.events import (
    AgentConfigured,
    Event,
    EventKey,
    FeedbackGiven,
    MemoryObserved,
    NodeExecuted,
    SessionEnded,
    StepRecorded,
    TurnRecorded,
)
from jiyi.settings import get_settings
from models.conversations import windows
from models.db.bulk_copy import Copy, copy_rows
from models.db.connection import driver
from models.erasure import refusal
from models.growth.artifacts.voting import WEIGH
from models.growth.reflections import rhythm
from models.growth.trajectories import storing as steps
from models.growth.trajectories.storing import COMPRESS, StepRow, step_row
from models.growth.trajectories.tables import TrajectoryEvent
from models.memory.agents.agents import AgentName, AgentRow, lock_agents, make_groups, save_agents
from models.memory.ingestion import batch_lookups as lookups
from models.memory.ingestion.event_rows import (
    NODE_COLUMNS,
    AccessRow,
    EventRow,
    PreparedMemory,
    QuarantineRow,
    WorkRow,
    erased_row,
    event_row,
    prepared,
    quarantine_row,
)
from models.memory.tables import MemoryNode, NodeAccess, StoredEvent
from models.queue import pending_work, reused_ids
from models.queue.tables import PendingWork
from models.reflection.reflections import REFLECT, REFLECT_CONVERSATION
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

Prepared = Mapping[EventKey, PreparedMemory]
_E = TypeVar("_E", bound=Event)


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
    #: The events that were new.
    fresh: list[EventKey] = field(default_factory=list)
    #: Events that were not stored, because their ids are those of others, which say something else.
    reused: list[Event] = field(default_factory=list)
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
        self.reused += other.reused
        self.configured += other.configured
        self.refused += other.refused


@dataclass(slots=True)
class _Rows:
    events: list[EventRow] = field(default_factory=list)
    #: Values of ``NODE_COLUMNS``.
    nodes: list[tuple[Any, ...]] = field(default_factory=list)
    #: (group_id, agent_id, node_id) of the new nodes.
    node_names: list[tuple[str, str, UUID]] = field(default_factory=list)
    accesses: list[AccessRow] = field(default_factory=list)
    #: Values of :class:`WorkRow`: what the new nodes owe.
    owed: list[tuple[str, bytes, str]] = field(default_factory=list)
    #: (event_id, group_id) of the conversations that have ended.
    ended: list[tuple[UUID, str]] = field(default_factory=list)
    quarantined: list[QuarantineRow] = field(default_factory=list)
    steps: list[StepRow] = field(default_factory=list)
    #: Large agents → the tokens of their new nodes.
    terms: dict[AgentName, list[list[str]]] = field(default_factory=lambda: defaultdict(list))

    def copies(self) -> list[Copy]:
        """What is copied, in the order that foreign keys need."""
        return [
            Copy(StoredEvent, EventRow._fields, self.events),
            Copy(MemoryNode, NODE_COLUMNS, self.nodes),
            Copy(NodeAccess, AccessRow._fields, self.accesses),
            Copy(QuarantineLog, QuarantineRow._fields, self.quarantined),
            Copy(TrajectoryEvent, StepRow._fields, self.steps),
            Copy(PendingWork, WorkRow._fields, self.owed),
        ]


def prepare_all(events: Iterable[Event]) -> Prepared:
    """All of the memories' rows that needs no database, by event: time to do so while another batch is stored.

    Of events with the same key that of the first, which is the one that is stored.
    """
    ready: dict[EventKey, PreparedMemory] = {}
    for event in events:
        if isinstance(event, MemoryObserved | TurnRecorded) and event.key not in ready:
            ready[event.key] = prepared(event, memory := memory_of(event), derive(memory))
    return ready


def store(connection: Connection, events: Sequence[Event], ready: Prepared | None = None) -> Stored:
    """Store the events that are new, and what they set off, in the caller's transaction.

    ``ready`` is what :func:`prepare_all` gave for the events, if it was called before.

    Safe to repeat because an event whose id its group has in ``events`` already changes nothing. One that says something else than
    that is not stored either, but told in ``reused``.

    Raises:
        CollisionError: another intake stored one of them meanwhile; roll back and call again.
    """
    unique, again = _first_of_each(events)
    known = {(row.id, row.group_id) for row in connection.execute(_KNOWN, {"ids": [event_id for event_id, _ in unique]})}
    fresh = [event for key, event in unique.items() if key not in known] if known else list(unique.values())
    again += [unique[key] for key in known if key in unique]
    reused = reused_ids.find(connection, again, unique)
    result = Stored(events=len(fresh), repeated=len(again) - len(reused), fresh=[event.key for event in fresh], reused=reused)
    if not fresh:
        return result
    rows = _Rows()
    if refused := refusal.refused(connection, fresh):
        rows.events = [erased_row(event) for event in fresh if event.key in refused]
        fresh = [event for event in fresh if event.key not in refused]
    # Nodes of workflows are no agents: what they say is nobody's memory yet, and waits for no agent's lock.
    make_groups(connection, (event.group_id for event in _those(NodeExecuted, fresh)))
    agents = lock_agents(connection, ((event.group_id, event.agent_id) for event in fresh if type(event) is not NodeExecuted))
    batch = _Batch(connection, agents, fresh, prepare_all(fresh) if ready is None else ready)
    for event in fresh:
        batch.add(event, rows)
    save_agents(connection, agents.values())
    try:
        copy_rows(driver(connection), rows.copies())
    except psycopg.errors.UniqueViolation as error:
        if error.diag.table_name != "events":
            raise
        raise CollisionError(str(error)) from None
    result.due = _owe_sessions(connection, batch, fresh)
    result.owed.update(map(itemgetter(0), rows.owed))
    result.nodes = rows.node_names
    result.configured = list({(event.group_id, event.agent_id) for event in _those(AgentConfigured, fresh)})
    pending_work.owe(connection, REFLECT_CONVERSATION, rows.ended)
    if rows.ended:
        result.owed[REFLECT_CONVERSATION] = len(rows.ended)
        over = [(event.group_id, event.agent_id) for event in _those(SessionEnded, fresh)]
        if looking := rhythm.conversations_ended(connection, agents, over):
            result.owed[REFLECT] += looking
    for name, texts in rows.terms.items():
        add_terms(connection, *name, texts)
    outgrown = [(agent.agent_key, agent.group_id) for agent in agents.values() if agent.outgrows]
    pending_work.owe(connection, ENLARGE, outgrown)
    if outgrown:
        result.owed[ENLARGE] = len(outgrown)
    return result


def _owe_sessions(connection: Connection, batch: _Batch, fresh: Sequence[Event]) -> dict[str, datetime]:
    """Owe what waits for a session's end, or for silence; which kinds of work, and when each is first due."""
    found = {}
    if due := windows.owe(connection, batch.spoke, batch.ended):
        found[windows.EXTRACT] = min(due)
    if (compress_at := steps.owe(connection, _those(StepRecorded, fresh), _those(SessionEnded, fresh))) is not None:
        found[COMPRESS] = compress_at
    return found


def _those(wanted: type[_E], events: Iterable[Event]) -> list[_E]:
    """Of one type, by identity: ``isinstance`` takes seven times as long for what is of another one, as nearly all are."""
    return [event for event in events if type(event) is wanted]


def _first_of_each(events: Iterable[Event]) -> tuple[dict[EventKey, Event], list[Event]]:
    """The first event of each id, and those that come after it."""
    unique: dict[EventKey, Event] = {}
    again: list[Event] = []
    for event in events:
        count = len(unique)
        unique.setdefault(event.key, event)  # one look-up: to hash an id takes longer than all the rest
        if len(unique) == count:
            again.append(event)
    return unique, again


class _Batch:
    """What has to be known before the first row is made: looked up once for the whole batch."""

    def __init__(self, connection: Connection, agents: dict[AgentName, AgentRow], events: Sequence[Event], ready: Prepared) -> None:
        self.agents = agents
        self.ready = ready
        #: Agents of which something was said, and whose sessions have ended.
        turns = _those(TurnRecorded, events)
        self.spoke = {(event.group_id, event.agent_id) for event in turns}
        self.ended = {(event.group_id, event.agent_id) for event in _those(SessionEnded, events)}
        observed = _those(MemoryObserved, events) + [ready[event.key].memory for event in turns]
        self.addressed = lookups.addressed(connection, observed, ready)
        self.depths = lookups.depths(connection, observed)
        self.twins = lookups.twins(connection, agents, observed, ready)
        self.latest = lookups.latest(connection, observed)

    def add(self, event: Event, rows: _Rows) -> None:
        if isinstance(event, MemoryObserved | TurnRecorded):
            self._add_memory(self.ready[event.key], rows)
            return
        if isinstance(event, NodeExecuted):
            rows.events.append(event_row(event, "applied"))
            rows.quarantined.append(quarantine_row(event))
            rows.owed.append(WorkRow(INGRESS, event.event_id.bytes, event.group_id))
            return
        agent = self.agents[event.group_id, event.agent_id]
        if isinstance(event, AgentConfigured):
            agent.configure(event.payload)
            rows.events.append(event_row(event, "applied"))
            return
        if isinstance(event, SessionEnded):
            rows.events.append(event_row(event, "applied"))
            rows.ended.append((event.event_id, event.group_id))
            return
        if isinstance(event, StepRecorded):
            rows.events.append(event_row(event, "applied"))
            rows.steps.append(step_row(event))
            return
        if isinstance(event, FeedbackGiven):
            rows.events.append(event_row(event, "applied"))
            rows.owed.append(WorkRow(WEIGH, event.event_id.bytes, event.group_id))
            return
        assert_never(event)

    def _add_memory(self, ready: PreparedMemory, rows: _Rows) -> None:
        memory, derived, row, values, access = ready
        name = (memory.group_id, memory.agent_id)
        agent = self.agents[name]
        if (known := self._known(memory, derived, agent)) is not None:
            rows.events.append(row._replace(outcome="duplicate", node_id=known.bytes))
            return
        seen, node_id, large = memory.payload, memory.event_id, agent.large_from is not None
        depths = self.depths.setdefault(name, {})
        depth = depths[node_id] = depth_of(seen.node_type, seen.evidence, depths)
        rows.events.append(row)
        numbers: tuple[Any, ...] = (*agent.number(seen.node_type), depth, large)  # values of NodeNumbers
        rows.nodes.append(values + numbers)
        rows.node_names.append((*name, node_id))
        rows.accesses.append(access)
        if large:
            rows.terms[name].append(derived.tokens)
        rows.owed += [(kind, row.event_id, row.group_id) for kind in _owed(memory, derived, agent, depths)]

    def _known(self, event: MemoryObserved, derived: Derived, agent: AgentRow) -> UUID | None:
        """The node that the event would only repeat, by its own rule or by its agent's; if none, it is known from now on."""
        seen, name = event.payload, (event.group_id, event.agent_id)
        if seen.kind == "session":  # what is said again is said again
            return None
        if seen.uri is not None:
            there = self.addressed.setdefault((*name, seen.uri, derived.content_hash), event.event_id)
            return None if there == event.event_id else there
        triple = (seen.subject, seen.predicate, seen.object)
        latest = self.latest.get(name)
        if latest is not None and seen.retention:
            found = next((node_id for known, node_id in islice(latest, seen.retention) if known == triple), None)
            if found is not None:
                return found
        if lookups.dedupes(agent):
            twin = self.twins.setdefault((*name, seen.node_type, derived.content_hash), event.event_id)
            if twin != event.event_id:
                return twin
        if latest is not None and seen.node_type == "event":
            latest.appendleft((triple, event.event_id))
        return None


def _owed(event: MemoryObserved, derived: Derived, agent: AgentRow, known: Mapping[UUID, int]) -> list[str]:
    """The kinds of work that a new node owes; ``known`` nodes may be its evidence."""
    seen = event.payload
    owed = [EMBED] if seen.vector is None else []
    if seen.node_type == "thought" and not all(node_id in known for node_id in seen.evidence):
        owed.append(DEPTH)  # some of its evidence is still on its way
    if seen.kind in SUMMARISED_KINDS and seen.overview is None:
        owed.append(SUMMARIZE)
    if seen.historic:
        complete = owed_when_complete(seen.node_type, derived.keywords, seen.predicate, seen.object)
        return owed + [kind for kind in complete if kind != ACCUMULATE]
    if missing(seen, agent.settings, get_settings()):
        return [*owed, APPRAISE]
    return owed + owed_when_complete(seen.node_type, derived.keywords, seen.predicate, seen.object)


def owed_when_complete(node_type: str, keywords: Sequence[str], predicate: str | None, object_: str | None) -> list[str]:
    """The work that needs a memory's importance, keywords and triple: what counts them."""
    owed = [STRENGTHEN] if keywords and counts_for_keywords(node_type, predicate, object_) else []
    return [*owed, ACCUMULATE] if node_type == "event" else owed


# A node and an output outlive the record of their event, which may be pruned. Of the groups of the scope.
_KNOWN = text("""
    SELECT event_id AS id, group_id FROM events WHERE event_id = ANY(:ids)
    UNION ALL SELECT node_id, group_id FROM memory_nodes WHERE node_id = ANY(:ids)
    UNION ALL SELECT entry_id, group_id FROM quarantine_logs WHERE entry_id = ANY(:ids)
""")
