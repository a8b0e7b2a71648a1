"""Messages, which are events as bytes; and an event's stored form, with a digest of what it says.

One event is a JSON object, several are ``{"events": […]}``. Unknown fields are ignored: a newer client may
talk to an older service. Two events say the same if type, agent, session and payload are equal; time and
``correlation_id`` (new when sent again), vector and the order of keywords do not count.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, NamedTuple
from uuid import UUID

from pydantic import Field, TypeAdapter, ValidationError
from pydantic_core import from_json, to_json

from jiyi.chat.secrets import masked
from jiyi.errors import InvalidEvent
from jiyi.protocol import limits
from jiyi.protocol.base import NUL_ESCAPE
from jiyi.protocol.events import KEEPS_NO_VALUES, ONE, AgentConfigured, Event, MemoryObserved, build
from jiyi.protocol.wire.bounds import MESSAGE, TooMuchError, most_names
from jiyi.protocol.wire.json_checks import (
    Repeating,
    gives_each_once,
    keys_in,
    load,
    repeated_in,
    repeated_key,
    sentence,
)

#: What stands around the events of one message.
MANY_OPEN, MANY_CLOSE = b'{"events":[', b"]}"
FRAME_BYTES = len(MANY_OPEN) + len(MANY_CLOSE)

_MANY: TypeAdapter[list[Event]] = TypeAdapter(
    Annotated[list[Annotated[Event, Field(discriminator="type")]], Field(fail_fast=True)],
    config=KEEPS_NO_VALUES,
)


def encode(events: Sequence[Event]) -> bytes:
    """The body of one message."""
    return _framed([_encode_one(event) for event in events])


def messages(events: Iterable[Event]) -> Iterator[tuple[list[Event], bytes]]:
    """The events in as few messages as the limits allow, in order, each with its body. Raises InvalidEvent
    for one larger than a message may be.
    """
    batch: list[Event] = []
    bodies: list[bytes] = []
    size, names = FRAME_BYTES, 0
    for event in events:
        body = _encode_one(event)
        if len(body) + FRAME_BYTES > limits.MAX_MESSAGE_BYTES:
            raise InvalidEvent(
                [f"{len(body):,} bytes are more than a message may have, {limits.MAX_MESSAGE_BYTES:,}"]
            )
        many = most_names(body)
        full = (
            len(batch) == limits.MAX_EVENTS_PER_MESSAGE
            or size + len(body) > limits.MAX_MESSAGE_BYTES
            or names + many > limits.MAX_VALUES
        )
        if batch and full:
            yield batch, _framed(bodies)
            batch, bodies, size, names = [], [], FRAME_BYTES, 0
        batch.append(event)
        bodies.append(body)
        size += len(body) + 1
        names += many
    if batch:
        yield batch, _framed(bodies)


def _encode_one(event: Event) -> bytes:
    if isinstance(event, AgentConfigured):  # here None says "not set any more", and has to arrive
        envelope = event.model_dump(mode="json", exclude_none=True, exclude={"payload"})
        return to_json({**envelope, "payload": event.payload.model_dump(mode="json", exclude_unset=True)})
    return ONE.dump_json(event, exclude_none=True)


def _framed(bodies: Sequence[bytes]) -> bytes:
    return bodies[0] if len(bodies) == 1 else MANY_OPEN + b",".join(bodies) + MANY_CLOSE


class DecodedMessage(NamedTuple):
    """What a message held: the good events, and for each bad one its JSON text and the reason."""

    events: list[Event]
    rejected: list[tuple[str, str]]


def excess_of(body: bytes) -> str:
    """What a message body has too much of to be parsed, as a sentence; empty if nothing."""
    try:
        MESSAGE.check(body)
    except TooMuchError as error:
        deep = f"not JSON that is read: {error}"
        return deep if error.deep else f"has {error}: send its events in several messages"
    return ""


def decode(body: bytes) -> DecodedMessage:
    """The events of a message body. Never raises: what cannot be read is in ``rejected``."""
    if excess := excess_of(body):
        return DecodedMessage([], [(_text(body), excess)])
    return decode_checked(body)


def decode_checked(body: bytes) -> DecodedMessage:
    """The same of a body of which :func:`excess_of` has found nothing too much."""
    if NUL_ESCAPE in body:
        return _decode_one_by_one(body)
    many = body.startswith(MANY_OPEN) and body.endswith(MANY_CLOSE)
    try:
        events = (
            _MANY.validate_json(body[len(MANY_OPEN) - 1 : 1 - len(MANY_CLOSE)])
            if many
            else [ONE.validate_json(body)]
        )
    except ValidationError:
        return _decode_one_by_one(body)
    if len(events) > limits.MAX_EVENTS_PER_MESSAGE or not all(map(_has_identity, events)):
        return _decode_one_by_one(body)
    if not gives_each_once(body, sum(map(_keys_of, events)) + many) and repeated_key(body) is not None:
        return _decode_one_by_one(body)
    return DecodedMessage(events, [])


def _keys_of(event: Event) -> int:
    """The keys that it was given with; 0 if it is of another kind, or may have more than we know."""
    if not isinstance(event, MemoryObserved):
        return 0
    provenance = event.payload.provenance
    return (
        len(event.model_fields_set)
        + len(event.payload.model_fields_set)
        + (keys_in(provenance) if provenance else 0)
    )


def _has_identity(event: Event) -> bool:
    """Without an id of its own a second delivery could not be distinguished from a second event."""
    return "event_id" in event.model_fields_set


def _text(body: bytes) -> str:
    """A body as PostgreSQL can hold it."""
    return body.decode("utf-8", errors="replace").replace("\x00", "\N{REPLACEMENT CHARACTER}")


def _decode_one_by_one(body: bytes) -> DecodedMessage:
    """The slow way, for a message with something wrong: one bad event must not take the others along."""
    text = _text(body)
    try:
        message = load(body)
    except (ValueError, RecursionError) as error:
        return DecodedMessage([], [(text, f"not JSON: {error}")])
    if isinstance(message, Repeating):
        return DecodedMessage([], [(text, sentence(message.repeated))])
    items = message.get("events") if isinstance(message, dict) and "events" in message else [message]
    if not isinstance(items, list):
        return DecodedMessage([], [(text, "events: must be a list of events")])
    limit = limits.MAX_EVENTS_PER_MESSAGE
    if len(items) > limit:
        return DecodedMessage([], [(text, f"events: {len(items):,} are more than {limit:,} in one message")])
    decoded = DecodedMessage([], [])
    for item in items:
        if (repeated := repeated_in(item)) is not None:
            decoded.rejected.append(
                (text if len(items) == 1 else json.dumps(item, ensure_ascii=True), sentence(repeated))
            )
            continue
        try:
            event = build(item)
        except InvalidEvent as error:
            decoded.rejected.append((json.dumps(item, ensure_ascii=True), str(error)))
            continue
        if _has_identity(event):
            decoded.events.append(event)
        else:
            reason = "event_id: required, but missing: without it a second delivery would be a second event"
            decoded.rejected.append((json.dumps(item, ensure_ascii=True), reason))
    return decoded


#: Of a payload: how it is embedded, and where it comes from.
NOT_SAID = frozenset({"vector", "embedding_model", "origin", "trust"})
_VECTOR = {"vector"}
#: In the provenance of an exported event: the LLM's answers are among its fields (``models.memory.nodes``).
APPRAISED = "appraised"
DIGEST_BYTES = 16


#: What an event says, as plain values: type, agent_id, session_id, payload.
Content = dict[str, Any]


def payload_json(event: Event) -> bytes:
    """The payload as stored: what was given, without the vector."""
    payload = event.payload
    to_json = (
        payload.__pydantic_serializer__.to_json
    )  # what model_dump_json calls, before it makes a str of the bytes
    if isinstance(event, AgentConfigured):  # here None says "not set any more"
        return to_json(payload, exclude_unset=True)
    without = _VECTOR if isinstance(event, MemoryObserved) and event.payload.vector is not None else None
    return to_json(payload, exclude_none=True, exclude_defaults=True, exclude=without)


def content_of(event: Event) -> Content:
    """What it says, as plain values."""
    return content(
        event.type, event.agent_id, event.session_id, from_json(payload_json(event), cache_strings="keys")
    )


def content(type_: str, agent_id: str, session_id: str | None, payload: Mapping[str, Any]) -> Content:
    """The same of a stored event. Secrets count as masked: earlier versions stored some as they were."""
    content = {
        name: masked(value) if isinstance(value, str) else value
        for name, value in payload.items()
        if name not in NOT_SAID
    }
    if "keywords" in content:
        content["keywords"] = sorted(map(masked, content["keywords"]))
    return {"type": type_, "agent_id": agent_id, "session_id": session_id, "payload": content}


def is_export(event: Event) -> bool:
    """Whether it comes from an export that put an LLM's answers among what the event said."""
    return isinstance(event, MemoryObserved) and APPRAISED in event.payload.provenance


def digests_of(events: Iterable[Event]) -> dict[UUID, str]:
    """Digests of the events whose ids their senders chose. Exports are not known by theirs."""
    return {
        event.event_id: digest(content_of(event))
        for event in events
        if "event_id" in event.model_fields_set and not is_export(event)
    }


def digest(content: Content) -> str:
    """A content in 32 hexadecimal characters, the same wherever it was stored in between."""
    text = json.dumps(_canonical(content), ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(text.encode(), digest_size=DIGEST_BYTES).hexdigest()


def _canonical(value: Any) -> Any:
    """Numbers in one form: PostgreSQL gives back 1e22 as a whole number."""
    if isinstance(value, dict):
        return {name: _canonical(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_canonical(item) for item in value]
    if isinstance(value, int) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            return value
    return value
