"""Replaying refused events: they are decoded and stored again, as if they came now, in the transaction that closes their letters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import psycopg
from sqlalchemy import Connection
from sqlalchemy.exc import DataError

from jiyi.protocol import events as wire
from jiyi.protocol.events import Event
from jiyi.settings import get_settings
from models.memory import inbox, own_vectors
from models.memory.ingest import MAX_COLLISIONS, identity
from models.queue import reused_ids
from models.queue.dead_letters import ClosedLetter, add_message

#: Gives a new letter to what is still refused: the old one, the event's body, the reason.
Refuse = Callable[[ClosedLetter, str, str], None]


@dataclass(frozen=True, slots=True)
class _Event:
    event: Event
    letter: ClosedLetter


def replay_events(connection: Connection, group_id: str, closed: Sequence[ClosedLetter]) -> inbox.Stored:
    """Store the events of closed letters. What is still refused gets a new letter; ``refused`` of the result tells of which groups.

    Events of another group than ``group_id``, for which they are replayed, are refused: who signed them has no part in it.
    """
    good: list[_Event] = []
    refused: list[str | None] = []

    def refuse(letter: ClosedLetter, body: str, reason: str) -> None:
        add_message(connection, body, reason, identity(body)[0], letter.group_id)
        refused.append(letter.group_id)

    limit = get_settings().max_message_bytes
    for letter in closed:
        body = (letter.body or "").encode()
        if len(body) > limit:
            refuse(letter, letter.body or "", f"a message of {len(body):,} bytes is larger than {limit:,} (JIYI_MAX_MESSAGE_BYTES)")
            continue
        decoded = wire.decode(body)
        for text, reason in decoded.rejected:
            refuse(letter, text, reason)
        for event in decoded.events:
            if event.group_id == group_id:
                good.append(_Event(event, letter))
            else:
                refuse(letter, wire.encode([event]).decode(), f"replayed for the group {group_id!r}, but of the group {event.group_id!r}")
    done = _store_all(connection, good, refuse)
    done.refused += refused
    return done


def _store_all(connection: Connection, good: Sequence[_Event], refuse: Refuse) -> inbox.Stored:
    done = inbox.Stored()
    try:
        done.add(_store(connection, [one.event for one in good]))
    except (DataError, psycopg.DataError):  # one event must not stop the others
        for one in good:
            try:
                done.add(_store(connection, [one.event]))
            except (DataError, psycopg.DataError) as error:
                refuse(one.letter, wire.encode([one.event]).decode(), f"the database refused it: {error}")
    letters = {one.event.key: one.letter for one in good}
    for misfit in done.misfits:
        event = misfit.event
        refuse(letters[event.key], wire.encode([event]).decode(), f"{own_vectors.FIELD}: {misfit.reason}")
    for event in done.reused:
        refuse(letters[event.key], wire.encode([event]).decode(), reused_ids.reason_of(event))
    return done


def _store(connection: Connection, events: Sequence[Event]) -> inbox.Stored:
    """In a savepoint: what is refused leaves nothing of itself."""
    for attempt in range(1, MAX_COLLISIONS + 1):
        try:
            with connection.begin_nested():
                return inbox.store(connection, events)
        except inbox.CollisionError:
            if attempt == MAX_COLLISIONS:
                raise
    raise AssertionError
