"""Scheduled jobs by hand: what one would do now."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any

from celery import current_app, shared_task

from jiyi.operations import jobs
from jiyi.protocol.operations import RunJob, Tick
from models.db.actions import Actor
from models.operations.actions import preview_job
from tasks.framework.jobs import rehearse
from tasks.framework.rpc import implements


@implements(preview_job)
def preview(actor: Actor, request: RunJob) -> Tick:
    """Safe to repeat because it changes nothing."""
    job, now, began = jobs.find(request.job), datetime.now(UTC), time.monotonic()
    found = rehearse(job, None if request.whole_service else actor.group_id)
    return Tick(job=job.name, slot=now, state="dry run", summary=found, seconds=time.monotonic() - began)


@shared_task(name="inspect.run_job", acks_late=False, ignore_result=True)
def run_or_preview(request_id: str, request: dict[str, Any]) -> None:
    """The call of a client before version 0.2, for one release. Safe to repeat because jobs are."""
    action = "jobs.preview" if request.pop("dry_run", False) else "jobs.run"
    current_app.tasks[f"rpc.{action}"].run(request_id, request)
