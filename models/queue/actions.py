"""What can be done with pending work and with dead letters: retry, list, replay, discard."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import psycopg
from sqlalchemy import Connection
from sqlalchemy.exc import DataError

from jiyi.errors import InvalidRequest, NotFound
from jiyi.protocol import event_bodies, limits
from jiyi.protocol.base import ById, Count, Rows
from jiyi.protocol.events import Event
from jiyi.protocol.operations import DeadLetter, LettersRequest, ResolveBody, Resolved, RetryWork
from models.db.actions import Context, action
from models.db.connection import after_commit
from models.db.rows import page
from models.memory import inbox
from models.memory.event_types import refusal
from models.memory.ingest import MAX_COLLISIONS, identity
from models.queue import dead_letters, pending_work, stream
from models.queue.dead_letters import INTAKE, ClosedLetter, add_message
from models.queue.wakeups import wake_after

STATES = {"replay": "replayed", "discard": "discarded"}


@action("pending_work.retry")
def retry_work(context: Context, request: RetryWork) -> Count:
    """Make pending work due now.

    That of the subjects named, or up to 10,000 of the kind; each has all its attempts again. Safe to repeat
    because work is done once, however often it is due.
    """
    group_id = None if request.all_groups and context.actor.operator else context.group_id
    count = pending_work.retry(context.connection, request.kind, group_id, request.subject_ids)
    if count:
        context.audit(request.kind, group_id=group_id, count=count)
        wake_after(context.connection, request.kind)
    return Count(count=count)


@action("dead_letters.list")
def list_letters(context: Context, request: LettersRequest) -> Rows[DeadLetter]:
    """List what could not be done.

    Refused events and failed work of the key's group, newest first, page by page, each with the reason.
    """
    rows = dead_letters.letters(context.connection, context.group_id, request)
    return page(rows, request.limit, lambda last: last.letter_id)


@action("dead_letters.get")
def get_letter(context: Context, request: ById) -> DeadLetter:
    """Get one dead letter.

    The refused event or the failed work, with the reason and, where there is one, the traceback.
    """
    letter = dead_letters.find(context.connection, context.group_id, request.id)
    if letter is None:
        raise NotFound(f"There is no dead letter {request.id} in the group {context.group_id!r}.")
    return letter


@action("dead_letters.resolve")
def resolve_letters(context: Context, request: ResolveBody) -> Resolved:
    """Replay or discard dead letters.

    Those named, or up to 1,000 open ones of a kind. Replayed work is enqueued again; replayed events are
    stored as if they came now, and those that are still wrong come back as new letters; with `body` one is
    replayed as it should have come. There is no way back from discarding.
    """
    connection, group_id, state = context.connection, context.group_id, STATES[request.action]
    closed = dead_letters.close(connection, group_id, request.letter_ids, request.kind, state)
    if not closed:
        if request.letter_ids:
            raise NotFound("letter_ids: none of these is an open dead letter of this group")
        return Resolved(resolved=0)
    if request.body is not None:
        closed = [_corrected(letter, request.body) for letter in closed]
    refused: list[str | None] = []
    if request.action == "replay":
        work = [letter for letter in closed if letter.kind != INTAKE]
        dead_letters.enqueue_again(connection, work)
        refused = replay_events(connection, group_id, [letter for letter in closed if letter.kind == INTAKE])
        wake_after(connection, *{letter.kind for letter in work})
    letters = sorted(letter.letter_id for letter in closed)
    details: dict[str, Any] = {"count": len(closed), "letters": letters, "refused_again": len(refused)}
    if request.body is not None:
        details["corrected"] = True
    context.audit("dead_letters", resolution=state, kind=request.kind, **details)
    context.after_commit(lambda: stream.resolved(group_id, len(closed), state))
    return Resolved(resolved=len(closed), refused_again=len(refused))


def _corrected(letter: ClosedLetter, body: str) -> ClosedLetter:
    if letter.kind != INTAKE:
        raise InvalidRequest([f"body: work of the kind {letter.kind} has no message; replay it without"])
    return replace(letter, body=body)


#: Gives a new letter to what is still refused: the old one, the event (or its body), the reason.
Refuse = Callable[[ClosedLetter, Event | str, str], None]


def replay_events(connection: Connection, group_id: str, closed: Sequence[ClosedLetter]) -> list[str | None]:
    """Store the events of closed letters; what is refused gets a new letter. Returns those letters' groups.

    Events of another group than ``group_id`` are refused: their signers have no part in the replay.
    """
    good: list[tuple[Event, ClosedLetter]] = []
    refused: list[str | None] = []

    def refuse(letter: ClosedLetter, refused_event: Event | str, reason: str) -> None:
        body = refused_event
        if not isinstance(body, str):
            body = event_bodies.encode([body]).decode()
        add_message(connection, body, reason, identity(body)[0], letter.group_id)
        refused.append(letter.group_id)

    limit = limits.MAX_MESSAGE_BYTES
    for letter in closed:
        body = (letter.body or "").encode()
        if len(body) > limit:
            refuse(letter, letter.body or "", f"a message of {len(body):,} bytes is larger than {limit:,}")
            continue
        decoded = event_bodies.decode(body)
        for text, reason in decoded.rejected:
            refuse(letter, text, reason)
        for event in decoded.events:
            reason = refusal(event)
            if not reason and event.group_id != group_id:
                reason = f"replayed for the group {group_id!r}, but of the group {event.group_id!r}"
            if reason:
                refuse(letter, event, reason)
            else:
                good.append((event, letter))
    _store_all(connection, good, refuse)
    after_commit(connection, inbox.announce, inbox.StoreResult(refused=refused))
    return refused


def _store_all(connection: Connection, good: Sequence[tuple[Event, ClosedLetter]], refuse: Refuse) -> None:
    outcome = inbox.StoreResult()
    try:
        outcome.add(_store(connection, [event for event, _ in good]))
    except (DataError, psycopg.DataError):  # one event must not stop the others
        for event, letter in good:
            try:
                outcome.add(_store(connection, [event]))
            except (DataError, psycopg.DataError) as error:
                refuse(letter, event, f"the database refused it: {error}")
    letters = {event.key: letter for event, letter in good}
    for misfit in outcome.misfits:
        refuse(letters[misfit.event.key], misfit.event, f"{dead_letters.VECTOR_FIELD}: {misfit.reason}")
    for event in outcome.reused:
        refuse(letters[event.key], event, dead_letters.reason_of(event))


def _store(connection: Connection, events: Sequence[Event]) -> inbox.StoreResult:
    """In a savepoint: what is refused leaves nothing of itself."""
    for attempt in range(1, MAX_COLLISIONS + 1):
        try:
            with connection.begin_nested():
                return inbox.store(connection, events)
        except inbox.CollisionError:
            if attempt == MAX_COLLISIONS:
                raise
    raise AssertionError
