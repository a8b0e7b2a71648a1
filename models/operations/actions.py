"""What can be asked of the service as a whole, and done with it: scheduled jobs, counts, models, checks."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import cast

from engine import operations as jobs
from engine.providers import known
from engine.providers.llms import RULES, llm_endpoint
from jiyi.protocol.base import Count, Request, Rows
from jiyi.protocol.operations import JobState, RunJob, ServiceStats, Tick, TickRequest
from jiyi.settings import get_settings
from models.db import valkey_keys
from models.db.actions import Context, action, by_worker, read
from models.db.valkey import valkey
from models.operations import numbers
from models.queue import pending_work, ticks
from models.queue.wakeups import send
from models.retrieval import index_cache

#: Seconds; who asked for a run has given up by then, and it would come as a surprise.
RUN_EXPIRES = 600


@action("jobs.list")
def list_jobs(context: Context, request: Request) -> Rows[JobState]:
    """List scheduled jobs.

    Every job with its last run and its next one. Jobs are the whole service's, so this needs an operator's
    key.
    """
    return Rows(rows=numbers.job_states(context.connection, get_settings(), datetime.now(UTC)))


@action("jobs.run")
def run_job(context: Context, request: RunJob) -> Tick:
    """Run a scheduled job now.

    Beside its schedule; a worker begins it at once. Jobs may be run as often as one likes.
    """
    job, now = jobs.find(request.job), datetime.now(UTC)
    group_id = None if request.whole_service else context.group_id
    context.audit(f"job:{job.name}", group_id=group_id, slot=now, whole_service=request.whole_service)
    # Before the commit: what cannot be sent leaves no audit row.
    send(job.task, job.queue, [now.isoformat(), group_id], RUN_EXPIRES)
    return Tick(job=job.name, slot=now)


@action("jobs.tick")
def get_tick(context: Context, request: TickRequest) -> Tick | None:
    """How far a run is that was begun by hand; nothing until a worker has begun it."""
    return ticks.find(context.connection, request.job, request.slot)


@action("stats.show")
def show_stats(context: Context, request: Request) -> ServiceStats:
    """Count what is stored of the group, and of the whole service its pending work, its counters and its
    agent indexes.
    """
    counted = cast("dict[bytes, bytes]", valkey().hgetall(valkey_keys.COUNTERS))
    return ServiceStats(
        group_id=context.group_id,
        counts=numbers.counts(context.connection, context.group_id),
        work_owed=pending_work.by_kind(context.connection),
        counters={name.decode(): int(value) for name, value in counted.items()},
        access_buffered=valkey().zcard(valkey_keys.ACCESS),
        indexes=index_cache.reports(),
    )


@read(scope="read")
def count_group(context: Context, request: Request) -> ServiceStats:
    """Count what is stored.

    Agents, events and memories of the key's group, and the work that they wait for.
    """
    connection, group_id = context.connection, context.group_id
    counted, work = numbers.counts(connection, group_id), pending_work.by_kind(connection, group_id)
    return ServiceStats(group_id=group_id, counts=counted, work_owed=work)


show_llms = by_worker("llms.show")
show_embedders = by_worker("embedders.show")
step_reembedding = by_worker("reembedding.step")


@action("llms.forget")
def forget_llm(context: Context, request: Request) -> Count:
    """Have the LLM in use asked again what it can do.

    Before its next question; what its server takes is found out again as well, and prompts that rules have
    for a while are tried again.
    """
    settings = get_settings()
    if is_asked := settings.llm != RULES:  # which are known
        known.forget(llm_endpoint(settings))
    context.audit(settings.llm)
    return Count(count=int(is_asked))
