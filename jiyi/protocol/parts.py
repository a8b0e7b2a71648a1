"""Long texts in parts: an event whose text is longer than a memory may be becomes several.

The first has the event's id, from which the others' follow. ``provenance.part`` says which it is:
``{"number": 2, "of": 3, "whole": "<id of the first>"}``; the same id is the ``correlation_id`` of all, unless
the event has its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID, uuid5

from uuid6 import uuid7

from jiyi.chat.secrets import masked
from jiyi.errors import InvalidEvent
from jiyi.protocol import limits
from jiyi.protocol.base import JsonMapping, JsonObject
from jiyi.text.splitting import split

#: Types whose text may be split, with its field.
TEXTS: Mapping[str, str] = {"memory.observed": "description", "turn.recorded": "text"}
#: What is said of a whole text, and of no part of it.
OF_THE_WHOLE = ("embedding_key", "retention", "abstract", "overview")
NAMESPACE = UUID("c2b3a3f4-6c07-5a5d-8a0e-2f9f3a1b7d60")


def parts_of(event: JsonMapping) -> list[JsonObject]:
    """The event, or the parts of it if its text is too long: of paragraphs where it can be, else of
    sentences, in either language.

    Secrets are masked before: one that lies across two parts would be known in neither.

    Args:
        event: plain data in the full form; what is wrong with it is left to be refused by its name.

    Raises:
        InvalidEvent: it has a vector, which is of the whole text.
    """
    payload = event.get("payload")
    field = TEXTS.get(str(event.get("type")), "")
    text = payload.get(field) if isinstance(payload, dict) else None
    if (
        not isinstance(payload, dict)
        or not isinstance(text, str)
        or len(text) <= limits.MAX_DESCRIPTION_CHARS
    ):
        return [dict(event)]
    if payload.get("vector") is not None:
        raise InvalidEvent(["payload.vector: is of the whole text, which is to be split; leave it out"])
    whole = str(event.get("event_id") or uuid7())
    pieces = split(masked(text), limits.MAX_DESCRIPTION_CHARS, 0)
    shared = {name: value for name, value in payload.items() if name not in OF_THE_WHOLE}
    provenance = payload.get("provenance") or {}
    return [
        {
            **event,
            "event_id": whole if number == 1 else part_id(whole, number),
            "correlation_id": event.get("correlation_id") or whole,
            "payload": {
                **shared,
                field: piece.text,
                "provenance": {**provenance, "part": {"number": number, "of": len(pieces), "whole": whole}}
                if isinstance(provenance, dict)
                else provenance,
            },
        }
        for number, piece in enumerate(pieces, start=1)
    ]


def part_id(whole: str, number: int) -> str:
    """The id of a part after the first; with a UUIDv7's time, and so its place in the order."""
    try:
        first = UUID(whole)
    except ValueError:
        return whole  # invalid: validation will report it
    return str(following(first, uuid5(NAMESPACE, f"{first}\n{number}")))


def following(first: UUID, own: UUID) -> UUID:
    """An id of its own; with the time, and so in the order, of a UUIDv7 that it follows from."""
    return UUID(int=first.int >> 64 << 64 | own.int & (1 << 64) - 1) if first.version == 7 else own
