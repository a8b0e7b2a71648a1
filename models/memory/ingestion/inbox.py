"""How accepted events reach the tables: one batch, one transaction, each event once (design §3)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from typing import TypeVar, assert_never
from uuid import UUID

import psycopg
from sqlalchemy import Connection, text

from engine.conversations.stored.turns import memory_of
from engine.memory.appraisal import brings_all, missing
from engine.memory.nodes import counts_for_keywords, depth_of, derive
from jiyi.protocol.events import (
    AgentConfigured,
    Event,
    EventKey,
    FeedbackGiven,
    MemoryObserved,
    NodeExecuted,
    Observation,
    SessionEnded,
    StepRecorded,
    TurnRecorded,
)
from jiyi.settings import get_settings
from models.conversations import windows
from models.db.bulk_copy import Copy, EncodedCopy, copy_rows
from models.db.connection import driver
from models.erasure import refusal
from models.growth.artifacts.voting import WEIGH
from models.growth.reflections import rhythm
from models.growth.trajectories import storing as steps
from models.growth.trajectories.storing import COMPRESS, StepRow, step_row
from models.growth.trajectories.tables import TrajectoryEvent
from models.memory.agents.agents import AgentName, AgentRow, lock_agents, make_groups, save_agents
from models.memory.ingestion import batch_lookups as lookups
from models.memory.ingestion import own_vectors
from models.memory.ingestion.event_rows import (
    NODE_COLUMNS,
    AccessRow,
    EventRow,
    PreparedMemory,
    QuarantineRow,
    WorkRow,
    encode_event,
    encode_kind,
    encode_numbers,
    encode_subject,
    erased_row,
    event_row,
    prepared,
    quarantine_row,
)
from models.memory.ingestion.own_vectors import Misfit
from models.memory.tables import MemoryNode, NodeAccess, StoredEvent
from models.operations.embedding_models import EMBED
from models.queue import pending_work, reused_ids
from models.queue.tables import PendingWork
from models.reflection.reflections import REFLECT, REFLECT_CONVERSATION
from models.retrieval.enlargement import add_terms
from models.tiers.tables import QuarantineLog

#: Kinds of work that a new node may owe; the tasks of these names do it.
STRENGTHEN, ACCUMULATE, DEPTH = "strengthen", "accumulate", "depth"
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
    #: Events that were not stored, because their vectors are not of their models' sizes.
    misfits: list[Misfit] = field(default_factory=list)
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
        self.misfits += other.misfits
        self.configured += other.configured
        self.refused += other.refused


@dataclass(slots=True)
class _Rows:
    """What is to be copied; where it says bytes, rows as COPY sends them."""

    events: list[bytes] = field(default_factory=list)
    nodes: list[bytes] = field(default_factory=list)
    accesses: list[bytes] = field(default_factory=list)
    #: Kinds of work → whose, as :func:`encode_subject` has it.
    owed: dict[str, list[bytes]] = field(default_factory=lambda: defaultdict(list))
    #: (group_id, agent_id, node_id) of the new nodes.
    node_names: list[tuple[str, str, UUID]] = field(default_factory=list)
    #: (event_id, group_id) of the conversations that have ended.
    ended: list[tuple[UUID, str]] = field(default_factory=list)
    quarantined: list[QuarantineRow] = field(default_factory=list)
    steps: list[StepRow] = field(default_factory=list)
    #: Large agents → the tokens of their new nodes.
    terms: dict[AgentName, list[list[str]]] = field(default_factory=lambda: defaultdict(list))

    def add_event(self, event: Event, outcome: str, node_id: bytes | None = None) -> None:
        self.events.append(encode_event(event_row(event, outcome, node_id)))

    def work(self) -> list[bytes]:
        """Kind by kind, which is how the table's indexes are sorted: that takes PostgreSQL less than event by event."""
        return [(head := encode_kind((kind,))) + head.join(subjects) for kind, subjects in self.owed.items()]

    def copies(self, groups: AbstractSet[str]) -> list[Copy | EncodedCopy]:
        """What is copied, in the order that foreign keys need. ``groups``: those that the rows are of."""
        return [
            EncodedCopy(StoredEvent, EventRow._fields, self.events, groups),
            EncodedCopy(MemoryNode, NODE_COLUMNS, self.nodes, groups),
            EncodedCopy(NodeAccess, AccessRow._fields, self.accesses, groups),
            Copy(QuarantineLog, QuarantineRow._fields, self.quarantined),
            Copy(TrajectoryEvent, StepRow._fields, self.steps),
            EncodedCopy(PendingWork, WorkRow._fields, self.work(), groups),
        ]


