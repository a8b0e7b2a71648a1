"""The rows that an event becomes, and what the tables hold of a batch's agents, looked up once a batch.

Each row type declares its table's columns once: COPY takes their names from it.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, NamedTuple
from uuid import UUID

from pydantic_core import to_json
from sqlalchemy import Connection, text
from sqlalchemy.dialects import postgresql

from engine.conversations.marks import UTC_OFFSET
from engine.memory import Derived, Rest
from jiyi import tracing
from jiyi.protocol.event_bodies import payload_json
from jiyi.protocol.events import Event, EventKey, MemoryObserved, Observation
from jiyi.protocol.wire.vectors import to_array
from jiyi.settings import get_settings
from models.db.rows import PACKED_TYPES, Copy, packed_json, packed_texts, packed_time, packed_vector
from models.memory.agents import AgentName, AgentRow
from models.memory.event_types import EventType
from models.memory.tables import MemoryNode, NodeAccess, StoredEventRow
from models.queue.tables import PendingWork

#: Most memories have neither evidence nor provenance.
_EMPTY_LIST, EMPTY_OBJECT = packed_json(b"[]"), packed_json(b"{}")
#: Subject, predicate, object, user.
Triple = tuple[str | None, str | None, str | None, str | None]


class EventRow(NamedTuple):
    event_id: bytes
    type: str
    version: int
    group_id: str
    agent_id: str
    session_id: str | None
    correlation_id: str | None
    occurred_at: bytes
    payload: bytes
    outcome: str
    #: Of the memory that the event became, or would repeat.
    node_id: bytes | None = None


class NodeFields(NamedTuple):
    """What of a row of ``memory_nodes`` follows from its event, but is no field of it or of
    :class:`Derived`.
    """

    node_id: bytes
    group_id: str
    agent_id: str
    session_id: str | None
    type: str
    created_at: bytes
    expires_at: bytes | None
    keywords: bytes
    keywords_lower: bytes
    tokens: str
    filling: bytes
    provenance: bytes
    embedding: bytes | None


class NodeNumbers(NamedTuple):
    """What of a row of ``memory_nodes`` depends on the agent's other memories."""

    node_count: int
    type_count: int
    depth: int
    trust: float
    large: bool


class AccessRow(NamedTuple):
    node_id: bytes
    group_id: str
    last_accessed: bytes


class WorkRow(NamedTuple):
    kind: str
    subject_id: bytes
    group_id: str
    #: What trace its event is of (``traceparent``).
    trace: str | None = None


def _columns_among(names: tuple[str, ...], excluded: tuple[str, ...]) -> tuple[str, ...]:
    """The names of columns of ``memory_nodes``, but those excluded. ``TypeError`` for a packed one."""
    columns = MemoryNode.__table__.columns
    among = tuple(name for name in names if name in columns and name not in excluded)
    dialect = postgresql.dialect()  # type: ignore[no-untyped-call]
    for name in among:
        if columns[name].type.compile(dialect).lower() in PACKED_TYPES:
            raise TypeError(
                f"memory_nodes.{name} is packed for COPY: add it to NodeFields, and to what prepared() gives"
            )
    return among


class PreparedMemory(NamedTuple):
    """A memory with all of its rows that needs no database."""

    memory: MemoryObserved
    #: (group_id, agent_id).
    agent: tuple[str, str]
    node_id: UUID
    node_type: str
    content_hash: bytes
    tokens: str
    #: Kinds of work to enqueue for the node, if nothing has to be found out first; whether that is sure.
    work: tuple[str, ...]
    work_is_sure: bool
    work_when_complete: Sequence[str]
    #: Whether it asks what else is stored: a thought, or one with evidence, an address, or ``retention``.
    looks_up: bool
    #: How far it is trusted, if it rests on nothing that is trusted less.
    trust: float
    event: EventRow
    #: Without :class:`NodeNumbers`.
    node: tuple[Any, ...]
    access: AccessRow


def prepared(
    event: Event,
    memory: MemoryObserved,
    derived: Derived,
    work: tuple[str, ...],
    *,
    work_is_sure: bool,
    work_when_complete: Sequence[str],
    trust: float,
) -> PreparedMemory:
    """The rows of an event and of the memory that it becomes, as far as they follow from it alone."""
    observation, keywords = memory.payload, derived.keywords
    filling: list[Any] = list(map(str, observation.evidence)) or list(map(list, observation.utterances))
    row = event_row(event, "stored", event.event_id.bytes)
    lowered = [keyword.lower() for keyword in keywords]
    packed, words = packed_texts(keywords), " ".join(derived.tokens)
    own: tuple[Any, ...] = NodeFields(
        row.event_id,
        row.group_id,
        row.agent_id,
        row.session_id,
        observation.node_type,
        row.occurred_at,
        None if derived.expires_at is None else packed_time(derived.expires_at),
        packed,
        packed if lowered == keywords else packed_texts(lowered),
        words,
        packed_or(filling, _EMPTY_LIST),
        packed_or(_with_offset(observation.provenance, event), EMPTY_OBJECT),
        None if observation.vector is None else packed_vector(to_array(observation.vector)),
    )
    payload_fields: tuple[Any, ...] = _given(observation)
    return PreparedMemory(
        memory,
        (row.group_id, row.agent_id),
        event.event_id,
        observation.node_type,
        derived.content_hash,
        words,
        work,
        work_is_sure,
        work_when_complete,
        observation.node_type == "thought"
        or bool(observation.evidence)
        or observation.uri is not None
        or observation.retention is not None,
        trust,
        row,
        payload_fields + _derived(derived) + own,
        AccessRow(row.event_id, row.group_id, row.occurred_at),
    )


