"""After the storm: what one group has must be what the other has, to which nothing happened."""

from __future__ import annotations

import time
from collections import Counter
from datetime import UTC, datetime
from typing import Any

from bench.support.storm.lives import (
    AGENTS,
    columns_that_differ,
    doubled,
    event_id,
    memory,
    settle,
    stored_ids,
)
from jiyi import Client
from models.db.connection import unit_of_work
from models.db.scope import for_groups
from models.memory import archive
from models.operations import worker_liveness
from models.queue.broker_queues import task_queues
from workers import ephemeral

#: Seconds that the service gets to settle in the end.
SETTLE_SECONDS = 600.0
#: Seconds in which every queue's canary has to come back.
CANARY_SECONDS = 120.0
#: Memories of one agent that are archived at most.
MOST_ARCHIVED = 100_000
#: Rows told of each part that differs, and characters of each.
EXAMPLES, EXAMPLE_LENGTH = 5, 300


def compare(events: int) -> dict[str, Any]:
    """What the groups ``storm`` and ``calm`` have of the same events, once all is stored and thought about:
    the figures.
    """
    groups = ("storm", "calm")
    for group in groups:
        settle(group, events, SETTLE_SECONDS)
        _archive(group)
    with ephemeral.environment(
        request_timeout=str(SETTLE_SECONDS)
    ):  # how quick a busy machine is, is not the question here
        for group in groups:
            with Client(group) as client:
                for agent in AGENTS:
                    client.reflect(agent, wait=True, timeout=SETTLE_SECONDS)
            settle(group, events, SETTLE_SECONDS)
    found, expected = memory("storm"), memory("calm")
    different = {part: _differences(found[part], expected[part]) for part in expected}
    ids = stored_ids("storm")
    return {
        "events": events,
        "lost": len({event_id("storm", position) for position in range(events)} - set(ids)),
        "doubled": doubled(found["nodes"]),
        "different": sum(different.values()),
        "different_by_part": {part: count for part, count in different.items() if count},
        "different_rows": {
            part: _examples(found[part], expected[part]) for part, count in different.items() if count
        },
        "different_columns": columns_that_differ(found["nodes"], expected["nodes"]),
        "thoughts": len(found["thoughts"]),
        "deaf": len(deaf()),
    }


def _archive(group: str) -> None:
    """Archive what has expired, as a job does sooner or later: until then it counts in how rare words are."""
    for agent in ((group, name) for name in AGENTS):
        with for_groups(group), unit_of_work() as connection:
            at = archive.clock(connection, agent, datetime.now(UTC))
            assert at is not None  # it has memories
            archive.archive_expired(connection, agent, at, MOST_ARCHIVED, "bench.storm")


def _differences(found: list[Any], expected: list[Any]) -> int:
    left, right = Counter(found), Counter(expected)
    return sum(((left - right) + (right - left)).values())


def _examples(found: list[Any], expected: list[Any]) -> dict[str, list[str]]:
    """A few rows that only one of them has."""
    left, right = Counter(found), Counter(expected)
    only = {"storm": left - right, "calm": right - left}
    return {name: [str(row)[:EXAMPLE_LENGTH] for row in list(rows)[:EXAMPLES]] for name, rows in only.items()}


def deaf() -> list[str]:
    """Queues whose canary has not come back since now."""
    begun, deadline = time.time(), time.monotonic() + CANARY_SECONDS
    while True:
        silent = [
            canary.queue
            for canary in worker_liveness.read_canaries(task_queues())
            if (canary.ran_at or 0) < begun
        ]
        if not silent or time.monotonic() > deadline:
            return silent
        time.sleep(1)
