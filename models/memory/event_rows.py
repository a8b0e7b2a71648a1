"""The rows that an event becomes. Each row type declares its table's columns once: COPY takes their names from it."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any, NamedTuple
from uuid import UUID

from pydantic_core import to_json
from sqlalchemy.dialects import postgresql

from engine.memory.nodes import Derived
from jiyi.protocol.event_bodies import payload_json
from jiyi.protocol.events import Event, MemoryObserved, Observation
from jiyi.protocol.wire.vectors import to_array
from models.db.bulk_copy import PACKED_TYPES, packed_json, packed_texts, packed_time, packed_vector
from models.memory.tables import MemoryNode

#: Most memories have neither evidence nor provenance.
_EMPTY_LIST, EMPTY_OBJECT = packed_json(b"[]"), packed_json(b"{}")


class EventRow(NamedTuple):
    """A row of ``events``."""

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
    """What of a row of ``memory_nodes`` follows from its event, but not under the name of a field of it or of :class:`Derived`."""

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
    large: bool


class AccessRow(NamedTuple):
    """A row of ``node_access``."""

    node_id: bytes
    group_id: str
    last_accessed: bytes


class WorkRow(NamedTuple):
    """A row of ``pending_work``."""

    kind: str
    subject_id: bytes
    group_id: str


def _columns_among(names: tuple[str, ...], taken: tuple[str, ...]) -> tuple[str, ...]:
    """The names that are columns of ``memory_nodes`` and not taken. Raises :class:`TypeError` for one that has to be packed."""
    columns = MemoryNode.__table__.columns
    among = tuple(name for name in names if name in columns and name not in taken)
    dialect = postgresql.dialect()  # type: ignore[no-untyped-call]
    for name in among:
        if columns[name].type.compile(dialect).lower() in PACKED_TYPES:
            raise TypeError(f"memory_nodes.{name} is packed for COPY: add it to NodeFields, and to what prepared() gives")
    return among


_OWN = NodeFields._fields + NodeNumbers._fields
_DERIVED = _columns_among(Derived._fields, _OWN)
_GIVEN = _columns_among(tuple(Observation.model_fields), _OWN + _DERIVED)
_given, _derived = attrgetter(*_GIVEN), attrgetter(*_DERIVED)
#: Columns of a memory's row: ``PreparedMemory.fields`` and :class:`NodeNumbers`.
NODE_COLUMNS = _GIVEN + _DERIVED + _OWN


class PreparedMemory(NamedTuple):
    """A memory with all of its rows that needs no database."""

    memory: MemoryObserved
    #: (group_id, agent_id).
    agent: tuple[str, str]
    node_id: UUID
    node_type: str
    content_hash: bytes
    tokens: str
    #: Kinds of work that the node owes, if nothing has to be found out first; whether that is so whatever its agent wants.
    owed: tuple[str, ...]
    owed_is_sure: bool
    owed_when_complete: Sequence[str]
    #: Whether it asks what else is stored, whatever its agent wants: a thought, or one with an address, or with ``retention``.
    looks_up: bool
    event: EventRow
    #: Without :class:`NodeNumbers`.
    node: tuple[Any, ...]
    access: AccessRow


def prepared(
    event: Event, memory: MemoryObserved, derived: Derived, owed: tuple[str, ...], *, owed_is_sure: bool, owed_when_complete: Sequence[str]
) -> PreparedMemory:
    """The rows of an event and of the memory that it becomes, as far as they follow from it alone."""
    seen, keywords = memory.payload, derived.keywords
    filling: list[Any] = [str(node_id) for node_id in seen.evidence] or [list(pair) for pair in seen.utterances]
    row = event_row(event, "stored", event.event_id.bytes)
    lowered = [keyword.lower() for keyword in keywords]
    packed, words = packed_texts(keywords), " ".join(derived.tokens)
    own: tuple[Any, ...] = NodeFields(
        row.event_id,
        row.group_id,
        row.agent_id,
        row.session_id,
        seen.node_type,
        row.occurred_at,
        None if derived.expires_at is None else packed_time(derived.expires_at),
        packed,
        packed if lowered == keywords else packed_texts(lowered),
        words,
        packed_or(filling, _EMPTY_LIST),
        packed_or(seen.provenance, EMPTY_OBJECT),
        None if seen.vector is None else packed_vector(to_array(seen.vector)),
    )
    given: tuple[Any, ...] = _given(seen)
    return PreparedMemory(
        memory,
        (row.group_id, row.agent_id),
        event.event_id,
        seen.node_type,
        derived.content_hash,
        words,
        owed,
        owed_is_sure,
        owed_when_complete,
        seen.node_type == "thought" or seen.uri is not None or seen.retention is not None,
        row,
        given + _derived(derived) + own,
        AccessRow(row.event_id, row.group_id, row.occurred_at),
    )


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
    happened = packed_time(event.occurred_at)
    return EventRow(event.event_id.bytes, event.type, event.version, event.group_id, "", None, None, happened, EMPTY_OBJECT, "erased")


def packed_or(value: Any, empty: bytes) -> bytes:
    return packed_json(to_json(value)) if value else empty
