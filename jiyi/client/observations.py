"""From a client's arguments to checked events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from jiyi.errors import InvalidEvent
from jiyi.protocol import events as wire
from jiyi.protocol.events import Event

ENVELOPE_FIELDS = wire.MemoryObserved.model_fields.keys() - {"payload"}


def observation(group: str, fields: dict[str, Any]) -> Event:
    """A ``memory.observed`` event of flat arguments, or whatever event a dict with a ``payload`` is.

    Raises:
        InvalidEvent: with a sentence per wrong field.
    """
    if "payload" in fields:
        return wire.build({"group_id": group, **fields})
    return wire.build({"group_id": group, **full_form(fields)})


def full_form(fields: dict[str, Any]) -> dict[str, Any]:
    """A ``memory.observed`` event from its short form, in which the payload's fields stand beside the envelope's."""
    unknown = fields.keys() - ENVELOPE_FIELDS - wire.Observation.model_fields.keys()
    if unknown:
        raise InvalidEvent([f"{name}: no such field" for name in sorted(unknown)])
    envelope, payload = split(fields)
    return {"type": "memory.observed", **envelope, "payload": payload}


def many(group: str, observations: Iterable[dict[str, Any] | Event]) -> Iterator[Event]:
    """Events of observations. Raises as :func:`observation` does; the field names begin with the position."""
    for position, one in enumerate(observations):
        if isinstance(one, wire.Event):
            yield one
            continue
        if not isinstance(one, dict):
            raise InvalidEvent([f"{position}: must be a dict or an event, not {type(one).__name__}"])
        try:
            yield observation(group, one)
        except InvalidEvent as error:
            raise InvalidEvent([f"{position}.{problem}" for problem in error.problems]) from None


def split(fields: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Fields of the envelope, and the others."""
    envelope = {name: value for name, value in fields.items() if name in ENVELOPE_FIELDS}
    return envelope, {name: value for name, value in fields.items() if name not in envelope}
