"""A little life to be remembered, and what a memory of it looks like when nothing went wrong."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

from sqlalchemy import text

from jiyi import Client
from jiyi.errors import BrokerUnavailable
from jiyi.protocol.events import Event, build
from models.db.connection import unit_of_work
from models.db.scope import for_groups

EVENTS = 240
MESSAGE = 6
SETTLE_SECONDS = 180
POLL_SECONDS = 0.1
PUBLISH_SECONDS = 90

NAMESPACE = uuid.UUID("9d1c6d2e-3c39-5d0a-8f4c-6a1d27a4b0c1")
AGENTS = ("klaus", "林岚", "maria")


def life(group: str) -> list[Event]:
    """The same events for every group: events, thoughts that rest on them and on each other, chats, idle
    things.

    Some bring no importance: it is asked for, and counts as if they had brought it.
    """
    return [_moment(group, position) for position in range(EVENTS)]


def event_id(group: str, position: int) -> uuid.UUID:
    return uuid.uuid5(NAMESPACE, f"{group}/{position}")


def _moment(group: str, position: int) -> Event:
    agent = AGENTS[position % 3]
    payload: dict[str, Any] = {
        "description": f"{agent} 读第 {position % 40} 章 of the long book",
        "keywords": [f"chapter {position % 7}", "Book", "书"],
        "poignancy": 1 + position % 4,
    }
    match position % 12:
        case 1 | 8:
            del payload["poignancy"]
        case 4 | 5:
            earlier = [event_id(group, position - 3), event_id(group, position - 12)] if position > 12 else []
            payload |= {
                "node_type": "thought",
                "description": f"{agent} understands something ({position})",
                "evidence": earlier,
            }
        case 7:
            payload |= {"node_type": "chat", "utterances": [[agent, "你好"], ["Isabella", "hello"]]}
        case 9:
            payload |= {
                "description": "desk is idle",
                "subject": "desk",
                "predicate": "is",
                "object": "idle",
                "poignancy": 1,
            }
    return build(
        {
            "type": "memory.observed",
            "event_id": event_id(group, position),
            "group_id": group,
            "agent_id": agent,
            "occurred_at": f"2026-03-02T08:{position // 60:02}:{position % 60:02}+00:00",
            "payload": payload,
        }
    )


def messages(group: str) -> Iterator[list[Event]]:
    events = life(group)
    for start in range(0, EVENTS, MESSAGE):
        yield events[start : start + MESSAGE]


def publish(client: Client, events: list[Event]) -> None:
    """As a careful agent does: what the broker did not take is published again."""
    deadline = time.monotonic() + PUBLISH_SECONDS
    while True:
        try:
            client.observe_many(events)
        except BrokerUnavailable:
            if time.monotonic() > deadline:
                raise
        else:
            return


def settled(group: str, supervise: Callable[[], None] = lambda: None) -> dict[str, Any]:
    """The memory once nothing is owed any more; fails if that takes too long.

    ``supervise`` starts what has ended, as a supervisor does in production.
    """
    deadline = time.monotonic() + SETTLE_SECONDS
    while time.monotonic() < deadline:
        supervise()
        with for_groups(group), unit_of_work() as connection:
            events = connection.execute(
                text("SELECT count(*) FROM events WHERE group_id = :g"), {"g": group}
            ).scalar_one()
            owed = connection.execute(_OWED, {"g": group}).scalar_one()
        if events >= EVENTS and not owed:
            return memory(group)
        time.sleep(POLL_SECONDS)
    raise AssertionError(
        f"not settled after {SETTLE_SECONDS} s: {events} of {EVENTS} events, {owed} rows of pending work"
    )


def memory(group: str) -> dict[str, Any]:
    """All that must be the same however the events arrived: not the order of arrival, nor times of our
    clock.
    """
    with for_groups(group), unit_of_work() as connection:
        nodes = connection.execute(_NODES, {"g": group}).mappings().all()
        return {
            "nodes": sorted(
                (
                    n["agent_id"],
                    n["type"],
                    n["description"],
                    n["depth"],
                    n["poignancy"],
                    n["is_idle"],
                    tuple(n["keywords"]),
                    n["embedding"].to_numpy().tobytes(),
                    n["created_at"],
                    n["last_accessed"],
                )
                for n in nodes
            ),
            "numbers": {
                agent: sorted(n["node_count"] for n in nodes if n["agent_id"] == agent) for agent in AGENTS
            },
            "strengths": sorted(map(tuple, connection.execute(_STRENGTHS, {"g": group}))),
            "counters": sorted(map(tuple, connection.execute(_COUNTERS, {"g": group}))),
            "dead": connection.execute(_DEAD, {"g": group}).scalar_one(),
        }


_OWED = text("SELECT count(*) FROM pending_work WHERE group_id = :g")
_NODES = text(
    "SELECT n.*, a.last_accessed FROM memory_nodes n JOIN node_access a USING (node_id) WHERE n.group_id = :g"
)
_STRENGTHS = text("SELECT agent_id, memory_type, keyword, strength FROM kw_strength WHERE group_id = :g")
_COUNTERS = text("""
    SELECT agent_id, node_count, type_counts::text, importance_trigger_curr, importance_ele_n
    FROM agents WHERE group_id = :g
""")
_DEAD = text("SELECT count(*) FROM dead_letters WHERE group_id = :g AND state = 'open'")
