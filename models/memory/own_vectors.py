"""Vectors that come with events: one of another size than its model's is refused before it is stored.

A model's size is what the service has recorded for it (``embedding_models``), or what is known of the embedder that the settings
name. It never comes from an event. Of a model that only callers use nothing is known, and vectors of any size are stored: whoever
asks by such a model brings a vector, and is answered from those of the same size.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from jiyi.errors import InvalidEvent
from jiyi.protocol import event_bodies
from jiyi.protocol.events import Event, MemoryObserved
from jiyi.protocol.wire.vectors import BYTES_PER_VALUE
from models.operations import embedding_models
from models.queue import dead_letters

#: Where an event has its vector.
FIELD = "payload.vector"


@dataclass(frozen=True, slots=True)
class Misfit:
    """An event whose vector cannot be one of its model's, and why, as a sentence."""

    event: Event
    reason: str


class MisfitVectors(InvalidEvent):
    """``misfits`` were not stored, nor was what came with them."""

    def __init__(self, misfits: Sequence[Misfit]) -> None:
        self.misfits = list(misfits)
        super().__init__([f"{FIELD}: {misfit.reason}" for misfit in misfits])


def find(connection: Connection, events: Iterable[Event]) -> list[Misfit]:
    """Those of the events whose vectors have another size than their models'."""
    given = [event for event in events if type(event) is MemoryObserved and event.payload.vector is not None]
    if not given:
        return []
    sizes = embedding_models.known_sizes(connection)
    return [Misfit(event, reason) for event in given if (reason := _problem(event, sizes)) is not None]


def dead_letter(connection: Connection, misfits: Iterable[Misfit]) -> list[str]:
    """Keep them as dead letters, each once while its letter is open; the groups of the new letters."""
    return [
        event.group_id
        for event, reason in ((misfit.event, f"{FIELD}: {misfit.reason}") for misfit in misfits)
        if dead_letters.add_message_once(connection, event_bodies.encode([event]).decode(), reason, event.event_id, event.group_id)
    ]


def _problem(event: MemoryObserved, sizes: Mapping[str, int]) -> str | None:
    vector, model = event.payload.vector, event.payload.embedding_model
    assert vector is not None
    assert model is not None, "they come together"
    size, expected = len(vector) // BYTES_PER_VALUE, sizes.get(model)
    if expected in (None, size):
        return None
    return (
        f"{size:,} values, but vectors of {model} have {expected:,}: send one of {expected:,} values, name the model that made it, or "
        "leave out vector and embedding_model, and the service embeds the text"
    )
