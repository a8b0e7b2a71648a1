"""From a client's arguments to checked events."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any

from pydantic import BaseModel

from jiyi.errors import InvalidEvent, unknown_option
from jiyi.protocol import events as wire
from jiyi.protocol.base import JsonMapping, JsonObject
from jiyi.protocol.events import Event

#: What many call poignancy.
IMPORTANCE = "importance"
#: Type → names of its payload's fields. What travels may have others, of a newer version; what is made here may not.
PAYLOADS = {
    cls.model_fields["type"].default: {*payload.model_fields, IMPORTANCE}
    for cls in wire.EVENT_CLASSES
    if isinstance(payload := cls.model_fields["payload"].annotation, type) and issubclass(payload, BaseModel)
}
ENVELOPE_FIELDS = wire.MemoryObserved.model_fields.keys() - {"payload"}


def observation(group: str, fields: JsonMapping) -> Event:
    """A ``memory.observed`` event of flat arguments, or whatever event a dict with a ``payload`` is.

    Raises:
        InvalidEvent: with a sentence per wrong field.
    """
    if "payload" in fields:
        known = PAYLOADS.get(str(fields.get("type")))
        if known is not None and isinstance(fields["payload"], dict):
            _refuse_unknown(fields["payload"], known)
        return wire.build({"group_id": group, **fields})
    return wire.build({"group_id": group, **full_form(fields)})


def full_form(fields: JsonMapping) -> JsonObject:
    """A ``memory.observed`` event from its short form, in which the payload's fields stand beside the envelope's."""
    _refuse_unknown(fields, ENVELOPE_FIELDS | wire.Observation.model_fields.keys() | {IMPORTANCE})
    envelope, payload = split(fields)
    if IMPORTANCE in payload:
        if payload.get("poignancy") is not None:
            raise InvalidEvent([f"{IMPORTANCE}: another name of poignancy; give one of them"])
        payload["poignancy"] = payload.pop(IMPORTANCE)
    return {"type": "memory.observed", **envelope, "payload": payload}


def turn(
    group: str, agent_id: str, role: str, text: str, session_id: str, *, name: str | None, provenance: JsonMapping | None, **fields: Any
) -> Event:
    """A ``turn.recorded`` event; secrets in its text are masked. Raises as :func:`observation` does."""
    from jiyi.chat.secrets import masked  # here: it takes its time to load

    _refuse_unknown(fields, ENVELOPE_FIELDS)
    said = {"role": role, "text": masked(text) if isinstance(text, str) else text, "name": name, "provenance": provenance or {}}
    envelope = {"group_id": group, "agent_id": agent_id, "session_id": session_id, **fields}
    return wire.build({"type": "turn.recorded", **envelope, "payload": said})


def configuration(group: str, agent_id: str, settings: JsonMapping) -> Event:
    """An ``agent.configured`` event. Raises as :func:`observation` does."""
    _refuse_unknown(settings, wire.Configuration.model_fields.keys())
    return wire.build({"type": "agent.configured", "group_id": group, "agent_id": agent_id, "payload": settings})


def ending(group: str, agent_id: str, fields: JsonMapping) -> Event:
    """A ``session.ended`` event. Raises as :func:`observation` does."""
    _refuse_unknown(fields, ENVELOPE_FIELDS | wire.Ending.model_fields.keys())
    envelope, payload = split(fields)
    return wire.build({"type": "session.ended", "group_id": group, "agent_id": agent_id, **envelope, "payload": payload})


def many(group: str, observations: Iterable[JsonMapping | Event]) -> Iterator[Event]:
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


def _refuse_unknown(fields: Iterable[str], known: Collection[str]) -> None:
    """A name that the event does not have would otherwise be left out in silence."""
    unknown = sorted(set(fields) - set(known))
    if unknown:
        raise InvalidEvent([unknown_option(name, known) for name in unknown])


def split(fields: JsonMapping) -> tuple[JsonObject, JsonObject]:
    """Fields of the envelope, and the others."""
    envelope = {name: value for name, value in fields.items() if name in ENVELOPE_FIELDS}
    return envelope, {name: value for name, value in fields.items() if name not in envelope}
