"""Reading events from JSON lines: the full form, or the short one with :meth:`jiyi.Client.observe`'s fields."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid5

from pydantic import BaseModel, ConfigDict

from jiyi.client.observations import full_form
from jiyi.errors import InvalidEvent
from jiyi.protocol import event_bodies
from jiyi.protocol import events as wire
from jiyi.protocol.base import JsonMapping, JsonObject
from jiyi.protocol.conversations import parse_uri, uri_of
from jiyi.protocol.events import Event
from jiyi.settings import get_settings

#: Problems that are told one by one; of the others only the number.
MAX_SHOWN = 20
NAMESPACE = UUID("9d0f4c52-0c5e-5b0e-8a53-4a6f7c1b2e90")


class Target(BaseModel):
    """Where the events of a file go. ``group`` None: each to the group it names, else ``default_group``."""

    model_config = ConfigDict(frozen=True)

    default_group: str
    keep_group: bool = False
    agent: str | None = None
    keep_ids: bool = False

    def place(self, event: JsonMapping) -> JsonObject:
        """The event, put in the target's group (and agent), under an id of its own there if it moved.

        Ids are unique in the whole service, and a known one changes nothing: a copy needs its own. It follows from
        the old one, so that importing the same file again changes nothing either.
        """
        group = event.get("group_id", self.default_group) if self.keep_group else self.default_group
        agent = self.agent if self.agent is not None else event.get("agent_id")
        moved = event.get("group_id", group) != group or event.get("agent_id", agent) != agent
        placed = {**event, "group_id": group, "agent_id": agent}
        if agent is None:
            del placed["agent_id"]
        elif isinstance(payload := event.get("payload"), dict) and "uri" in payload:
            placed["payload"] = {**payload, "uri": address_of(str(agent), payload["uri"])}
        return _renamed(placed, f"{group}\n{agent}") if moved and not self.keep_ids else placed


def address_of(agent: str, uri: Any) -> Any:
    """The same address, of this agent; what is no address stays as it is, to be refused by its own name."""
    try:
        _, kind, path = parse_uri(uri)
    except (ValueError, AttributeError, TypeError):
        return uri
    return uri_of(agent, kind, *path)


@dataclass(slots=True)
class Lines:
    """The events of a file, and what is wrong with the lines that are none."""

    events: list[Event] = field(default_factory=list)
    total: int = 0
    bad: int = 0
    #: A sentence with its line's number for each of the first problems.
    problems: list[str] = field(default_factory=list)


def read(rows: Iterable[bytes], target: Target) -> Lines:
    """Every line of a file, checked. Blank lines are skipped; nothing raises."""
    lines = Lines()
    for number, row in enumerate(rows, start=1):
        text = row.removeprefix(b"\xef\xbb\xbf").strip()
        if not text:
            continue
        lines.total += 1
        try:
            lines.events.append(event_of(text, target))
        except InvalidEvent as error:
            lines.bad += 1
            room = MAX_SHOWN - len(lines.problems)
            lines.problems += [f"line {number}: {problem}" for problem in error.problems[:room]]
    return lines


def event_of(text: bytes, target: Target) -> Event:
    """The event of one line. Raises :class:`InvalidEvent` with a sentence per wrong field."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidEvent([f"not JSON: {error}"]) from None
    if not isinstance(content, dict):
        raise InvalidEvent(["must be a JSON object"])
    short = "payload" not in content
    try:
        event = wire.build(target.place(full_form(content) if short else content))
    except InvalidEvent as error:
        raise InvalidEvent([problem.removeprefix("payload.") if short else problem for problem in error.problems]) from None
    size, limit = len(event_bodies.encode([event])), get_settings().max_message_bytes
    if size > limit:
        raise InvalidEvent([f"payload: the event has {size:,} bytes, more than {limit:,} (JIYI_MAX_MESSAGE_BYTES)"])
    return event


def _renamed(event: JsonMapping, place: str) -> JsonObject:
    renamed = dict(event)
    if "event_id" in event:
        renamed["event_id"] = _new_id(event["event_id"], place)
    payload = event.get("payload")
    if isinstance(payload, dict) and isinstance(payload.get("evidence"), list):
        renamed["payload"] = {**payload, "evidence": [_new_id(old, place) for old in payload["evidence"]]}
    return renamed


def _new_id(old: Any, place: str) -> Any:
    """The id of an event's copy in another place. A UUIDv7 keeps its time, and with it its place in the order."""
    try:
        before = UUID(old)
    except (ValueError, TypeError, AttributeError):
        return old  # wrong, and will be told so
    copy = uuid5(NAMESPACE, f"{place}\n{before}")
    return str(UUID(int=before.int >> 64 << 64 | copy.int & (1 << 64) - 1)) if before.version == 7 else str(copy)
