"""Events with known ids, and what a memory of them must look like whatever happened meanwhile."""

from __future__ import annotations

import time
import uuid
from typing import Any

from sqlalchemy import text

from jiyi.protocol.events import Event, build
from models.db.connection import unit_of_work
from models.db.scope import for_groups

NAMESPACE = uuid.UUID("5d0f2b7e-8a53-5b6e-9b0c-2f1f5f0a7c33")
AGENTS = ("klaus", "林岚", "maria")


def event(group: str, position: int) -> Event:
    """The same moment for every group: events, thoughts that rest on them, chats; some without importance."""
    agent = AGENTS[position % 3]
    payload: dict[str, Any] = {
        "description": f"{agent} 读第 {position % 40} 章 of the long book ({position})",
        "keywords": [f"chapter {position % 7}", "Book", "书"],
        "poignancy": 1 + position % 4,
    }
    match position % 12:
        case 1 | 8:
            del payload["poignancy"]
        case 4 | 5 if position > 12:
            payload |= {"node_type": "thought", "evidence": [event_id(group, position - 3), event_id(group, position - 12)]}
        case 7:
            payload |= {"node_type": "chat", "utterances": [[agent, "你好"], ["Isabella", "hello"]]}
    at = f"2026-03-{2 + position // 86_400:02}T{position // 3_600 % 24:02}:{position // 60 % 60:02}:{position % 60:02}+00:00"
    fields = {"type": "memory.observed", "event_id": event_id(group, position), "group_id": group, "agent_id": agent}
    return build({**fields, "occurred_at": at, "payload": payload})


def event_id(group: str, position: int) -> uuid.UUID:
    return uuid.uuid5(NAMESPACE, f"{group}/{position}")


def settle(group: str, events: int, seconds: float) -> int:
    """Wait until all is stored and nothing is owed; how many rows of pending work are left."""
    deadline, owed = time.monotonic() + seconds, -1
    while time.monotonic() < deadline:
        with for_groups(group), unit_of_work() as connection:
            stored = connection.execute(text("SELECT count(*) FROM events WHERE group_id = :g"), {"g": group}).scalar_one()
            owed = connection.execute(text("SELECT count(*) FROM pending_work WHERE group_id = :g"), {"g": group}).scalar_one()
        if stored >= events and not owed:
            return 0
        time.sleep(0.2)
    return int(owed)


def stored_ids(group: str) -> list[uuid.UUID]:
    with for_groups(group), unit_of_work() as connection:
        return list(connection.execute(text("SELECT event_id FROM events WHERE group_id = :g"), {"g": group}).scalars())


def memory(group: str) -> dict[str, list[Any]]:
    """All that must be the same, however and how often the events arrived: by kind, sorted."""
    with for_groups(group), unit_of_work() as connection:
        return {name: sorted(map(_plain, connection.execute(statement, {"g": group}))) for name, statement in _PARTS.items()}


def _plain(row: Any) -> tuple[str, ...]:
    return tuple(value.to_numpy().tobytes().hex() if hasattr(value, "to_numpy") else str(value) for value in row)


_PARTS = {
    "nodes": text(
        "SELECT agent_id, type, description, depth, poignancy, is_idle, keywords, created_at, embedding "
        "FROM memory_nodes WHERE group_id = :g AND NOT jsonb_exists(coalesce(provenance, '{}'), 'reflection')"
    ),
    "thoughts": text(
        "SELECT agent_id, description, depth, poignancy, jsonb_array_length(filling) FROM memory_nodes "
        "WHERE group_id = :g AND jsonb_exists(provenance, 'reflection')"
    ),
    "strengths": text("SELECT agent_id, memory_type, keyword, strength FROM kw_strength WHERE group_id = :g"),
    "counters": text(
        "SELECT agent_id, node_count, type_counts::text, importance_trigger_curr, importance_ele_n FROM agents WHERE group_id = :g"
    ),
    "pending work": text("SELECT kind, subject_id FROM pending_work WHERE group_id = :g"),
    "dead letters": text("SELECT kind, reason FROM dead_letters WHERE group_id = :g AND state = 'open'"),
}
