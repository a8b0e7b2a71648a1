"""Scheduled jobs by hand: what one would do now."""

from __future__ import annotations

import time
from datetime import UTC, datetime

from engine.operations import jobs
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
