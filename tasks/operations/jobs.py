"""Scheduled jobs by hand: what one would do now. And answers about the archive."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any

from celery import current_app, shared_task

from jiyi.errors import InvalidRequest
from jiyi.operations import jobs
from jiyi.protocol import operations as ask
from jiyi.protocol.operations import RunJob, Tick
from models.accounts import audit
from models.db.actions import Actor
from models.db.connection import unit_of_work
from models.memory import archive
from models.operations.actions import preview_job
from models.retrieval import touches
from tasks.framework.inspection import inspects
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
