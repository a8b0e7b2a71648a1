"""Reads of events: their states, lists, the export; and ids for events that come without one.

The one place that determines an event's state.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

from pydantic import BaseModel
from sqlalchemy import Connection, RowMapping, Select, Text, and_, case, cast, func, literal, select, text
from uuid6 import uuid7

from jiyi.protocol.base import BY_POSITION
from jiyi.protocol.event_bodies import content, content_of, digest
from jiyi.protocol.event_requests import EventState
from jiyi.protocol.events import Event
from jiyi.protocol.memory import ExportQuery
from models.db.rows import Record, behind, columns, equal_if_given, fetch, fetch_one, records
from models.memory.tables import MemoryNode, StoredEventRow
from models.queue.dead_letters import ID_REUSED

R = TypeVar("R", bound=BaseModel)

#: Characters of an event's payload that a list carries.
MAX_PAYLOAD_CHARS = 600
#: Work that may be pending for a memory (``models.memory.inbox``), as the primary key of ``pending_work``
#: begins with the kind.
KINDS = ("embed", "strengthen", "accumulate", "depth", "appraise", "tokenize", "reflect_conversation")
#: Dead letters about one thing that a page shows.
MAX_LETTERS = 5

#: What became of a stored event; its memory is gone where somebody erased it otherwise than by the event.
STATE = case(
    (StoredEventRow.outcome != "stored", StoredEventRow.outcome),
    (MemoryNode.node_id.is_(None), "erased"),
    (MemoryNode.embedding_model.is_(None), "stored"),
    else_="retrievable",
)


class EventRecord(BaseModel):
    event_id: UUID
    type: str
    version: int
    group_id: str
    agent_id: str
    session_id: str | None
    correlation_id: str | None
    occurred_at: datetime
    received_at: datetime
    payload: dict[str, Any]
    outcome: str
    state: str
    node_id: UUID | None
    position: int
    embedding_model: str | None
    node_exists: bool


class Became(NamedTuple):
    """What became of an event: work that is pending for its memory, and dead letters about either."""

    event: EventRecord | None
    pending: list[Record]
    letters: list[Record]


def states(
    connection: Connection,
    group_id: str,
    event_ids: Sequence[UUID],
    digests: Mapping[UUID, str] | None = None,
) -> list[EventState]:
    """What became of these events, one an id, in the order given.

    An id of ``digests`` that stands for another content is ``id_reused``; so is one without a digest under
    which another event has been refused, while nobody has decided on that.
    """
    selection = _select(EventState).where(
        StoredEventRow.group_id == group_id, StoredEventRow.event_id.in_(event_ids)
    )
    states = {state.event_id: state for state in fetch(connection, EventState, selection)}
    states |= _reused(connection, group_id, list(states.values()), digests or {})
    missing = [event_id for event_id in event_ids if event_id not in states]
    if missing:
        states |= {
            state.event_id: state
            for state in fetch(connection, EventState, _DEAD, group=group_id, ids=missing)
        }
    return [states.get(event_id) or EventState(event_id=event_id, state="unknown") for event_id in event_ids]


def _reused(
    connection: Connection, group_id: str, event_states: Sequence[EventState], digests: Mapping[UUID, str]
) -> dict[UUID, EventState]:
    """Those of the states whose ids stand for something else, or for more than one thing."""
    reasons: dict[UUID, str] = {}
    if digest_ids := [
        state.event_id for state in event_states if state.event_id in digests and state.state != "erased"
    ]:
        table = StoredEventRow
        contents = select(table.event_id, table.type, table.agent_id, table.session_id, table.payload)
        for row in connection.execute(
            contents.where(table.group_id == group_id, table.event_id.in_(digest_ids))
        ):
            if digest(content(row.type, row.agent_id, row.session_id, row.payload)) != digests[row.event_id]:
                reasons[row.event_id] = (
                    f"{ID_REUSED} it is another event's id, which says something else; nothing of this one is"
                    " stored"
                )
    if others := [state.event_id for state in event_states if state.event_id not in digests]:
        parameters = {"group": group_id, "ids": others, "reason": f"{ID_REUSED}%"}
        reasons |= {row.subject_id: row.reason for row in connection.execute(_REFUSED_AGAIN, parameters)}
    return {
        state.event_id: state.model_copy(update={"state": "id_reused", "reason": reasons[state.event_id]})
        for state in event_states
        if state.event_id in reasons
    }


def event(connection: Connection, row: type[R], group_id: str, event_id: UUID) -> R | None:
    """A stored event with the fields of ``row``; None if there is none, or it was pruned."""
    selection = _select(row).where(StoredEventRow.group_id == group_id, StoredEventRow.event_id == event_id)
    return fetch_one(connection, row, selection)


def events(
    connection: Connection,
    group_id: str,
    agent_id: str | None,
    *,
    before: int | None,
    after: int | None,
    limit: int,
) -> list[Record]:
    """Stored events, the latest to arrive first, with a ``position`` between the two."""
    row = StoredEventRow
    selection = _select(_LISTED).where(row.group_id == group_id, *equal_if_given((row.agent_id, agent_id)))
    if after is not None:
        selection = selection.where(row.position > after)
    return records(connection, behind(selection, before, row.position).limit(limit))


def exported(connection: Connection, group_id: str, request: ExportQuery) -> Sequence[RowMapping]:
    """Stored events in order of arrival, with what their memories have been given since."""
    parameters = {
        "group": group_id,
        "agent": request.agent_id,
        "user": request.user_id,
        "after": request.place(BY_POSITION),
        "vectors": request.with_vectors,
        "limit": request.limit + 1,
    }
    if request.node_ids is None:
        return connection.execute(_EXPORTED, parameters).mappings().all()
    return connection.execute(_EXPORTED_OF, {**parameters, "nodes": request.node_ids}).mappings().all()


def became(connection: Connection, group_id: str, event_id: UUID) -> Became:
    """The event of this id, and what is still to be done for it or could not be."""
    this: dict[str, Any] = {"group": group_id, "id": event_id}
    return Became(
        event(connection, EventRecord, group_id, event_id),
        records(connection, _PENDING_WORK, **this, kinds=list(KINDS)),
        records(connection, _LETTERS, **this, limit=MAX_LETTERS),
    )


def _select(row: type[BaseModel] | Sequence[str]) -> Select[tuple[Any, ...]]:
    payload = StoredEventRow.payload
    texts = [payload[name].astext for name in ("description", "text", "output", "input")]
    summary = func.left(func.coalesce(*texts, func.nullif(cast(payload, Text), "{}"), ""), MAX_PAYLOAD_CHARS)
    computed = {
        "state": STATE,
        "reason": literal(""),
        "node_exists": MemoryNode.node_id.is_not(None),
        "summary": summary,
        "node_type": func.coalesce(payload["node_type"].astext, "event"),
    }
    own = and_(MemoryNode.node_id == StoredEventRow.node_id, MemoryNode.group_id == StoredEventRow.group_id)
    return select(*columns(row, StoredEventRow, MemoryNode, **computed)).outerjoin_from(
        StoredEventRow, MemoryNode, own
    )


#: Of a list; ``summary``: the beginning of what it says, else of its payload.
_LISTED = (
    *("event_id", "position", "type", "agent_id", "session_id", "occurred_at", "received_at", "outcome"),
    *("node_id", "summary", "node_type", "state"),
)
_DEAD = text("""
    SELECT DISTINCT ON (subject_id) subject_id AS event_id, 'dead' AS state, CAST(NULL AS uuid) AS node_id,
    reason FROM dead_letters
    WHERE (group_id = :group OR group_id IS NULL) AND kind = 'intake' AND state = 'open'
    AND subject_id = ANY(:ids)
      AND NOT EXISTS (SELECT FROM events WHERE event_id = subject_id AND group_id = :group)
