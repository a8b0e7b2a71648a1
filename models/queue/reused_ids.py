"""An event whose id its group knows: the same once more, which changes nothing, or another one, which is refused.

Looked at only for events that come again, so that new ones cost nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from sqlalchemy import Connection, text

from engine.conversations.memories import memory_of
from jiyi.errors import IdReused
from jiyi.protocol import event_bodies
from jiyi.protocol.event_bodies import Content, content, content_of, digest, is_export
from jiyi.protocol.events import Event, EventKey, MemoryObserved, NodeExecuted, TurnRecorded
from models.queue import dead_letters
from models.queue.dead_letters import ID_REUSED

#: Hexadecimal characters of a content that tell several refused ones of an id apart.
TOLD_CHARS = 8


class ReusedIds(IdReused):
    """``events`` have ids that belong to others."""

    def __init__(self, events: Sequence[Event]) -> None:
        self.events = list(events)
        super().__init__([f"event_id: {reason_of(event)}" for event in events])


def find(connection: Connection, again: Sequence[Event], first: Mapping[EventKey, Event]) -> list[Event]:
    """Those of the events ``again`` that say something else than what is stored under their ids, or else ``first`` in their batch."""
    if not again:
        return []
    stored = _stored(connection, again)

    def known(event: Event) -> Content | _Remains | None:
        return stored[event.key] if event.key in stored else content_of(first[event.key])

    return [event for event in again if not _same(event, known(event))]


def reason_of(event: Event) -> str:
    """Why it is refused. Begins with the name of the reason, by which ``event_states`` knows it."""
    told = digest(content_of(event))[:TOLD_CHARS]
    return f"{ID_REUSED} {event.event_id} is another event's id, which says something else; give this one ({told}) an id of its own"


def dead_letter(connection: Connection, events: Iterable[Event]) -> list[str]:
    """Keep them as dead letters, each content once while its letter is open; the groups of the new letters."""
    return [
        event.group_id
        for event in events
        if dead_letters.add_message_once(
            connection, event_bodies.encode([event]).decode(), reason_of(event), event.event_id, event.group_id
        )
    ]


class _Remains(NamedTuple):
    """What a memory, or an output, keeps of its event when the record of that was pruned."""

    agent_id: str
    session_id: str | None
    text: str | None


def _same(event: Event, known: Content | _Remains | None) -> bool:
    if known is None:  # erased: nobody can tell
        return True
    if isinstance(known, _Remains):
        return _remains(event) == known
    own, other = content_of(event), known
    if is_export(event):  # it may bring what an LLM has answered since
        told = other["payload"].keys() - {"provenance"}
        own, other = ({**one, "payload": {name: one["payload"].get(name) for name in told}} for one in (own, other))
    return digest(own) == digest(other)


def _remains(event: Event) -> _Remains:
    said = event.payload.description if isinstance(event, MemoryObserved) else None
    said = event.payload.output if isinstance(event, NodeExecuted) else said
    said = memory_of(event).payload.description if isinstance(event, TurnRecorded) else said
    return _Remains(event.agent_id, event.session_id, said)


def _stored(connection: Connection, events: Iterable[Event]) -> dict[EventKey, Content | _Remains | None]:
    """What is stored under the events' ids: the content, or what is left of it; None where it was erased."""
    contents: dict[EventKey, Content | _Remains | None] = {}
    ids = list({event.event_id for event in events})
    for row in connection.execute(_EVENTS, {"ids": ids}):
        said = None if row.outcome == "erased" else content(row.type, row.agent_id, row.session_id, row.payload)
        contents[row.event_id, row.group_id] = said
    pruned = [event.event_id for event in events if event.key not in contents]
    for row in connection.execute(_REMAINS, {"ids": pruned}) if pruned else ():
        contents[row.id, row.group_id] = _Remains(row.agent_id, row.session_id, row.text)
    return contents


# Of the groups of the scope.
_EVENTS = text("SELECT event_id, group_id, type, agent_id, session_id, outcome, payload FROM events WHERE event_id = ANY(:ids)")
_REMAINS = text("""
    SELECT node_id AS id, group_id, agent_id, session_id, description AS text FROM memory_nodes WHERE node_id = ANY(:ids)
    UNION ALL SELECT entry_id, group_id, agent_id, session_id, content FROM quarantine_logs WHERE entry_id = ANY(:ids)
""")
