"""Dead letters: what could not be done, kept with the reason until somebody decides.

Those of no known group (a message that is no event) are seen by operators, in every group.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from sqlalchemy import ColumnElement, Connection, func, insert, or_, select, text
from uuid6 import uuid7

from engine.conversations.memories import memory_of
from jiyi.chat.secrets import masked
from jiyi.errors import IdReused, InvalidEvent
from jiyi.protocol import event_bodies
from jiyi.protocol.base import BY_ID
from jiyi.protocol.event_bodies import Content, content, content_of, digest, is_export
from jiyi.protocol.events import Event, EventKey, MemoryObserved, NodeExecuted, TurnRecorded
from jiyi.protocol.operations import MAX_BODY_CHARS, MAX_RESOLVED, DeadLetter, LettersRequest
from jiyi.protocol.wire.vectors import BYTES_PER_VALUE
from models.db.rows import behind, columns, equal_if_given, fetch, fetch_one, ilike_pattern
from models.operations import embedding_models
from models.queue import tables

INTAKE = "intake"
#: How the reason of an event begins whose id is another one's.
ID_REUSED = "id_reused:"
#: Where an event has its vector.
VECTOR_FIELD = "payload.vector"
_D = tables.DeadLetterRow
#: Hexadecimal characters of a content's digest that distinguish several refused ones of an id.
FINGERPRINT_CHARS = 8


@dataclass(frozen=True, slots=True)
class ClosedLetter:
    """A letter that was closed; ``body`` is a refused event's."""

    letter_id: UUID
    kind: str
    subject_id: UUID | None
    group_id: str | None
    body: str | None


def add_message(
    connection: Connection,
    body: str,
    reason: str,
    subject_id: UUID | None,
    group_id: str | None,
    traceback: str | None = None,
) -> None:
    """Keep a refused event as it came. ``body`` must hold no NUL."""
    about = {"subject_id": subject_id, "group_id": group_id, "reason": reason}
    letter = {"letter_id": uuid7(), "kind": INTAKE, **about, "body": body, "traceback": traceback}
    connection.execute(insert(_D).values(letter))


def add_once(connection: Connection, refused: Iterable[tuple[Event, str]]) -> list[str]:
    """Keep events with their reasons, unless such a letter is open already; the groups of the new ones."""
    groups = []
    for event, reason in refused:
        about = {"subject_id": event.event_id, "group_id": event.group_id, "reason": reason}
        letter = {"letter_id": uuid7(), **about, "body": event_bodies.encode([event]).decode()}
        if connection.execute(_ADD_ONCE, letter).rowcount:
            groups.append(event.group_id)
    return groups


def letters(connection: Connection, group_id: str, request: LettersRequest) -> list[DeadLetter]:
    """Newest first, one more than asked for if there are more. ``words``: in any case."""
    query = select(*columns(DeadLetter, _D, body=func.left(_D.body, MAX_BODY_CHARS))).where(
        _in_sight(group_id), *equal_if_given((_D.state, request.state), (_D.kind, request.kind))
    )
    if request.words is not None:
        query = query.where(_D.reason.ilike(ilike_pattern(request.words)))
    latest = behind(query, request.place(BY_ID), _D.letter_id).limit(request.limit + 1)
    return fetch(connection, DeadLetter, latest)


def find(connection: Connection, group_id: str, letter_id: UUID) -> DeadLetter | None:
    """One letter, with its whole body."""
    this = select(*columns(DeadLetter, _D)).where(_D.letter_id == letter_id, _in_sight(group_id))
    return fetch_one(connection, DeadLetter, this)


def kinds(connection: Connection, group_id: str) -> dict[str, int]:
    """Open letters by kind."""
    counted = select(_D.kind, func.count().label("open")).where(_D.state == "open", _in_sight(group_id))
    return {row.kind: row.open for row in connection.execute(counted.group_by(_D.kind).order_by(_D.kind))}


