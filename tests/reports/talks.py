"""What reports of conversations share: talks whose every message is extracted at once, in one group or in one
for each row of a table.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any, TypeVar
from uuid import UUID

from tests.integration.conversations.talk import START, hurry, nodes, run, say

Row = TypeVar("Row")
#: What is said first, and says nothing.
CALLED = "Hello there.", "Nice weather.", "Well then."
LATER = START + timedelta(days=30)


def extracted() -> None:
    """All that was said, whatever it would wait for."""
    hurry()
    run()


def talk(group: str, *said: Any, start: datetime = START, **fields: Any) -> list[UUID]:
    """The ids of the messages that say something."""
    ids = say(group, *CALLED, *said, start=start, **fields)
    extracted()
    return ids[len(CALLED) :]


def talk_in_each(talks: Iterable[tuple[str, Iterable[Any]]], start: datetime = START, **fields: Any) -> None:
    """In each group what is said there; extraction comes once, after all of it."""
    for group, said in talks:
        say(group, *CALLED, *said, start=start, **fields)
    extracted()


def a_group_each(group: str, table: Iterable[Row]) -> list[tuple[str, Row]]:
    """The rows of a table, each with a group of its own."""
    return [(f"{group}-{number}", row) for number, row in enumerate(table)]


def facts_of(group: str, user_id: str | None = None) -> list[Any]:
    """Rows of the current preferences and knowledge, of a user if there is one."""
    found = nodes(group, "knowledge", "preference")
    return [row for row in found if not row["superseded_at"] and (row["user_id"] == user_id or not user_id)]


def fact(group: str, word: str, user_id: str | None = None) -> UUID:
    """The one current memory with a word."""
    [found] = [row["node_id"] for row in facts_of(group, user_id) if word in row["description"]]
    return UUID(str(found))


def stored_text(group: str, user_id: str | None = None) -> str:
    """All that is stored of what was said, and of what was taken from it."""
    rows = [row for row in nodes(group) if row["user_id"] == user_id or not user_id]
    return " | ".join(row["description"] for row in rows)
