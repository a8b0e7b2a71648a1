"""Conversations that have ended: which chats they were, and what was said."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, text

#: Chats of one session that are looked at, the latest ones.
MAX_CHATS = 50


@dataclass(frozen=True, slots=True)
class EndedSession:
    """The event ``session.ended`` as it was stored."""

    group_id: str
    agent_id: str
    session_id: str | None
    occurred_at: datetime
    partner: str | None
    chat_ids: list[UUID]


@dataclass(frozen=True, slots=True)
class Transcript:
    """The chats, what was said in them in their order, and which of those named are not there."""

    chat_ids: list[UUID] = field(default_factory=list)
    utterances: list[tuple[str, str]] = field(default_factory=list)
    missing: list[UUID] = field(default_factory=list)
    #: Why there is nothing to think about, if there is not.
    nothing: str = ""


def find_ended(connection: Connection, event_id: UUID) -> EndedSession | None:
    row = connection.execute(_ENDED, {"id": event_id}).one_or_none()
    if row is None:
        return None
    chat_ids = [UUID(chat_id) for chat_id in row.payload.get("chat_ids", [])]
    return EndedSession(row.group_id, row.agent_id, row.session_id, row.occurred_at, row.payload.get("partner"), chat_ids)


def load_transcript(connection: Connection, ending: EndedSession) -> Transcript:
    """What was said: in the chats that the event names, or else in those of its session (and with its partner, if named)."""
    parameters: dict[str, Any] = {"group": ending.group_id, "agent": ending.agent_id}
    if ending.chat_ids:
        rows = connection.execute(_NAMED, {**parameters, "ids": ending.chat_ids}).all()
    else:
        found = connection.execute(_OF_SESSION, {**parameters, "session": ending.session_id, "limit": MAX_CHATS}).all()
        rows = [row for row in reversed(found) if ending.partner is None or ending.partner in _people(row)]
    chat_ids = [row.node_id for row in rows]
    utterances = [pair for row in rows for pair in _utterances(row)]
    missing = [chat_id for chat_id in ending.chat_ids if chat_id not in chat_ids]
    return Transcript(chat_ids, utterances, missing, "" if utterances else _why_nothing(ending, chat_ids))


def _people(row: Any) -> set[str]:
    return {row.subject, row.object, *(speaker for speaker, _ in _utterances(row))}


def _utterances(row: Any) -> list[tuple[str, str]]:
    """(speaker, words). A chat that came with evidence holds that instead: ids."""
    return [(entry[0], entry[1]) for entry in row.filling if isinstance(entry, list)]


def _why_nothing(ending: EndedSession, chat_ids: list[UUID]) -> str:
    if chat_ids:
        return "nothing was said in the conversation's chats: they have no utterances"
    with_whom = f" with {ending.partner}" if ending.partner else ""
    return f"the session {ending.session_id} has no memory of type chat{with_whom}"


_ENDED = text("""
    SELECT group_id, agent_id, session_id, occurred_at, payload FROM events WHERE event_id = :id AND type = 'session.ended'
""")
_NAMED = text("""
    SELECT node_id, subject, object, filling FROM memory_nodes
    WHERE group_id = :group AND agent_id = :agent AND type = 'chat' AND node_id = ANY(:ids) ORDER BY type_count
""")
_OF_SESSION = text("""
    SELECT node_id, subject, object, filling FROM memory_nodes
    WHERE group_id = :group AND agent_id = :agent AND type = 'chat' AND session_id = :session
    ORDER BY type_count DESC LIMIT :limit
""")