""")
_REFUSED_AGAIN = text("""
    SELECT DISTINCT ON (subject_id) subject_id, reason FROM dead_letters
    WHERE group_id = :group AND subject_id = ANY(:ids) AND kind = 'intake' AND state = 'open'
    AND reason LIKE :reason
    ORDER BY subject_id, letter_id DESC
""")
# What was asked of an LLM comes along, so that nobody has to ask again.
_EXPORT = """
    SELECT e.position, e.event_id, e.type, e.version, e.occurred_at, e.group_id, e.agent_id, e.session_id,
    e.correlation_id,
        CASE WHEN n.provenance ? 'appraised' THEN
            jsonb_strip_nulls(jsonb_build_object(
                'poignancy', n.poignancy, 'subject', n.subject, 'predicate', n.predicate, 'object', n.object,
                'keywords', n.keywords
            )) || e.payload || jsonb_build_object('provenance', n.provenance)
        ELSE e.payload END
            -- Where it came from, if that is not the default; what only the service says is an import.
            || CASE WHEN e.type = 'memory.observed' AND (n.origin, n.trust) IS DISTINCT FROM ('user', 0.8)
            AND n.node_id IS NOT NULL THEN
                jsonb_build_object(
                    'origin', CASE WHEN n.origin IN ('operator', 'rules', 'model') THEN 'import' ELSE
                    n.origin END, 'trust', n.trust
                )
            ELSE '{}' END
            || CASE WHEN n.provenance ? 'rated' THEN jsonb_build_object('poignancy', n.poignancy) ELSE '{}'
            END AS payload,
        CASE WHEN :vectors THEN n.embedding END AS embedding, n.embedding_model
    FROM events e LEFT JOIN memory_nodes n ON n.node_id = e.node_id AND n.group_id = e.group_id
    AND e.outcome = 'stored'
    WHERE e.group_id = :group AND e.outcome <> 'erased' AND (CAST(:agent AS text) IS NULL
    OR e.agent_id = :agent)
      AND (CAST(:user AS text) IS NULL OR n.user_id = :user)
      AND (CAST(:after AS bigint) IS NULL OR e.position > :after)
