"""How accepted events reach the tables: one batch, one transaction, each event once (design §3)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import islice
from uuid import UUID

import psycopg
from sqlalchemy import Connection, text

from engine.memory import MemorySource, Rest, derive, is_complete, missing, resting_on, trust_of
from jiyi.protocol.events import AgentConfigured, Event, EventKey
from jiyi.settings import get_settings
from models.db.connection import after_commit, driver
from models.db.rows import copy_rows
from models.memory import event_rows
from models.memory.agents import AgentName, AgentRow, lock_agents, make_groups, save_agents
from models.memory.event_rows import Copies, PreparedMemory, erased_row, prepared
from models.memory.event_types import StoredBatch, registry
from models.memory.work import work_for, work_when_complete
from models.queue import dead_letters, stream
from models.queue.stream import LiveEvent
from models.queue.wakeups import wake_after

Prepared = Mapping[EventKey, PreparedMemory]


class CollisionError(Exception):
    """Another intake stored one of the same events at the same time: roll back and start over."""


@dataclass(slots=True)
class StoreResult:
    """The result of a batch, to be published after the commit (``models.queue.stream``)."""

    events: int = 0
    repeated: int = 0
    #: (group_id, agent_id, node_id) of the new nodes.
    nodes: list[tuple[str, str, UUID]] = field(default_factory=list)
    #: The events that were new.
    fresh: list[EventKey] = field(default_factory=list)
    #: Events that were not stored, because their ids are those of others, which say something else.
    reused: list[Event] = field(default_factory=list)
    #: Events that were not stored, because their vectors are not of their models' sizes.
    misfits: list[dead_letters.Misfit] = field(default_factory=list)
    #: Agents whose settings have changed.
    configured: list[AgentName] = field(default_factory=list)
    #: Of events that became dead letters the groups that they say they are of, as far as that can be read.
    refused: list[str | None] = field(default_factory=list)

    def add(self, other: StoreResult) -> None:
        for each in fields(self):
            setattr(self, each.name, getattr(self, each.name) + getattr(other, each.name))


def prepare_all(
    events: Iterable[Event],
    ready: dict[EventKey, PreparedMemory] | None = None,
    source: MemorySource | None = None,
) -> Prepared:
    """All of the memories' rows that needs no database, by event; of events with the same key of the first.

    ``ready``: to be added to. ``source``: where they come from, if that is the service itself.
    """
    ready = {} if ready is None else ready
    types = registry().types
    for event in events:
        to_memory = types[type(event)].memory
        if to_memory is not None and (key := event.key) not in ready:
            memory = to_memory(event)
            derived, observation = derive(memory, source), memory.payload
            complete = work_when_complete(
                observation.node_type, derived.keywords, observation.predicate, observation.object
            )
            work = work_for(observation, complete, waits=False, lacks=False)
            sure = not observation.evidence and (observation.historic or is_complete(observation))
            trust = trust_of(observation, source)
            ready[key] = prepared(
                event, memory, derived, work, work_is_sure=sure, work_when_complete=complete, trust=trust
            )
    return ready


def store(
    connection: Connection,
    events: Sequence[Event],
    ready: Prepared | None = None,
    *,
    source: MemorySource | None = None,
) -> StoreResult:
    """Store the events that are new, and what they set off, in the caller's transaction.

    ``ready`` and ``source`` as :func:`prepare_all` gives and takes them. Safe to repeat because an event
    whose id its group has already changes nothing. One that says something else than that is returned in
    ``reused``, one with a vector of a wrong size in ``misfits``.

    Raises:
        CollisionError: another intake stored one of them meanwhile; roll back and call again.
    """
    unique, again = _first_of_each(events)
    # As text: a list of uuids takes psycopg three times as long.
    ids = ",".join([event_id.hex for event_id, _ in unique])
    existing = {(row.id, row.group_id) for row in connection.execute(_KNOWN, {"ids": f"{{{ids}}}"})}
    new = {key: event for key, event in unique.items() if key not in existing} if existing else unique
    fresh, keys = list(new.values()), list(new)
    again += [unique[key] for key in existing if key in unique]
    reused = dead_letters.find_reused(connection, again, unique)
    result = StoreResult(events=len(fresh), repeated=len(again) - len(reused), fresh=keys, reused=reused)
    if not fresh:
        after_commit(connection, announce, result)
        return result
    rows = Copies()
    types, refuse, follow_ups = registry()
    if refused := {key for look in refuse for key in look(connection, fresh)}:
        rows.events = [erased_row(event) for event in fresh if event.key in refused]
        fresh = [event for event in fresh if event.key not in refused]
    if misfits := dead_letters.find_misfits(connection, fresh):
        out = {misfit.event.key for misfit in misfits}
        fresh = [event for event in fresh if event.key not in out]
        keys = [key for key in keys if key not in out]
        result.events, result.fresh, result.misfits = len(keys), keys, misfits
    # What is of no agent (a workflow's node) is nobody's memory yet, and waits for no agent's lock.
    make_groups(connection, (event.group_id for event in fresh if not types[type(event)].of_agent))
    agents = lock_agents(
        connection, ((event.group_id, event.agent_id) for event in fresh if types[type(event)].of_agent)
    )
    batch = _Batch(connection, agents, fresh, prepare_all(fresh, source=source) if ready is None else ready)
    batch.add_all(fresh, rows)
    save_agents(connection, agents.values())
    try:
        copy_rows(driver(connection), rows.copies())
    except psycopg.errors.UniqueViolation as error:
        if error.diag.table_name != "events":
            raise
        raise CollisionError(str(error)) from None
    wake_after(connection, *rows.pending)
    result.nodes = rows.node_names
    stored_batch = StoredBatch(connection, agents, fresh, result.nodes, rows.terms)
    result.configured = list(
        {(event.group_id, event.agent_id) for event in stored_batch.of_type(AgentConfigured)}
    )
    for follow_up in follow_ups:
        follow_up(stored_batch)
    after_commit(connection, announce, result)
    return result


def announce(*results: StoreResult) -> None:
    """Report what was stored to meters and watchers, once it is committed. Never raises for Valkey."""
    total = StoreResult()
    for part in results:
        total.add(part)
    stream.count_events(total.events, total.repeated)
    configured: list[LiveEvent] = [
        (group_id, "agent.configured", {"agent": agent_id}) for group_id, agent_id in total.configured
    ]
    stream.publish_all([*stream.about(total.nodes, "node.stored"), *configured])
    if total.refused:
        stream.refused(total.refused)


def _first_of_each(events: Iterable[Event]) -> tuple[dict[EventKey, Event], list[Event]]:
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

    def __init__(
        self,
        connection: Connection,
        agents: dict[AgentName, AgentRow],
        events: Sequence[Event],
        ready: Prepared,
    ) -> None:
        self.agents = agents
        self._types = registry().types
        #: Of the events that become memories, in their order.
        self.memories = [ready[event.key] for event in events if self._types[type(event)].memory is not None]
        #: Agents that want each content once.
        self.deduping = {name for name, agent in agents.items() if event_rows.dedupes(agent)}
        #: Whether any rests on others, or may.
        self.any_rests = any(memory.looks_up for memory in self.memories)
        looking = [memory.memory for memory in self.memories if memory.looks_up]
        deduped = [memory.memory for memory in self.memories if memory.agent in self.deduping]
        self.addressed = event_rows.addressed(connection, looking, ready)
        self.evidence = event_rows.evidence(connection, looking)
        self.twins = event_rows.twins(connection, deduped, ready)
        self.latest = event_rows.latest(connection, looking)

    def add_all(self, events: Iterable[Event], rows: Copies) -> None:
        memories = iter(self.memories)
        for event in events:
            kind = self._types[type(event)]
            if kind.memory is not None:
                self._add_memory(event, next(memories), rows)
                continue
            rows.add_event(event, "applied")
            if kind.row is not None:
                rows.others[kind].append(kind.row(event))
            if kind.work_kind is not None:
                rows.pending[kind.work_kind].append((event.event_id.bytes, event.group_id))
            if type(event) is AgentConfigured:
                self._configure(event)

    def _configure(self, event: AgentConfigured) -> None:
        """The agent's settings count for the events that follow."""
        name = event.group_id, event.agent_id
        agent = self.agents[name]
        agent.configure(event.payload)
        (self.deduping.add if event_rows.dedupes(agent) else self.deduping.discard)(name)

    def _add_memory(self, event: Event, ready: PreparedMemory, rows: Copies) -> None:
        name, node_id = ready.agent, ready.node_id
        agent = self.agents[name]
        if (ready.looks_up or name in self.deduping or name in self.latest) and (
            existing := self._existing_node(ready)
        ) is not None:
            rows.add_event(event, "duplicate", existing.bytes)
            return
        rest = self._rest(ready) if self.any_rests else Rest(0, ready.trust)
        numbers = agent.number(ready.node_type)
        large = agent.large_from is not None
        rows.events.append(ready.event)
        rows.nodes.append((*ready.node, *numbers, *rest, large))
        rows.node_names.append((*name, node_id))
        rows.accesses.append(ready.access)
        if large:
            rows.terms[name].append(ready.tokens.split())
        for kind in ready.work if ready.work_is_sure else self._work(ready, agent):
            rows.pending[kind].append((node_id.bytes, name[0]))

    def _rest(self, ready: PreparedMemory) -> Rest:
        rests = self.evidence.setdefault(ready.agent, {})
        evidence = [rests[node_id] for node_id in ready.memory.payload.evidence if node_id in rests]
        rest = rests[ready.node_id] = resting_on(ready.node_type, ready.trust, evidence)
        return rest

    def _work(self, ready: PreparedMemory, agent: AgentRow) -> tuple[str, ...]:
        observation, rests = ready.memory.payload, self.evidence.get(ready.agent, {})
        waits = observation.node_type == "thought" and not all(
            node_id in rests for node_id in observation.evidence
        )
        lacks = not observation.historic and bool(missing(observation, agent.settings, get_settings()))
        return work_for(observation, ready.work_when_complete, waits=waits, lacks=lacks)

    def _existing_node(self, ready: PreparedMemory) -> UUID | None:
        """The node that the event would only repeat, by its own rule or its agent's; else it is noted now."""
        observation, name = ready.memory.payload, ready.agent
        if observation.kind == "session":  # what is said again is said again
            return None
        if observation.uri is not None:
            there = self.addressed.setdefault((*name, observation.uri, ready.content_hash), ready.node_id)
            return None if there == ready.node_id else there
        triple = (observation.subject, observation.predicate, observation.object, observation.user_id)
        latest = self.latest.get(name)
        if latest is not None and observation.retention:
            repeated = next(
                (node_id for earlier, node_id in islice(latest, observation.retention) if earlier == triple),
                None,
            )
            if repeated is not None:
                return repeated
        if name in self.deduping:
            twin = self.twins.setdefault((*name, observation.node_type, ready.content_hash), ready.node_id)
            if twin != ready.node_id:
                return twin
        if latest is not None and observation.node_type == "event":
            latest.appendleft((triple, ready.node_id))
        return None


# A node and an output outlive the record of their event, which may be pruned. Of the groups of the scope.
# In a sub-select the planner does not see how many there are: for two thousand it would read all of a table
# of some ten thousand rows.
_KNOWN = text("""
    WITH wanted AS MATERIALIZED (SELECT CAST(:ids AS uuid[]) AS ids)
    SELECT event_id AS id, group_id FROM events WHERE event_id = ANY((SELECT ids FROM wanted)::uuid[])
    UNION ALL SELECT node_id, group_id FROM memory_nodes WHERE node_id = ANY((SELECT ids FROM wanted)::uuid[])
    UNION ALL SELECT entry_id, group_id FROM quarantine_logs WHERE entry_id = ANY((SELECT ids
    FROM wanted)::uuid[])
""")