def close(
    connection: Connection, group_id: str, letter_ids: Sequence[UUID], kind: str | None, state: str
) -> list[ClosedLetter]:
    """Close open letters: those named, or up to ``MAX_RESOLVED`` of a kind. Safe to repeat."""
    which = {"group": group_id, "ids": list(letter_ids), "kind": kind, "limit": MAX_RESOLVED}
    return [ClosedLetter(*row) for row in connection.execute(_CLOSE, {**which, "state": state})]


def enqueue_again(connection: Connection, closed: Sequence[ClosedLetter]) -> None:
    """Work that had been given up is due at once, with all its attempts."""
    if closed:
        fields = ("kind", "subject_id", "group_id")
        rows = [{name: getattr(letter, name) for name in fields} for letter in closed]
        connection.execute(_ENQUEUE_AGAIN, rows)


def _in_sight(group_id: str) -> ColumnElement[bool]:
    """The group's, and those of no known group."""
    return or_(_D.group_id == group_id, _D.group_id.is_(None))


class ReusedIds(IdReused):
    """``events`` have ids that belong to others."""

    def __init__(self, events: Sequence[Event]) -> None:
        self.events = list(events)
        super().__init__([f"event_id: {reason_of(event)}" for event in events])


def find_reused(
    connection: Connection, again: Sequence[Event], first: Mapping[EventKey, Event]
) -> list[Event]:
    """Those of ``again`` that differ from what is stored under their ids, or is ``first`` in their batch."""
    if not again:
        return []
    contents = _stored(connection, again)

    def known(event: Event) -> Content | _Remains | None:
        return contents[event.key] if event.key in contents else content_of(first[event.key])

    return [event for event in again if not _same(event, known(event))]


def reason_of(event: Event) -> str:
    """Why it is refused. Begins with the name of the reason, by which ``event_states`` knows it."""
    fingerprint = digest(content_of(event))[:FINGERPRINT_CHARS]
    return (
        f"{ID_REUSED} {event.event_id} is another event's id, which says something else; give this one"
        f" ({fingerprint}) an id of its own"
    )


def add_reused(connection: Connection, events: Iterable[Event]) -> list[str]:
    """Keep them as dead letters, each content once while open; the groups of the new letters."""
    return add_once(connection, ((event, reason_of(event)) for event in events))


class _Remains(NamedTuple):
    """What a memory, or an output, keeps of its event when the record of that was pruned."""

    agent_id: str
    session_id: str | None
    text: str | None


def _same(event: Event, previous: Content | _Remains | None) -> bool:
    if previous is None:  # erased: it cannot be compared
        return True
    if isinstance(previous, _Remains):
        return _remains(event) == previous
    own, other = content_of(event), previous
    if is_export(event):  # it may have what an LLM has answered since
        keys = other["payload"].keys() - {"provenance"}
        own, other = (
            {**content, "payload": {name: content["payload"].get(name) for name in keys}}
            for content in (own, other)
        )
    return digest(own) == digest(other)


def _remains(event: Event) -> _Remains:
    text = event.payload.description if isinstance(event, MemoryObserved) else None
    text = event.payload.output if isinstance(event, NodeExecuted) else text
    text = memory_of(event).payload.description if isinstance(event, TurnRecorded) else text
    return _Remains(event.agent_id, event.session_id, None if text is None else masked(text))


def _stored(connection: Connection, events: Iterable[Event]) -> dict[EventKey, Content | _Remains | None]:
    """What is stored under the events' ids: the content, or what is left of it; None where it was erased."""
    contents: dict[EventKey, Content | _Remains | None] = {}
    ids = list({event.event_id for event in events})
    for row in connection.execute(_EVENTS, {"ids": ids}):
        fields = (row.type, row.agent_id, row.session_id, row.payload)
        contents[row.event_id, row.group_id] = None if row.outcome == "erased" else content(*fields)
    pruned = [event.event_id for event in events if event.key not in contents]
    for row in connection.execute(_REMAINS, {"ids": pruned}) if pruned else ():
        text = None if row.text is None else masked(row.text)
        contents[row.id, row.group_id] = _Remains(row.agent_id, row.session_id, text)
    return contents


