"""Answers to what is asked of :mod:`jiyi.protocol.operations`: about jobs."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Any

from celery import current_app

from jiyi.errors import NotFound
from jiyi.protocol import operations as ask
from jiyi.settings import get_settings
from models.db.connection import unit_of_work
from models.queue import ticks
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
