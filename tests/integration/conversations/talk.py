"""What tests of conversations share: turns said, work done, memories looked at."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import text

from jiyi.protocol import events as wire
from jiyi.settings import get_settings
from models.conversations.extraction_schedule import EXTRACT
from models.db.connection import unit_of_work
from models.memory.inbox import Stored, store
from tasks.conversations.extraction import extract
from tasks.framework.work import run_until_idle

START = datetime(2026, 5, 1, 9, tzinfo=UTC)


def turn(group: str, said: str, **fields: Any) -> wire.Event:
    """A turn of a user, unless told otherwise."""
    envelope: dict[str, Any] = {
        name: fields.pop(name)
        for name in ("agent_id", "session_id", "occurred_at", "event_id")
        if name in fields
    }
    event: dict[str, Any] = {
        "type": "turn.recorded",
        "group_id": group,
        "agent_id": "helper",
        "session_id": "s1",
        "occurred_at": START,
    }
    return wire.build({**event, **envelope, "payload": {"role": "user", **fields, "text": said}})


def say(group: str, *said: str | tuple[str, str], start: datetime = START, **fields: Any) -> list[UUID]:
    """Turns said a minute apart, as text or as (role, text), all stored at once."""
    pairs = [("user", one) if isinstance(one, str) else one for one in said]
    events = [
        turn(group, words, **{"role": role, "occurred_at": start + timedelta(minutes=place), **fields})
        for place, (role, words) in enumerate(pairs)
    ]
    save(events)
    return [event.event_id for event in events]


def save(events: Iterable[wire.Event]) -> Stored:
    with unit_of_work() as connection:
        return store(connection, list(events))


def end_session(group: str, session_id: str = "s1", agent_id: str = "helper") -> UUID:
    event_id = uuid4()
    ended = {
        "type": "session.ended",
        "event_id": event_id,
        "group_id": group,
        "agent_id": agent_id,
        "session_id": session_id,
    }
    save([wire.build(ended)])
    return event_id


def run() -> int:
    """Do all extraction that is due; returns how many agents were looked through."""
    return run_until_idle(EXTRACT, extract)


def hurry() -> None:
    """What waits for its window is due now."""
    with unit_of_work() as connection:
        connection.execute(
            text("UPDATE pending_work SET due_at = now() WHERE kind = :kind"), {"kind": EXTRACT}
        )


def owed() -> list[Any]:
    with unit_of_work() as connection:
        found = connection.execute(
            text("SELECT due_at, attempts, last_error FROM pending_work WHERE kind = :kind"),
            {"kind": EXTRACT},
        )
        return list(found.mappings())


def nodes(group: str, *kinds: str) -> list[Any]:
    """Memories of the group, of these kinds or of any, in their order."""
    with unit_of_work() as connection:
        found = connection.execute(
            text("""
                SELECT * FROM memory_nodes WHERE group_id = :group AND (cardinality(CAST(:kinds AS text[])) =
                0 OR kind = ANY(:kinds))
                ORDER BY node_count
            """),
            {"group": group, "kinds": list(kinds)},
        )
        return list(found.mappings())


def facts(group: str) -> list[str]:
    """Preferences and knowledge in force."""
    return [
        row["description"] for row in nodes(group, "preference", "knowledge") if row["superseded_by"] is None
    ]


def window() -> float:
    return get_settings().extract_window_seconds