"""
_IN_ORDER = " ORDER BY e.position LIMIT :limit"
_EXPORTED = text(_EXPORT + _IN_ORDER)
_EXPORTED_OF = text(_EXPORT + " AND e.event_id = ANY(:nodes)" + _IN_ORDER)
_PENDING_WORK = text("""
    SELECT kind, due_at, attempts, last_error, created_at FROM pending_work
    WHERE kind = ANY(:kinds) AND subject_id = :id AND group_id = :group ORDER BY kind
""")
_LETTERS = text("""
    SELECT letter_id, kind, reason, state, created_at FROM dead_letters
    WHERE subject_id = :id AND group_id = :group ORDER BY letter_id DESC LIMIT :limit
""")


#: A version-7 id: 48 bits of milliseconds, then the version, 12 bits, the variant, 62 bits.
RANDOM_BITS, VERSION_7, VARIANT = 80, 0x7 << 76, 0b10 << 62
KEPT_BITS = ((1 << RANDOM_BITS) - 1) & ~(0xF << 76) & ~(0b11 << 62)


def with_ids(
    connection: Connection,
    events: Sequence[Event],
    field_names: Sequence[Collection[str]],
    seconds: int,
    now: datetime,
) -> list[Event]:
    """Give events of one group ids where their senders cannot keep one, such as LLMs: what says the same
    within so many seconds is the same event. ``field_names``: fields that the sender gave, event by event.

    An id is made of what the event says and of when: time is cut into slots of those seconds, and an event
    takes the id of its own slot, or of the slot before if that is stored. So several processes make the same
    id.
    """
    slot = int(now.timestamp()) // seconds
    ids = {
        place: [_id(event, "occurred_at" in fields, at, seconds) for at in (slot, slot - 1)]
        for place, (event, fields) in enumerate(zip(events, field_names, strict=True))
        if "event_id" not in fields
    }
    candidates = [event_id for both in ids.values() for event_id in both]
    rows = connection.execute(
        _STORED, {"ids": candidates, "group": events[0].group_id, "since": now - timedelta(seconds=seconds)}
    )
    #: Whether it is still current: what was erased or corrected meanwhile is to be stored again.
    is_current: dict[UUID, bool] = {row.event_id: row.holds for row in rows}

    def chosen(both: Sequence[UUID]) -> UUID:
        if (existing := next((event_id for event_id in both if is_current.get(event_id)), None)) is not None:
            return existing
        return uuid7() if both[0] in is_current else both[0]

    return [
        event.model_copy(update={"event_id": chosen(ids[place])}) if place in ids else event
        for place, event in enumerate(events)
    ]


def _id(event: Event, dated: bool, slot: int, seconds: int) -> UUID:
    content = "|".join(
        [
            event.group_id,
            digest(content_of(event)),
            event.occurred_at.isoformat() if dated else "",
            str(slot),
            str(seconds),
        ]
    )
    bits = int.from_bytes(hashlib.blake2b(content.encode(), digest_size=RANDOM_BITS // 8).digest())
    return UUID(int=(slot * seconds * 1_000 << RANDOM_BITS) | (bits & KEPT_BITS) | VERSION_7 | VARIANT)


_STORED = text("""
    SELECT e.event_id,
        e.received_at >= :since AND e.outcome <> 'erased' AND (
            e.node_id IS NULL OR EXISTS (
                SELECT FROM memory_nodes n WHERE n.node_id = e.node_id AND n.group_id = e.group_id
                AND n.superseded_at IS NULL AND n.archived_at IS NULL
            ) AND NOT EXISTS (
                SELECT FROM erasures r WHERE r.group_id = e.group_id AND r.state <> 'done'
                AND r.kind = 'nodes'
                AND r.what #> '{asked,node_ids}' @> to_jsonb(e.node_id::text)
            )
        ) AS holds
    FROM events e WHERE e.event_id = ANY(CAST(:ids AS uuid[])) AND e.group_id = :group
""")
