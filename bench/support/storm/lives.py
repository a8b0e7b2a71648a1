"""Events with known ids, and what a memory of them must look like whatever happened meanwhile."""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import text

from jiyi.protocol.events import Event, build
from models.db.connection import unit_of_work
from models.db.scope import for_groups

NAMESPACE = uuid.UUID("5d0f2b7e-8a53-5b6e-9b0c-2f1f5f0a7c33")
AGENTS = ("klaus", "林岚", "maria")
#: Thoughts of which each rests on the one before: the work on depths of a longer chain that arrives in
#: disorder grows with its square, and hours of a storm would be followed by hours of waiting for it.
CHAIN = 20
#: One event of so many is a reading: what the figures say together is a thought. No multiple of three, so
#: that each agent has some.
READING, FIRST_READING = 40, datetime(2026, 3, 3, 20, tzinfo=UTC)


def event(group: str, position: int) -> Event:
    """The same moment for every group: events, thoughts that rest on them, chats, readings; some without
    importance.
    """
    agent = AGENTS[position % 3]
    day, clock = 2 + position // 86_400, (position // 3_600 % 24, position // 60 % 60, position % 60)
    at = f"2026-03-{day:02}T{clock[0]:02}:{clock[1]:02}:{clock[2]:02}+00:00"
    payload: dict[str, Any] = {
        "description": f"{agent} 读第 {position % 40} 章 of the long book ({position})",
        "keywords": [f"chapter {position % 7}", "Book", "书"],
        "poignancy": 1 + position % 4,
    }
    match position % 12:
        case 1 | 8:
            del payload["poignancy"]
        case 4 | 5 if position % (12 * CHAIN) >= 12:
            payload |= {
                "node_type": "thought",
                "evidence": [event_id(group, position - 3), event_id(group, position - 12)],
            }
        case 7:
            payload |= {"node_type": "chat", "utterances": [[agent, "你好"], ["Isabella", "hello"]]}
    if position % READING == READING - 1:
        payload, at = _reading(agent, position // READING)
    fields = {
        "type": "memory.observed",
        "event_id": event_id(group, position),
        "group_id": group,
        "agent_id": agent,
    }
    return build({**fields, "occurred_at": at, "payload": payload})


def _reading(agent: str, number: int) -> tuple[dict[str, Any], str]:
    """Blood pressure and rent in turns, each agent's on a day of its own: its payload and when it is."""
    day, of_day = divmod(number, 2 * len(AGENTS))
    pressure, rent = 110 + day * 7 % 40, 700 + day * 30 % 500
    of_pressure = of_day < len(AGENTS)
    if agent == "林岚":
        said = f"林岚的血压是 {pressure}" if of_pressure else f"林岚的房租是 {rent} 元"
    else:
        said = (
            f"{agent}'s blood pressure was {pressure}" if of_pressure else f"{agent}'s rent was {rent} euros"
        )
    payload = {"description": said, "poignancy": 5}
    return payload, (FIRST_READING + timedelta(days=day, seconds=of_day)).isoformat()


def event_id(group: str, position: int) -> uuid.UUID:
    return uuid.uuid5(NAMESPACE, f"{group}/{position}")


def settle(group: str, events: int, seconds: float) -> int:
    """Wait until all is stored and nothing is owed; how many rows of pending work are left."""
    deadline, owed = time.monotonic() + seconds, -1
    while time.monotonic() < deadline:
        with for_groups(group), unit_of_work() as connection:
            stored = connection.execute(
                text("SELECT count(*) FROM events WHERE group_id = :g"), {"g": group}
            ).scalar_one()
            owed = connection.execute(
                text("SELECT count(*) FROM pending_work WHERE group_id = :g"), {"g": group}
            ).scalar_one()
        if stored >= events and not owed:
            return 0
        time.sleep(0.2)
    return int(owed)


def stored_ids(group: str) -> list[uuid.UUID]:
    with for_groups(group), unit_of_work() as connection:
        return list(
            connection.execute(
                text("SELECT event_id FROM events WHERE group_id = :g"), {"g": group}
            ).scalars()
        )


def memory(group: str) -> dict[str, list[Any]]:
    """All that must be the same, however and how often the events arrived: by kind, sorted."""
    with for_groups(group), unit_of_work() as connection:
        return {
            name: sorted(map(_plain, connection.execute(statement, {"g": group})))
            for name, statement in _PARTS.items()
        }


def doubled(nodes: Iterable[tuple[str, ...]]) -> int:
    """How many of the ``nodes`` of :func:`memory` are there again."""
    return sum(count - 1 for count in Counter(map(_identity, nodes)).values())


def columns_that_differ(
    found: Iterable[tuple[str, ...]], expected: Iterable[tuple[str, ...]]
) -> dict[str, int]:
    """Of ``nodes`` that both have: by column, how many are not the same in it."""
    there = {_identity(node): node for node in expected}
    pairs = [(node, there[_identity(node)]) for node in found if _identity(node) in there]
    counts = {
        name: sum(one[number] != other[number] for one, other in pairs)
        for number, name in enumerate(NODE_COLUMNS)
    }
    return {name: count for name, count in counts.items() if count}


def _identity(node: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(
        value
        for name, value in zip(NODE_COLUMNS, node, strict=True)
        if name in ("agent_id", "type", "description", "created_at")
    )


def _plain(row: Any) -> tuple[str, ...]:
    return tuple(
        value.to_numpy().tobytes().hex() if hasattr(value, "to_numpy") else str(value) for value in row
    )


NODE_COLUMNS = (
    "agent_id",
    "type",
    "description",
    "depth",
    "poignancy",
    "is_idle",
    "keywords",
    "created_at",
    "embedding",
)
_PARTS = {
    "nodes": text(
        f"SELECT {', '.join(NODE_COLUMNS)} FROM memory_nodes WHERE group_id = :g AND NOT"
        " jsonb_exists(coalesce(provenance, '{}'), 'reflection')"
    ),
    "thoughts": text(
        "SELECT agent_id, description, depth, poignancy, jsonb_array_length(filling) FROM memory_nodes "
        "WHERE group_id = :g AND jsonb_exists(provenance, 'reflection')"
    ),
    "strengths": text("SELECT agent_id, memory_type, keyword, strength FROM kw_strength WHERE group_id = :g"),
    "counters": text(
        "SELECT agent_id, node_count, type_counts::text, importance_trigger_curr, importance_ele_n FROM"
        " agents WHERE group_id = :g"
    ),
    "pending work": text("SELECT kind, subject_id FROM pending_work WHERE group_id = :g"),
    "dead letters": text("SELECT kind, reason FROM dead_letters WHERE group_id = :g AND state = 'open'"),
}
