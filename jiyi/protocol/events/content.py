"""What an event says: its stored form, and whether another one under the same id says the same.

The same: type, agent, session and payload. When it happened and its ``correlation_id`` do not count, because whoever sends again
without them has new ones; a vector and its model do not, because they are how the text is found, not what it says. Keywords are a
set: the original's code saves them in another order each time.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

from pydantic_core import from_json

from jiyi.protocol.events import AgentConfigured, Event, MemoryObserved

#: Of a payload: how it is embedded.
NOT_SAID = frozenset({"vector", "embedding_model"})
_VECTOR = {"vector"}
#: In the provenance of an exported event: the LLM's answers are among its fields (``models.memory.nodes``).
APPRAISED = "appraised"
DIGEST_BYTES = 16


#: What an event says, as plain values: type, agent_id, session_id, payload.
Content = dict[str, Any]


def payload_json(event: Event) -> bytes:
    """The payload as it is stored: what was given, without the vector."""
    payload = event.payload
    to_json = payload.__pydantic_serializer__.to_json  # what model_dump_json calls, before it makes a str of the bytes
    if isinstance(event, AgentConfigured):  # here None says "not set any more"
        return to_json(payload, exclude_unset=True)
    without = _VECTOR if isinstance(event, MemoryObserved) and event.payload.vector is not None else None
    return to_json(payload, exclude_none=True, exclude_defaults=True, exclude=without)


def content_of(event: Event) -> Content:
    """What it says, as plain values."""
    return content(event.type, event.agent_id, event.session_id, from_json(payload_json(event), cache_strings="keys"))


def content(type_: str, agent_id: str, session_id: str | None, payload: Mapping[str, Any]) -> Content:
    """The same of a stored event."""
    content = {name: value for name, value in payload.items() if name not in NOT_SAID}
    if "keywords" in content:
        content["keywords"] = sorted(content["keywords"])
    return {"type": type_, "agent_id": agent_id, "session_id": session_id, "payload": content}


def is_export(event: Event) -> bool:
    """Whether it comes from an export that put an LLM's answers among what the event said."""
    return isinstance(event, MemoryObserved) and APPRAISED in event.payload.provenance


def digests_of(events: Iterable[Event]) -> dict[UUID, str]:
    """Digests of the events whose ids their senders chose: another event may have such an id. Exports are not known by theirs."""
    return {event.event_id: digest(content_of(event)) for event in events if "event_id" in event.model_fields_set and not is_export(event)}


def digest(said: Content) -> str:
    """A content in 32 hexadecimal characters, the same wherever it was stored in between."""
    text = json.dumps(_canonical(said), ensure_ascii=False, sort_keys=True, separators=(",", ":"))
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