def prepare_all(events: Iterable[Event], ready: dict[EventKey, PreparedMemory] | None = None) -> Prepared:
    """All of the memories' rows that needs no database, by event: time to do so while another batch is stored.

    Of events with the same key that of the first, which is the one that is stored. ``ready``: to be added to.
    """
    ready = {} if ready is None else ready
    for event in events:
        if isinstance(event, MemoryObserved | TurnRecorded) and (key := event.key) not in ready:
            memory = memory_of(event)
            derived, seen = derive(memory), memory.payload
            complete = owed_when_complete(seen.node_type, derived.keywords, seen.predicate, seen.object)
            owed = _owed(seen, complete, waits=False, lacks=False)
            sure = not seen.evidence and (seen.historic or brings_all(seen))
            ready[key] = prepared(event, memory, derived, owed, owed_is_sure=sure, owed_when_complete=complete)
    return ready


def store(connection: Connection, events: Sequence[Event], ready: Prepared | None = None) -> Stored:
    """Store the events that are new, and what they set off, in the caller's transaction.

    ``ready`` is what :func:`prepare_all` gave for the events, if it was called before.

    Safe to repeat because an event whose id its group has in ``events`` already changes nothing. One that says something else than
    that is not stored either, but returned in ``reused``, as is one with a vector of a wrong size in ``misfits``.

    Raises:
        CollisionError: another intake stored one of them meanwhile; roll back and call again.
    """
    unique, again = _first_of_each(events)
    ids = ",".join([event_id.hex for event_id, _ in unique])  # as text: a list of uuids takes psycopg three times as long
    known = {(row.id, row.group_id) for row in connection.execute(_KNOWN, {"ids": f"{{{ids}}}"})}
    new = {key: event for key, event in unique.items() if key not in known} if known else unique
    fresh, keys = list(new.values()), list(new)
    again += [unique[key] for key in known if key in unique]
    reused = reused_ids.find(connection, again, unique)
    result = Stored(events=len(fresh), repeated=len(again) - len(reused), fresh=keys, reused=reused)
    if not fresh:
        return result
    rows = _Rows()
    if refused := refusal.refused(connection, fresh):
        rows.events = [encode_event(erased_row(event)) for event in fresh if event.key in refused]
        fresh = [event for event in fresh if event.key not in refused]
    if misfits := own_vectors.find(connection, fresh):
        out = {one.event.key for one in misfits}
        fresh, keys = [event for event in fresh if event.key not in out], [key for key in keys if key not in out]
        result.events, result.fresh, result.misfits = len(keys), keys, misfits
    groups = {group_id for _, group_id in keys}
    # Nodes of workflows are no agents: what they say is nobody's memory yet, and waits for no agent's lock.
    make_groups(connection, (event.group_id for event in _those(NodeExecuted, fresh)))
    agents = lock_agents(connection, ((event.group_id, event.agent_id) for event in fresh if type(event) is not NodeExecuted))
    batch = _Batch(connection, agents, fresh, prepare_all(fresh) if ready is None else ready)
    batch.add_all(fresh, rows)
    save_agents(connection, agents.values())
    try:
        copy_rows(driver(connection), rows.copies(groups))
    except psycopg.errors.UniqueViolation as error:
        if error.diag.table_name != "events":
            raise
        raise CollisionError(str(error)) from None
    result.due = _owe_sessions(connection, batch, fresh)
    result.owed.update({kind: len(subjects) for kind, subjects in rows.owed.items()})
    result.nodes = rows.node_names
    result.configured = list({(event.group_id, event.agent_id) for event in _those(AgentConfigured, fresh)})
    pending_work.enqueue(connection, REFLECT_CONVERSATION, rows.ended)
    if rows.ended:
        result.owed[REFLECT_CONVERSATION] = len(rows.ended)
        over = [(event.group_id, event.agent_id) for event in _those(SessionEnded, fresh)]
        if looking := rhythm.conversations_ended(connection, agents, over):
            result.owed[REFLECT] += looking
    for name, texts in rows.terms.items():
        add_terms(connection, *name, texts)
    outgrown = [(agent.agent_key, agent.group_id) for agent in agents.values() if agent.outgrows]
    pending_work.enqueue(connection, ENLARGE, outgrown)
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
        #: Of the events that become memories, in their order.
        self.memories = [ready[event.key] for event in events if isinstance(event, MemoryObserved | TurnRecorded)]
        #: Agents of which something was said, and whose sessions have ended.
        self.spoke = {(event.group_id, event.agent_id) for event in _those(TurnRecorded, events)}
        self.ended = {(event.group_id, event.agent_id) for event in _those(SessionEnded, events)}
        #: Agents that want each content once.
        self.deduping = {name for name, agent in agents.items() if lookups.dedupes(agent)}
        self.has_thoughts = any(one.node_type == "thought" for one in self.memories)
        looking = [one.memory for one in self.memories if one.looks_up]
        deduped = [one.memory for one in self.memories if one.agent in self.deduping] if self.deduping else []
        self.addressed = lookups.addressed(connection, looking, ready)
        self.depths = lookups.depths(connection, looking)
        self.twins = lookups.twins(connection, deduped, ready)
        self.latest = lookups.latest(connection, looking)

    def add_all(self, events: Iterable[Event], rows: _Rows) -> None:
        """Of the events that this batch was made of."""
        memories = iter(self.memories)
        for event in events:
            if isinstance(event, MemoryObserved | TurnRecorded):
                self._add_memory(event, next(memories), rows)
            else:
                self._add_other(event, rows)

    def _add_other(self, event: NodeExecuted | AgentConfigured | SessionEnded | StepRecorded | FeedbackGiven, rows: _Rows) -> None:
        rows.add_event(event, "applied")
        if isinstance(event, NodeExecuted):
            rows.quarantined.append(quarantine_row(event))
            rows.owed[INGRESS].append(encode_subject(event))
        elif isinstance(event, AgentConfigured):
            agent = self.agents[event.group_id, event.agent_id]
            agent.configure(event.payload)
            (self.deduping.add if lookups.dedupes(agent) else self.deduping.discard)((event.group_id, event.agent_id))
        elif isinstance(event, SessionEnded):
            rows.ended.append((event.event_id, event.group_id))
        elif isinstance(event, StepRecorded):
            rows.steps.append(step_row(event))
        elif isinstance(event, FeedbackGiven):
            rows.owed[WEIGH].append(encode_subject(event))
        else:
            assert_never(event)

    def _add_memory(self, event: MemoryObserved | TurnRecorded, ready: PreparedMemory, rows: _Rows) -> None:
        name, node_id = ready.agent, ready.node_id
        agent = self.agents[name]
        if (ready.looks_up or name in self.deduping or name in self.latest) and (known := self._known(ready)) is not None:
            rows.add_event(event, "duplicate", known.bytes)
            return
        depth = self._depth(ready) if self.has_thoughts else 0
        numbers = agent.number(ready.node_type)
        large = agent.large_from is not None
        rows.events.append(ready.event)
        rows.nodes += (ready.node, encode_numbers(*numbers, depth, large))
        rows.node_names.append((*name, node_id))
        rows.accesses.append(ready.access)
        if large:
            rows.terms[name].append(ready.tokens.split())
        for kind in ready.owed if ready.owed_is_sure else self._owed(ready, agent):
            rows.owed[kind].append(ready.subject)

    def _depth(self, ready: PreparedMemory) -> int:
        depths = self.depths.setdefault(ready.agent, {})
        depth = depths[ready.node_id] = depth_of(ready.node_type, ready.memory.payload.evidence, depths)
        return depth

    def _owed(self, ready: PreparedMemory, agent: AgentRow) -> tuple[str, ...]:
        seen, known = ready.memory.payload, self.depths.get(ready.agent, {})
        waits = seen.node_type == "thought" and not all(node_id in known for node_id in seen.evidence)
        lacks = not seen.historic and bool(missing(seen, agent.settings, get_settings()))
        return _owed(seen, ready.owed_when_complete, waits=waits, lacks=lacks)

    def _known(self, ready: PreparedMemory) -> UUID | None:
        """The node that the event would only repeat, by its own rule or by its agent's; if none, it is known from now on."""
        seen, name = ready.memory.payload, ready.agent
        if seen.kind == "session":  # what is said again is said again
            return None
        if seen.uri is not None:
            there = self.addressed.setdefault((*name, seen.uri, ready.content_hash), ready.node_id)
            return None if there == ready.node_id else there
        triple = (seen.subject, seen.predicate, seen.object)
        latest = self.latest.get(name)
        if latest is not None and seen.retention:
            found = next((node_id for known, node_id in islice(latest, seen.retention) if known == triple), None)
            if found is not None:
                return found
        if name in self.deduping:
            twin = self.twins.setdefault((*name, seen.node_type, ready.content_hash), ready.node_id)
            if twin != ready.node_id:
                return twin
        if latest is not None and seen.node_type == "event":
            latest.appendleft((triple, ready.node_id))
        return None


