"""Zep's sessions (later called threads) as its API returns them: messages become turns, facts memories."""

from __future__ import annotations

from typing import Any

from jiyi.imports.conversations import turn
from jiyi.imports.drafts import BadTimeError, Draft, Drafts, LeftOut, listing, mapping, text_or_none, time_of


def zep(value: Any) -> Drafts:
    """A session with its ``messages`` and ``facts``."""
    session = mapping(value)
    name = text_or_none(session.get("session_id")) or text_or_none(session.get("thread_id"))
    if name is None:
        yield LeftOut("a session", "malformed", "a session needs a session_id or thread_id")
        return
    user = text_or_none(session.get("user_id"))
    try:
        began = time_of(session.get("created_at"))
    except BadTimeError:
        began = None
    for number, each in enumerate(listing(session.get("messages"))):
        message = mapping(each)
        key = (name, text_or_none(message.get("uuid")) or f"message {number}")
        role = message.get("role_type") or message.get("role")
        text = message.get("content")
        if not isinstance(text, str):
            yield LeftOut(" ".join(key), "malformed", "content: must be a text")
            continue
        speaker = text_or_none(message.get("name")) or (text_or_none(message.get("role")) if message.get("role_type") else None)
        about = {"speaker": speaker[:100]} if speaker else {}
        yield turn(key, role, text, message.get("created_at"), session=name, began=began, about=about, user=user)
    for number, each in enumerate([*listing(session.get("facts")), *listing(session.get("relevant_facts"))]):
        yield _fact(name, number, {"fact": each} if isinstance(each, str) else mapping(each), user)


def _fact(session: str, number: int, fact: Any, user: str | None) -> Draft | LeftOut:
    text = fact.get("fact") or fact.get("content")
    # A fact in plain words has no id: its words are.
    key = (session, "fact", text_or_none(fact.get("uuid")) or (text if isinstance(text, str) else str(number)))
    if not isinstance(text, str):
        return LeftOut(" ".join(key), "malformed", "fact: must be a text")
    try:
        at = time_of(fact.get("valid_at")) or time_of(fact.get("created_at"))
    except BadTimeError as error:
        return LeftOut(" ".join(key), "bad time", str(error))
    ended = {field: fact[field] for field in ("invalid_at", "expired_at", "rating", "name") if fact.get(field)}
    return Draft(key=key, text=text, at=at, user=user, session=session, provenance=ended)