@dataclass(frozen=True, slots=True)
class Misfit:
    """An event whose vector cannot be one of its model's, and why, as a sentence."""

    event: Event
    reason: str


class MisfitVectors(InvalidEvent):
    """``misfits`` were not stored, nor was what came with them."""

    def __init__(self, misfits: Sequence[Misfit]) -> None:
        self.misfits = list(misfits)
        super().__init__([f"{VECTOR_FIELD}: {misfit.reason}" for misfit in misfits])


def find_misfits(connection: Connection, events: Iterable[Event]) -> list[Misfit]:
    """Events whose vectors have another size than their models'.

    Sizes are the service's records, or of the embedder in the settings; of other models any size is stored,
    and
    found by vectors of the same size.
    """
    with_vectors = [
        event for event in events if type(event) is MemoryObserved and event.payload.vector is not None
    ]
    if not with_vectors:
        return []
    sizes = embedding_models.known_sizes(connection)
    return [Misfit(event, reason) for event in with_vectors if (reason := _misfit(event, sizes)) is not None]


def add_misfits(connection: Connection, misfits: Iterable[Misfit]) -> list[str]:
    """Keep them as dead letters, each once while its letter is open; the groups of the new letters."""
    reasons = ((misfit.event, f"{VECTOR_FIELD}: {misfit.reason}") for misfit in misfits)
    return add_once(connection, reasons)


def _misfit(event: MemoryObserved, sizes: Mapping[str, int]) -> str | None:
    vector, model = event.payload.vector, event.payload.embedding_model
    assert vector is not None
    assert model is not None, "they come together"
    size, expected = len(vector) // BYTES_PER_VALUE, sizes.get(model)
    if expected in (None, size):
        return None
    return (
        f"{size:,} values, but vectors of {model} have {expected:,}: send one of {expected:,} values, name"
        " the model that made it, or leave out vector and embedding_model, and the service embeds the text"
    )


_ADD_ONCE = text("""
    INSERT INTO dead_letters (letter_id, kind, subject_id, group_id, reason, body)
    SELECT :letter_id, 'intake', CAST(:subject_id AS uuid), CAST(:group_id AS text), CAST(:reason AS text),
    :body
    WHERE NOT EXISTS (
        SELECT FROM dead_letters WHERE subject_id = :subject_id AND group_id = :group_id
        AND state = 'open' AND reason = :reason
    )
""")
_CLOSE = text("""
    UPDATE dead_letters SET state = :state, resolved_at = now() WHERE letter_id IN (
        SELECT letter_id FROM dead_letters
        WHERE state = 'open' AND (group_id = :group OR group_id IS NULL)
          AND (letter_id = ANY(:ids) OR (cardinality(CAST(:ids AS uuid[])) = 0 AND kind = :kind))
        ORDER BY letter_id LIMIT :limit FOR UPDATE
    )
    RETURNING letter_id, kind, subject_id, group_id, body
""")
_ENQUEUE_AGAIN = text("""
    INSERT INTO pending_work (kind, subject_id, group_id) VALUES (:kind, :subject_id, :group_id)
    ON CONFLICT (kind, subject_id, group_id) DO UPDATE SET attempts = 0, due_at = now()
""")
# Of the groups of the scope.
_EVENTS = text("""
    SELECT event_id, group_id, type, agent_id, session_id, outcome, payload FROM events
    WHERE event_id = ANY(:ids)
""")
_REMAINS = text("""
    SELECT node_id AS id, group_id, agent_id, session_id, description AS text FROM memory_nodes
    WHERE node_id = ANY(:ids)
    UNION ALL SELECT entry_id, group_id, agent_id, session_id, content FROM quarantine_logs
    WHERE entry_id = ANY(:ids)
""")