def _owed(seen: Observation, complete: Sequence[str], *, waits: bool, lacks: bool) -> tuple[str, ...]:
    """The kinds of work that a new node owes: ``complete`` when nothing is missing.

    ``waits``: some of its evidence is still on its way; ``lacks``: the LLM is to be asked for something first.
    """
    owed = [EMBED] if seen.vector is None else []
    if waits:
        owed.append(DEPTH)
    if seen.kind in SUMMARISED_KINDS and seen.overview is None:
        owed.append(SUMMARIZE)
    if lacks:
        return (*owed, APPRAISE)
    return (*owed, *(kind for kind in complete if not (seen.historic and kind == ACCUMULATE)))


def owed_when_complete(node_type: str, keywords: Sequence[str], predicate: str | None, object_: str | None) -> list[str]:
    """The work that needs a memory's importance, keywords and triple: what counts them."""
    owed = [STRENGTHEN] if keywords and counts_for_keywords(node_type, predicate, object_) else []
    return [*owed, ACCUMULATE] if node_type == "event" else owed


# A node and an output outlive the record of their event, which may be pruned. Of the groups of the scope.
# In a sub-select the planner does not see how many there are: for two thousand it would read all of a table of some ten thousand rows.
_KNOWN = text("""
    WITH wanted AS MATERIALIZED (SELECT CAST(:ids AS uuid[]) AS ids)
    SELECT event_id AS id, group_id FROM events WHERE event_id = ANY((SELECT ids FROM wanted)::uuid[])
    UNION ALL SELECT node_id, group_id FROM memory_nodes WHERE node_id = ANY((SELECT ids FROM wanted)::uuid[])
    UNION ALL SELECT entry_id, group_id FROM quarantine_logs WHERE entry_id = ANY((SELECT ids FROM wanted)::uuid[])
""")
