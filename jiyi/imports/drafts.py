"""Drafts of events that a parser gives, what it leaves out and why, and the event that a draft becomes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Literal, get_args
from uuid import UUID, uuid5

from jiyi.chat.recording import ROLES
from jiyi.errors import InvalidEvent
from jiyi.protocol import events as wire
from jiyi.protocol import limits
from jiyi.protocol.base import JsonObject, Role, composed
from jiyi.protocol.events import Event
from jiyi.protocol.origins import Claimed
from jiyi.protocol.parts import parts_of
from jiyi.text.words import storable

#: Why something is not imported.
Reason = Literal[
    "empty",
    "too long",
    "unknown role",
    "bad time",
    "no text",
    "other branch",
    "earlier branch",
    "malformed",
    "changed since",
    "erased",
]
NAMESPACE = UUID("5f0d3c7e-2b8e-5a41-9a6c-7f1f0b9c4d55")
#: Seconds since 1970 beyond which a number means milliseconds.
MILLISECONDS = 100_000_000_000
MAX_ID_CHARS = 500


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Something that is not imported: where it stands in the source, and why."""

    where: str
    reason: Reason
    detail: str = ""
    #: What it would have been; it may have been imported before, when its branch was shown.
    draft: Draft | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A memory, or with a role a turn of a conversation, as the source has it."""

    #: What its event's id follows from: the source's own ids.
    key: tuple[str, ...]
    text: str
    #: None: the source does not say.
    at: datetime | None = None
    role: Role | None = None
    agent: str | None = None
    user: str | None = None
    session: str | None = None
    #: Of a turn: where it comes from, if not from the file as all others do.
    origin: Claimed | None = None
    #: The text to be found by, if not the text itself.
    found_by: str | None = None
    expires_at: datetime | None = None
    provenance: JsonObject = field(default_factory=dict)


Drafts = Iterator[Draft | LeftOut]


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportTarget:
    """Where a source's drafts go.

    ``agent`` and ``user`` stand for all that the source says; ``default_agent`` is for what it does not say.
    ``now`` is the time of what has none. Each agent and each user has memories of their own: the same file
    can be imported for several.
    """

    source: str
    group: str
    now: datetime
    agent: str | None = None
    user: str | None = None
    default_agent: str = "assistant"
    split: bool = True

    def ids_without_user(self, draft: Draft) -> list[UUID]:
        """Ids that the draft's events have in an import without ``user``; none if that is the same user's."""
        if self.user is None or self.user == draft.user:
            return []
        built = replace(self, user=None).events(draft)
        return [] if isinstance(built, LeftOut) else [event.event_id for event in built]

    def events(self, draft: Draft) -> list[Event] | LeftOut:
        """The draft's event, or several if its text is long; else why there is none."""
        where = " ".join(draft.key)[:MAX_ID_CHARS]
        if not draft.text.strip():
            return LeftOut(where, "empty")
        if (size := len(draft.text)) > (most := limits.MAX_DESCRIPTION_CHARS) and not self.split:
            return LeftOut(where, "too long", f"{size:,} characters are more than {most:,}")
        agent, user = self.agent or draft.agent or self.default_agent, self.user or draft.user
        ids = "\n".join((self.source, agent, composed(user or ""), *draft.key))
        known_by = ids.encode(errors="backslashreplace").decode()
        provenance = {"source": self.source, "id": draft.key[-1][:MAX_ID_CHARS], **draft.provenance}
        event: JsonObject = {
            "event_id": str(uuid5(NAMESPACE, known_by)),
            "occurred_at": draft.at or self.now,
            "group_id": self.group,
            "agent_id": agent,
            "session_id": draft.session,
        }
        payload: JsonObject = {"user_id": user, "provenance": provenance}
        if draft.role is None:
            event["type"] = "memory.observed"
            payload |= {
                "description": draft.text,
                "origin": "import",
                "historic": True,
                "expires_at": draft.expires_at,
            }
            if draft.found_by and len(draft.found_by) <= limits.MAX_DESCRIPTION_CHARS:
                payload["embedding_key"] = draft.found_by
        else:
            event["type"] = "turn.recorded"
            # What a file says was said counts as little as the file; an assistant's and a tool's words count
            # less by themselves.
            payload |= {
                "role": draft.role,
                "text": draft.text,
                "origin": draft.origin or ("import" if draft.role == "user" else None),
            }
        event["payload"] = {name: value for name, value in payload.items() if value is not None}
        try:
            return [wire.build(part) for part in parts_of(_storable(event))]
        except InvalidEvent as error:
            return LeftOut(where, "malformed", error.problems[0])


def _storable(value: Any) -> Any:
    """The same without what the database cannot hold: NUL, halves of surrogate pairs."""
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, dict):
        return {storable(name): _storable(item) for name, item in value.items()}
    return [_storable(item) for item in value] if isinstance(value, list) else value


def role_of(name: Any) -> Role | None:
    """What a speaker is here; None: nothing that is known."""
    known_by = name.replace("_", "").replace("-", "").lower() if isinstance(name, str) else ""
    return next((role for role in get_args(Role) if role == ROLES.get(known_by, known_by)), None)


class BadTimeError(ValueError):
    """A value that is there, and no time."""


def time_of(value: Any) -> datetime | None:
    """A time: ISO 8601 (UTC unless it says otherwise), or seconds or milliseconds since 1970. None and "" are
    none.

    Raises:
        BadTimeError: it is something else.
    """
    if value is None or value == "":
        return None
    number = math.nan
    with suppress(ValueError):
        if isinstance(value, str | int | float) and not isinstance(value, bool):
            number = float(value)
    try:
        if math.isfinite(number):
            return datetime.fromtimestamp(number / 1_000 if abs(number) > MILLISECONDS else number, UTC)
        moment = datetime.fromisoformat(value.strip())
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (AttributeError, ValueError, OverflowError, OSError):
        raise BadTimeError(f"{str(value)[:40]!r} is no time") from None


def dated(
    key: tuple[str, ...], text: str, *times: Any, expires_at: Any = None, **fields: Any
) -> Draft | LeftOut:
    """A draft of the first of these times that there is; left out if what stands there is none."""
    try:
        at = next(filter(None, map(time_of, times)), None)
        return Draft(key=key, text=text, at=at, expires_at=time_of(expires_at), **fields)
    except BadTimeError as error:
        return LeftOut(" ".join(key), "bad time", str(error))


def beginning_of(time: Any) -> datetime | None:
    """When a conversation began; None if what stands there is no time."""
    try:
        return time_of(time)
    except BadTimeError:
        return None


def text_or_none(value: Any) -> str | None:
    """A name, if it is one."""
    if isinstance(value, int) and value is not True:
        return str(value)
    return value if isinstance(value, str) and value.strip() else None


def text_of(content: Any) -> str:
    """What a message says: its content, or the texts among its parts."""
    if isinstance(content, str):
        return content
    parts = [mapping(part) for part in listing(content)]
    texts = [part.get("text") for part in parts if part.get("type", "text") == "text"]
    return "\n".join(text for text in texts if isinstance(text, str))


def mapping(value: Any) -> Mapping[str, Any]:
    """The object, or an empty one in its place."""
    return value if isinstance(value, dict) else {}


def listing(value: Any) -> list[Any]:
    """The list, or an empty one in its place."""
    return value if isinstance(value, list) else []