def _with_offset(provenance: dict[str, Any], event: Event) -> dict[str, Any]:
    """With how far the speaker's clock is ahead of UTC: what names a day names the speaker's."""
    offset = event.occurred_at.utcoffset()
    return {**provenance, UTC_OFFSET: int(offset.total_seconds() // 60)} if offset else provenance


def event_row(event: Event, outcome: str, node_id: bytes | None = None) -> EventRow:
    return EventRow(
        event.event_id.bytes,
        event.type,
        event.version,
        event.group_id,
        event.agent_id,
        event.session_id,
        event.correlation_id,
        packed_time(event.occurred_at),
        packed_json(payload_json(event)),
        outcome,
        node_id,
    )


def erased_row(event: Event) -> EventRow:
    """What is kept of an event about something that is being erased: that it came."""
    row = EventRow(
        event.event_id.bytes, event.type, event.version, event.group_id, "", None, None, b"", b"", ""
    )
    return row._replace(occurred_at=packed_time(event.occurred_at), payload=EMPTY_OBJECT, outcome="erased")


def packed_or(value: Any, empty: bytes) -> bytes:
    return packed_json(to_json(value)) if value else empty


@dataclass(slots=True)
class Copies:
    """The rows of a batch, table by table."""

    events: list[EventRow] = field(default_factory=list)
    nodes: list[tuple[Any, ...]] = field(default_factory=list)
    accesses: list[AccessRow] = field(default_factory=list)
    #: Kinds of work → whose: (subject_id, group_id).
    pending: dict[str, list[tuple[bytes, str]]] = field(default_factory=lambda: defaultdict(list))
    #: (group_id, agent_id, node_id) of the new nodes.
    node_names: list[tuple[str, str, UUID]] = field(default_factory=list)
    #: Rows of the tables of event types.
    others: dict[EventType, list[Mapping[str, Any]]] = field(default_factory=lambda: defaultdict(list))
    #: Large agents → the tokens of their new nodes.
    terms: dict[AgentName, list[list[str]]] = field(default_factory=lambda: defaultdict(list))

    def add_event(self, event: Event, outcome: str, node_id: bytes | None = None) -> None:
        self.events.append(event_row(event, outcome, node_id))

    def work(self) -> list[WorkRow]:
        """Kind by kind, as the table's indexes are sorted: that takes PostgreSQL less."""
        traces = {
            (event_id.bytes, group_id): trace for (event_id, group_id), trace in tracing.carried().items()
        }
        return [
            WorkRow(kind, *subject, traces.get(subject))
            for kind, subjects in self.pending.items()
            for subject in subjects
        ]

    def copies(self) -> list[Copy]:
        """What is copied, in the order that foreign keys need."""
        return [
            Copy(StoredEventRow, EventRow._fields, self.events),
            Copy(MemoryNode, NODE_COLUMNS, self.nodes),
            Copy(NodeAccess, AccessRow._fields, self.accesses),
            *(
                Copy(kind.table, tuple(rows[0]), [tuple(row.values()) for row in rows])
                for kind, rows in self.others.items()
                if kind.table is not None
            ),
            Copy(PendingWork, WorkRow._fields, self.work()),
        ]


def dedupes(agent: AgentRow) -> bool:
    return (agent.settings.dedupe or get_settings().agent_defaults.dedupe) == "exact"


def evidence(connection: Connection, observed: Iterable[MemoryObserved]) -> dict[AgentName, dict[UUID, Rest]]:
    """The stored nodes that the batch's memories rest on, by agent: another's evidence counts for nothing."""
    node_ids = {node_id for event in observed for node_id in event.payload.evidence}
    if not node_ids:
        return {}
    by_agent: dict[AgentName, dict[UUID, Rest]] = {}
    for row in connection.execute(_EVIDENCE, {"ids": list(node_ids)}):
        by_agent.setdefault((row.group_id, row.agent_id), {})[row.node_id] = Rest(row.depth, row.trust)
    return by_agent


def twins(
    connection: Connection, memories: Sequence[MemoryObserved], ready: Mapping[EventKey, PreparedMemory]
) -> dict[tuple[str, str, str, bytes], UUID]:
    """Stored nodes with the content of one of these, whose agents want each content once."""
    if not memories:
        return {}
    parameters = {
        "groups": [event.group_id for event in memories],
        "agents": [event.agent_id for event in memories],
        "hashes": [ready[event.key].content_hash for event in memories],
    }
    return {
        (row.group_id, row.agent_id, row.type, bytes(row.content_hash)): row.node_id
        for row in connection.execute(_TWINS, parameters)
    }


def latest(
    connection: Connection, observed: Iterable[MemoryObserved]
) -> dict[AgentName, deque[tuple[Triple, UUID]]]:
    """The triples of the latest events, newest first, of the agents that an event asks it of
    (``retention``).
    """
    most: dict[AgentName, int] = {}
    for event in observed:
        if event.payload.retention:
            name = (event.group_id, event.agent_id)
            most[name] = max(most.get(name, 0), event.payload.retention)
    if not most:
        return {}
    triples: dict[AgentName, deque[tuple[Triple, UUID]]] = {name: deque() for name in most}
    parameters = {
        "groups": [name[0] for name in most],
        "agents": [name[1] for name in most],
        "counts": list(most.values()),
    }
    for row in connection.execute(_LATEST, parameters):
        triples[row.group_id, row.agent_id].append(
            ((row.subject, row.predicate, row.object, row.user_id), row.node_id)
        )
    return triples


def addressed(
    connection: Connection, observed: Iterable[MemoryObserved], ready: Mapping[EventKey, PreparedMemory]
) -> dict[tuple[str, str, str, bytes], UUID]:
    """The current memories at the addresses of the batch's memories, by address and content."""
    memories = [
        event for event in observed if event.payload.uri is not None and event.payload.kind != "session"
    ]
    if not memories:
        return {}
    parameters = {
        "groups": [event.group_id for event in memories],
        "agents": [event.agent_id for event in memories],
        "uris": [event.payload.uri for event in memories],
        "hashes": [ready[event.key].content_hash for event in memories],
    }
    rows = connection.execute(_ADDRESSED, parameters)
    return {(row.group_id, row.agent_id, row.uri, bytes(row.content_hash)): row.node_id for row in rows}


_OWN = NodeFields._fields + NodeNumbers._fields
_DERIVED = _columns_among(Derived._fields, _OWN)
_GIVEN = _columns_among(tuple(Observation.model_fields), _OWN + _DERIVED)
_given, _derived = attrgetter(*_GIVEN), attrgetter(*_DERIVED)
#: Columns of a memory's row: ``PreparedMemory.fields`` and :class:`NodeNumbers`.
NODE_COLUMNS = _GIVEN + _DERIVED + _OWN
_ADDRESSED = text("""
    SELECT n.group_id, n.agent_id, n.uri, n.content_hash, n.node_id
    FROM memory_nodes n JOIN unnest(
        CAST(:groups AS text[]), CAST(:agents AS text[]), CAST(:uris AS text[]), CAST(:hashes AS bytea[])
    ) AS w(group_id, agent_id, uri, content_hash) USING (group_id, agent_id, uri, content_hash)
    WHERE n.kind <> 'session' AND n.superseded_at IS NULL
""")
_EVIDENCE = text(
    "SELECT group_id, agent_id, node_id, depth, trust FROM memory_nodes WHERE node_id = ANY(:ids)"
)
_TWINS = text("""
    SELECT DISTINCT ON (n.group_id, n.agent_id, n.type, n.content_hash)
        n.group_id, n.agent_id, n.type, n.content_hash, n.node_id
    FROM memory_nodes n JOIN unnest(CAST(:groups AS text[]), CAST(:agents AS text[]), CAST(:hashes AS
    bytea[]))
        AS w(group_id, agent_id, content_hash) USING (group_id, agent_id, content_hash)
    WHERE n.archived_at IS NULL AND n.superseded_at IS NULL
    ORDER BY n.group_id, n.agent_id, n.type, n.content_hash, n.node_count
""")
_LATEST = text("""
    SELECT w.group_id, w.agent_id, n.node_id, n.subject, n.predicate, n.object, n.user_id
    FROM unnest(CAST(:groups AS text[]), CAST(:agents AS text[]), CAST(:counts AS int[])) AS w(group_id,
    agent_id, wanted)
    CROSS JOIN LATERAL (
        SELECT * FROM memory_nodes m WHERE m.group_id = w.group_id AND m.agent_id = w.agent_id
        AND m.type = 'event'
        ORDER BY m.type_count DESC LIMIT w.wanted
    ) AS n
    ORDER BY n.type_count DESC
""")
