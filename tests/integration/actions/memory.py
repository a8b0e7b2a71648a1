"""Cases of the actions on memories and agents."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from models.memory import archive
from tests.integration.actions.cases import MADE, Case, case, do, nothing
from tests.integration.memory.test_inbox import observed, rows, save

AGENT, HOTTER = "阿宁", {"description": "窑温一千三百度"}
SINCE = "2026-03-02T07:15:00+00:00"


def remembered(group: str) -> str:
    """The id of a memory."""
    event = observed(group, "窑温一千二百度", AGENT)
    save(event)
    return str(event.event_id)


def superseded(group: str) -> str:
    """The id of a memory that a newer one has taken the place of."""
    made = remembered(group)
    do(group, archive.update_memory, id=made, **HOTTER)
    return made


def configured(group: str) -> str:
    """An agent with a setting of its own."""
    remembered(group)
    do(group, archive.configure, agent_id=AGENT, mode="elapsed")
    return AGENT


def archived(group: str) -> str:
    """The id of an archived memory."""
    made = remembered(group)
    do(group, archive.archive, ids=[made])
    return made


def expired(group: str) -> str:
    """The id of an archived memory whose expiry has passed."""
    made, ended = archived(group), "expires_at = now() - interval '1 day'"
    rows(f"UPDATE memory_nodes SET {ended} WHERE group_id = :g RETURNING 1", g=group)
    return made


def shown(statement: str) -> Callable[[str, Any], list[Any]]:
    """Rows of the group."""
    return lambda group, _made: rows(statement.format("group_id = :g"), g=group)


def settings(group: str, _made: Any) -> list[Any]:
    told = "SELECT payload, outcome FROM events WHERE {} AND type = 'agent.configured' ORDER BY position"
    return [*shown("SELECT settings FROM agents WHERE {}")(group, _made), *shown(told)(group, _made)]


def with_settings(name: str, given: dict[str, Any], typed: dict[str, str]) -> Case:
    return case(
        archive.configure,
        configured,
        {"agent_id": MADE, **given},
        name,
        effect=settings,
        rest=lambda made: ("PATCH", f"/agents/{made}/settings", given),
        admin=lambda made: (f"/agents/{{group}}/{made}/settings", typed),
    )


CASES = (
    with_settings("set", {"recency_w": 0.5}, {"mode": "elapsed", "recency_w": "0.5"}),
    with_settings("back to the default", {"mode": None}, {"mode": ""}),
    case(archive.add_memory, nothing, {"agent_id": AGENT, **HOTTER, "poignancy": 4}),
    case(archive.update_memory, remembered, {"id": MADE, **HOTTER, "occurred_at": SINCE}),
    case(archive.update_memory, remembered, {"id": MADE, **HOTTER}, "by hand"),
    case(
        archive.reinstate_memory,
        superseded,
        {"id": MADE, "reason": "a mistake"},
        effect=shown("SELECT superseded_by, superseded_at FROM memory_nodes WHERE {}"),
        admin=lambda made: (f"/nodes/{{group}}/{made}/reinstate", {}),
    ),
    case(
        archive.rate,
        remembered,
        {"ids": [MADE], "importance": 9},
        effect=shown("SELECT poignancy, provenance FROM memory_nodes WHERE {}"),
        admin=lambda made: ("/memories/{group}/rate", {"node_id": made, "importance": "9"}),
    ),
    case(archive.archive, remembered, {"ids": [MADE]}),
    case(archive.restore, archived, {"ids": [MADE]}, "named"),
    case(archive.restore, expired, {"agent_id": AGENT}, "all of an agent"),
)
