"""Answers to what is asked of :mod:`jiyi.protocol.operations`: about jobs, and the archive."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Any

from celery import current_app

from jiyi.errors import InvalidRequest, NotFound
from jiyi.protocol import operations as ask
from jiyi.settings import get_settings
from models.accounts import audit
from models.db.connection import unit_of_work
from models.memory import archive
from models.queue import ticks
from models.retrieval import touches
from tasks.framework.inspection import inspects
from tasks.framework.jobs import JOBS, Job, rehearse, task_name

#: Seconds; who asked for a run has given up by then, and it would come as a surprise.
RUN_EXPIRES = 600


@inspects("schedule", ask.ScheduleQuery)
def schedule(_query: ask.ScheduleQuery) -> list[dict[str, Any]]:
    """Safe to repeat because it only reads."""
    with unit_of_work() as connection:
        last = ticks.last(connection, list(JOBS))
    now = datetime.now(UTC)
    return [_described(job, last.get(name), now) for name, job in JOBS.items()]


def _described(job: Job, last: dict[str, Any] | None, now: datetime) -> dict[str, Any]:
    times = job.schedule(get_settings())
    upcoming = None
    if times.every:
        upcoming = now if last is None else times.slot(last["slot"]) + timedelta(seconds=times.every)
    return {
        "job": job.name,
        "purpose": job.purpose,
        "schedule": str(times),
        "every_seconds": times.every or None,
        "setting": f"JIYI_{job.setting.upper()}",
        "last": last,
        "next": upcoming,
        "lag_seconds": None if upcoming is None else max(0.0, (now - upcoming).total_seconds()),
    }


@inspects("run_job", ask.RunJobQuery)
def run_job(query: ask.RunJobQuery) -> dict[str, Any]:
    """Safe to repeat because jobs are."""
    job = JOBS.get(query.job)
    if job is None:
        raise NotFound(f"job: no job {query.job!r}; there are {', '.join(sorted(JOBS))}")
    group_id = None if query.whole_service else query.group_id
    now = datetime.now(UTC)
    if query.dry_run:
        began = time.monotonic()
        found = rehearse(job, group_id)
        return {"job": job.name, "slot": now, "state": "dry run", "summary": found, "seconds": time.monotonic() - began}
    current_app.send_task(task_name(job.name), args=[now.isoformat(), group_id], queue=job.queue, expires=RUN_EXPIRES)
    return {"job": job.name, "slot": now}


@inspects("tick", ask.TickQuery)
def tick(query: ask.TickQuery) -> dict[str, Any] | None:
    """Safe to repeat because it only reads."""
    with unit_of_work() as connection:
        return ticks.find(connection, query.job, query.slot)


@inspects("archived", ask.ArchivedQuery)
def archived(query: ask.ArchivedQuery) -> dict[str, Any]:
    """Safe to repeat because it only reads."""
    with unit_of_work() as connection:
        rows = archive.archived(connection, query.group_id, query.agent_id, query.before, query.limit)
    return {"rows": rows, "next": rows[-1]["node_count"] if len(rows) == query.limit else None}


@inspects("restore", ask.RestoreQuery)
def restore(query: ask.RestoreQuery) -> dict[str, Any]:
    """Safe to repeat because only what is archived is restored."""
    if bool(query.node_ids) == (query.agent_id is not None):
        raise InvalidRequest(["give either node_ids or agent_id"])
    now = datetime.now(UTC)
    with unit_of_work() as connection:
        restored = archive.restore(connection, query.group_id, query.agent_id, query.node_ids, now, ask.MAX_RESTORED, audit.OPERATOR)
    for agent_id, (at, ids) in restored.items():
        touches.tell(query.group_id, agent_id, ids, at.timestamp())
    counts = {agent_id: len(ids) for agent_id, (_, ids) in restored.items()}
    return {"restored": sum(counts.values()), "agents": counts}
