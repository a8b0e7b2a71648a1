"""What tests of conversations share: turns said, work done, memories looked at."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import text

from engine.rules.provider import Rules
from jiyi.errors import LLMUnavailable
from jiyi.protocol import events as wire
from jiyi.settings import get_settings
from models.conversations.extraction_schedule import EXTRACT
from models.db.connection import unit_of_work
from models.memory.inbox import StoreResult, store
from tasks.conversations.extraction import extract
from tasks.framework.work import run_until_idle

START = datetime(2026, 5, 1, 9, tzinfo=UTC)
#: Said before what matters: extraction waits for four turns.
SMALL_TALK = ["Hello there.", "Nice weather.", "Well then."]


def turn(group: str, said: str, **fields: Any) -> wire.Event:
    """A turn of a user, unless told otherwise."""
    name, at = (group, fields.pop("agent_id", "helper")), fields.pop("occurred_at", START)
    envelope = {key: fields.pop(key) for key in ("session_id", "event_id") if key in fields}
    payload = {"role": "user", **fields, "text": said}
    return wire.made("turn.recorded", name, at, payload, **{"session_id": "s1"} | envelope)


def say(group: str, *said: str | tuple[str, str], start: datetime = START, **fields: Any) -> list[UUID]:
    """Turns said a minute apart, as text or as (role, text), all stored at once."""
    pairs = [("user", one) if isinstance(one, str) else one for one in said]
    events = [
        turn(group, words, **{"role": role, "occurred_at": start + timedelta(minutes=place), **fields})
        for place, (role, words) in enumerate(pairs)
    ]
    save(events)
    return [event.event_id for event in events]


def save(events: Iterable[wire.Event]) -> StoreResult:
    with unit_of_work() as connection:
        return store(connection, list(events))


def end_session(group: str, session_id: str = "s1", agent_id: str = "helper") -> UUID:
    ended = {"type": "session.ended", "group_id": group, "agent_id": agent_id, "session_id": session_id}
    event = wire.build(ended)
    save([event])
    return event.event_id


def run() -> int:
    """Do all extraction that is due; returns how many agents were looked through."""
    return run_until_idle(EXTRACT, extract)


def hurry() -> None:
    """What waits for its window is due now."""
    due = text("UPDATE pending_work SET due_at = now() WHERE kind = :kind")
    with unit_of_work() as connection:
        connection.execute(due, {"kind": EXTRACT})


def talked(group: str, *said: str | tuple[str, str], **fields: Any) -> list[UUID]:
    """Turns said, and looked through at once, due or not."""
    ids = say(group, *said, **fields)
    hurry()
    run()
    return ids


def owed() -> list[Any]:
    work = text("SELECT due_at, attempts, last_error FROM pending_work WHERE kind = :kind")
    with unit_of_work() as connection:
        return list(connection.execute(work, {"kind": EXTRACT}).mappings())


def nodes(group: str, *kinds: str) -> list[Any]:
    """Memories of the group, of these kinds or of any, in their order."""
    wanted = text("SELECT * FROM memory_nodes WHERE group_id = :group ORDER BY node_count")
    with unit_of_work() as connection:
        found = connection.execute(wanted, {"group": group}).mappings().all()
    return [row for row in found if not kinds or row["kind"] in kinds]


def facts(group: str) -> list[str]:
    """Preferences and knowledge in force."""
    said = nodes(group, "preference", "knowledge")
    return [row["description"] for row in said if row["superseded_by"] is None]


def window() -> float:
    return get_settings().extract_window_seconds


class Away:
    """An LLM that cannot be reached."""

    model = "away"

    def ask(self, _question: Any) -> Any:
        raise LLMUnavailable("nobody there")


class Meanwhile(Rules):
    """Rules in whose first answer something else happens."""

    def __init__(self, act: Callable[[], object]) -> None:
        self._acts = [act]

    def ask(self, question: Any) -> Any:
        if self._acts:
            self._acts.pop()()
        return super().ask(question)
