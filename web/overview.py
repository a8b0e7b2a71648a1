"""What the overview shows: all sources asked at once, each allowed to be silent."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection

from jiyi.agents import AgentSettings
from jiyi.settings import Settings, get_settings
from models import keys, listing, overview, queues
from models.valkey import valkey
from web import health
from web.show import seconds_since
from web.sources import Reading, Unanswered, attempt, reading, source
from web.workers import Worker, roll_call

AGENTS_PER_PAGE = 50
#: Fewer than the patience: the page of a person who waits for nothing else should come soon.
WORKERS_PATIENCE = 1.5


def gather(asked_group: str | None, after: str) -> dict[str, Any]:
    settings = get_settings()
    database = source("database").begin(reading(lambda c: _stored(c, asked_group, after)))
    cache = source("Valkey").begin(lambda: {"access_buffered": valkey().zcard(keys.ACCESS)})
    broker = source("broker").begin(lambda: _depths(settings))
    workers = source("workers").begin(roll_call().read, WORKERS_PATIENCE)
    stored, cached, depths = attempt(database), attempt(cache), attempt(broker)
    return _put_together(settings, stored, cached, depths, attempt(workers), asked_group)


def pick_group(connection: Connection, asked: str | None) -> tuple[str, list[str]]:
    """The group to show (one that was asked for is shown even if it is empty), and those to choose from."""
    groups = overview.groups(connection)
    configured = get_settings().group
    if asked:
        chosen = asked
    elif configured in groups or not groups:
        chosen = configured
    else:
        chosen = groups[0]
    return chosen, groups


def _stored(connection: Connection, asked_group: str | None, after: str) -> dict[str, Any]:
    group, groups = pick_group(connection, asked_group)
    rows = listing.agents(connection, group, after, AGENTS_PER_PAGE + 1)
    agents = [with_reflection(row) for row in rows[:AGENTS_PER_PAGE]]
    return {
        "group": group,
        "groups": groups,
        "totals": overview.totals(connection, group),
        "agents": agents,
        "agents_next": agents[-1]["agent_id"] if len(rows) > AGENTS_PER_PAGE else None,
        "work_owed": [
            {**row, "oldest_seconds": seconds_since(row["oldest"])} for row in listing.work_owed(connection)
        ],
        "open_dead_letters": overview.open_dead_letters(connection, group),
        "jobs": overview.last_ticks(connection),
    }  # fmt: skip


def with_reflection(agent: dict[str, Any]) -> dict[str, Any]:
    """The agent's row with how far it is on the way to its next reflection (GA-48)."""
    most = AgentSettings(**agent["settings"]).over(get_settings()).importance_trigger_max
    gathered = most - agent["importance_trigger_curr"]
    return {**agent, "reflection": {"gathered": gathered, "max": most, "owed": gathered >= most}}


def _depths(settings: Settings) -> queues.Depths:
    address = queues.redis_address(settings.need("broker_url"))
    if address is None:
        raise Unanswered("broker", "only a Redis-like broker tells its queue depths here")
    try:
        return queues.depths(address, [settings.intake_queue, *queues.task_queues()])
    except ValueError as error:  # redis-py's word for an address that it cannot read
        raise Unanswered("broker", f"JIYI_BROKER_URL cannot be used: {error}") from None


def _put_together(
    settings: Settings, stored: Reading[dict[str, Any]], cached: Reading[dict[str, int]], depths: Reading[queues.Depths],
    roll: Reading[list[Worker]], asked_group: str | None,
) -> dict[str, Any]:  # fmt: skip
    found = stored.value or {}
    not_read = "the database did not answer"
    letters = health.dead_letters(found.get("open_dead_letters"), not_read)
    checks = [
        health.reachable("Database", stored, "answers"),
        health.reachable("Valkey", cached, "answers"),
        health.intake(settings, depths),
        health.workers(roll),
        health.work(found.get("work_owed"), not_read),
        health.schedule(settings, found.get("jobs"), not_read),
        letters,
    ]
    group = asked_group or settings.group
    return {
        "as_of": datetime.now(UTC),
        "state": health.worst(checks),
        "checks": checks,
        "queues": _queues(settings, depths, roll),
        "in_flight": depths.value and {"intake": depths.value.intake, "tasks": depths.value.tasks},
        "workers": roll.value,
        "access_buffered": cached.value and cached.value["access_buffered"],
        "group": group, "groups": [], "totals": None, "agents": None, "agents_next": None, "work_owed": None,
        "open_dead_letters": None, "jobs": None,
        **found,
    }  # fmt: skip


def _queues(settings: Settings, depths: Reading[queues.Depths], roll: Reading[list[Worker]]) -> list[dict[str, Any]]:
    """By queue: ``waiting`` (None: unknown) and who said that they read it."""
    waiting = depths.value.waiting if depths.value else {}
    intake = {"queue": settings.intake_queue, "waiting": waiting.get(settings.intake_queue), "workers": None}
    return [intake] + [
        {
            "queue": queue,
            "waiting": waiting.get(queue),
            "workers": None if roll.value is None else [worker for worker in roll.value if queue in worker.queues],
        }
        for queue in queues.task_queues()
    ]
