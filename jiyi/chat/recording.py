"""A chat program's messages as ``turn.recorded`` events, with ids by what they say and where."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from threading import Lock
from typing import Any
from uuid import UUID, uuid5

from pydantic import ValidationError

from jiyi.chat.hosts import own_words, texts
from jiyi.chat.recent import Recent
from jiyi.chat.secrets import masked
from jiyi.errors import InvalidEvent, problems_of
from jiyi.protocol import limits
from jiyi.protocol.base import JsonObject
from jiyi.protocol.conversations import Message
from jiyi.protocol.events import TurnRecorded
from jiyi.text.words import storable
from jiyi.zones import by_clock

#: Namespace of the ids of turns.
TURNS = UUID("6f6b6f1e-3c1c-5d0a-9d7e-2f2d1b7a8c40")
#: Sessions of which is kept what was said already.
SESSIONS = 1_000
#: Roles whose messages are remembered; tools and system prompts are not.
RECORDED = ("user", "assistant")
#: What chat APIs and libraries call roles that we call otherwise.
ROLES = {
    "developer": "system",
    "function": "tool",
    "toolresult": "tool",
    "model": "assistant",
    "ai": "assistant",
    "bot": "assistant",
    "human": "user",
}


def messages_of(messages: Iterable[Mapping[str, Any] | Message]) -> list[Message]:
    """Messages as chat APIs have them (``role``, ``content`` or ``text``, perhaps ``name``, ``at``), without
    empty ones.

    Raises:
        InvalidEvent: with a sentence per wrong field.
    """
    result = []
    for place, message in enumerate(messages):
        try:
            parsed = message if isinstance(message, Message) else Message.model_validate(with_text(message))
        except ValidationError as error:
            raise InvalidEvent([f"messages.{place}.{problem}" for problem in problems_of(error)]) from None
        if parsed.text.strip():
            result.append(parsed)
    return result


class Recorder:
    """Makes events of messages. Thread-safe.

    Whether a program passes the whole conversation each time or only what is new, each message has one id:
    passed again, by any process, it is an event that is known.
    """

    def __init__(self) -> None:
        self._digests: Recent[tuple[str, ...], list[bytes]] = Recent(SESSIONS)
        self._lock = Lock()

    def events(
        self,
        group_id: str,
        agent_id: str,
        session_id: str,
        messages: Sequence[Message],
        user_id: str | None = None,
        tz: str | None = None,
    ) -> list[JsonObject]:
        """Events of what people and the agent said, oldest first, of ``user_id``, in the zone ``tz``.

        Raises:
            InvalidEvent: with a sentence per wrong field.
        """
        recorded = recordable(messages)
        digests = [_digest(message) for message in recorded]
        session = (group_id, agent_id, session_id, *([] if user_id is None else [user_id]))
        before = self._before(session, digests)
        now = by_clock(None, tz)
        return [
            turn_event(session, message, _event_id(session, digest, number), now)
            for message, digest, number in zip(recorded, digests, _numbers(before, digests), strict=True)
        ]

    def _before(self, session: tuple[str, ...], digests: list[bytes]) -> list[bytes]:
        """What was said before these messages; empty if they are the whole conversation so far."""
        with self._lock:
            turns = self._digests.get(session, [])
            before: list[bytes]
            if digests[: len(turns)] == turns:  # the whole conversation so far
                before, digests_now = [], digests
            elif len(digests) > 1 and turns[-len(digests) :] == digests:  # the last call once more
                before, digests_now = turns[: -len(digests)], turns
            else:
                before, digests_now = turns, [*turns, *digests]
            self._digests[session] = digests_now
            return before


def _numbers(before: list[bytes], digests: list[bytes]) -> Iterable[int]:
    """How often each message was said before it, itself left out."""
    counts = Counter(before)
    for digest in digests:
        yield counts[digest]
        counts[digest] += 1


def _digest(message: Message) -> bytes:
    at = "" if message.at is None else message.at.isoformat()
    return hashlib.sha256("\x00".join((message.role, message.name or "", at, message.text)).encode()).digest()


def recordable(messages: Iterable[Message]) -> list[Message]:
    """What people and the agent said themselves, with secrets masked."""
    pairs = ((message, _text_of(message)) for message in messages if message.role in RECORDED)
    return [message.model_copy(update={"text": masked(storable(text))}) for message, text in pairs if text]


def _text_of(message: Message) -> str:
    return own_words(message.text) if message.role == "user" else message.text


def turn_event(session: tuple[str, ...], message: Message, event_id: UUID, now: datetime) -> JsonObject:
    """The event of one message, cut to what one may hold; ``session``: group, agent, session, perhaps user.

    Raises:
        InvalidEvent: with a sentence per wrong field.
    """
    group_id, agent_id, session_id, *user = session
    text, at = message.text, message.at or now
    limit = limits.MAX_DESCRIPTION_CHARS - len(message.name or "") - 2
    payload: dict[str, Any] = {"role": message.role, "name": message.name, "text": text[:limit]}
    payload["user_id"] = next(iter(user), None)
    if len(text) > limit:
        payload["provenance"] = {"truncated_from": len(text)}
    where = {"event_id": event_id, "group_id": group_id, "agent_id": agent_id, "session_id": session_id}
    occurred_at = at if at.utcoffset() else at.astimezone(now.tzinfo)
    try:
        event = TurnRecorded.model_validate({**where, "occurred_at": occurred_at, "payload": payload})
    except ValidationError as error:
        raise InvalidEvent(problems_of(error)) from None
    return event.model_dump(mode="json", exclude_none=True)


def _event_id(session: tuple[str, ...], digest: bytes, number: int) -> UUID:
    return uuid5(TURNS, "\x00".join((*session, str(number), digest.hex())))


def with_text(message: Mapping[str, Any]) -> JsonObject:
    """The message with its ``text``, joined of the texts of its ``content``, and our name of its role."""
    fields = dict(message)
    content = fields.get("text", fields.get("content"))
    if isinstance(content, list):
        content = "\n".join(texts(content))
    if isinstance(role := fields.get("role"), str):
        fields["role"] = ROLES.get(role, role)
    return {**fields, "text": content or ""}
