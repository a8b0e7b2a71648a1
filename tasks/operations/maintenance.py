"""Jobs that keep the service in order, and the canary of each queue."""

from __future__ import annotations

import logging
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from celery import shared_task

from engine.operations import BACKUP_SECONDS, JOBS
from engine.providers import breakers, llms
from engine.providers.llm_prompts import on_question, on_usage
from engine.providers.spec import has_key
from engine.providers.verdicts import verdict
from jiyi.errors import BrokerUnavailable, SettingsError
from jiyi.protocol.operations import LLMsRequest
from jiyi.protocol.providers import PRESETS, ActiveLLM, LLMReport, Vendor
from jiyi.settings import get_settings
from models.accounts import audit
from models.db.actions import Actor
from models.db.connection import CLOCK_AHEAD, unit_of_work
from models.memory import access, nodes
from models.operations import backups, budgets, numbers, worker_liveness
from models.operations.actions import show_llms
from models.operations.backups import BackupError
from models.queue import pending_work, stream, ticks
from models.queue.broker_queues import task_queues
from models.queue.wakeups import send, wake
from models.retrieval import records
from tasks.erasure import TRY_AGAIN_MAX
from tasks.framework.jobs import LOOK_SECONDS, BeatEntry, Run, job
from tasks.framework.rpc import implements
from tasks.framework.work import KINDS, MAX_ATTEMPTS, MAX_BACKOFF_SECONDS, summary

log = logging.getLogger(__name__)
#: Days after which dead letters that were replayed or discarded are deleted.
LETTERS_DAYS = 180
#: Days after which runs of jobs are deleted.
TICKS_DAYS = 30
#: Rows deleted by one transaction.
PRUNE_BATCH = 1_000
#: Rows of pending work that one run makes due earlier.
BROUGHT_FORWARD = 10_000
#: Days: a service older than this needs a backup that is younger, or the check fails.
MAX_AGE_DAYS = 7
#: Seconds; it takes a millisecond.
TIME_LIMIT = 10


@job("reconcile")
def reconcile(run: Run) -> None:
    """Wake what is overdue, make dead letters of exhausted attempts, write what was left buffered.

    Safe to repeat because what became a dead letter or was written is no longer there.
    """
    with unit_of_work() as connection:
        run.summary.update(summary(overdue := pending_work.due_counts(connection)))
    with unit_of_work() as connection:
        run.count(brought_forward=pending_work.bring_forward(connection, _longest_wait(), BROUGHT_FORWARD))
        letters = {kind: pending_work.dead_letter_exhausted(connection, kind, MAX_ATTEMPTS) for kind in KINDS}
        run.count(buried=sum(sum(groups.values()) for groups in letters.values()))
        run.summary["jobs_found_dead"] = dead = ticks.fail_overdue(connection)
    for name in set(dead) & JOBS.keys():  # beat looks again in a minute
        with suppress(BrokerUnavailable):
            send(JOBS[name].task, JOBS[name].queue, [], LOOK_SECONDS)
    for kind, groups in letters.items():
        stream.opened(kind, groups)
    wake(*overdue)
    run.count(accesses_recovered=access.recover().nodes, retrievals_written=records.flush())


def _longest_wait() -> float:
    """Seconds: no pending work is due later than this from now, unless it was enqueued by a wrong clock."""
    settings = get_settings()
    waits = (
        settings.work_lease_seconds,
        MAX_BACKOFF_SECONDS,
        settings.extract_window_seconds + settings.extract_wait_seconds,
        TRY_AGAIN_MAX,
        *(kind.due_ahead for kind in KINDS.values()),
    )
    return max(waits) + CLOCK_AHEAD.total_seconds()


@job("recompute_kw_strength")
def recompute_kw_strength(run: Run) -> None:
    """Recount keyword strengths from the memories, and repair what differs.

    Safe to repeat because the difference is worked out under a lock, and a second look finds none.
    """
    for group_id, agent_id in run.agents():
        with unit_of_work() as connection:
            drift = nodes.repair(connection, group_id, agent_id)
            if drift.keywords:
                who: dict[str, Any] = {"group_id": group_id, "actor": run.actor, "target": agent_id}
                off: dict[str, Any] = {"keywords": drift.keywords, "off_by": drift.off_by}
                audit.record(connection, action="recompute_kw_strength", **who, **off)
        run.count(agents=1, keywords_off=drift.keywords)
        if drift.keywords and len(drifts := run.summary.setdefault("drift", [])) < nodes.MAX_SHOWN:
            drifts.append({"group_id": group_id, "agent_id": agent_id, **off})


@job("prune")
def prune(run: Run) -> None:
    """Delete what is old: of each table after its days. Safe to repeat because it is no longer found."""
    settings = get_settings()
    ages = {"events": settings.prune_events_days, "dead_letters": LETTERS_DAYS, "job_ticks": TICKS_DAYS}
    ages |= {"retrievals": records.KEPT_DAYS, **numbers.OTHER_AGES}
    for table, days in ages.items():
        if not days:
            continue
        before = run.now - timedelta(days=days)
        delete = partial(numbers.delete_old, table=table, before=before, limit=PRUNE_BATCH)
        deleted = run.repeat(delete, PRUNE_BATCH)
        run.count(**{table: deleted})
        if deleted and table == "events":
            with unit_of_work() as connection:
                who: dict[str, Any] = {"group_id": run.group_id, "actor": run.actor, "action": "prune"}
                audit.record(connection, **who, target=table, count=deleted, before=before)


@job("snapshot")
def take_snapshot(run: Run) -> None:
    """Count queues, pending work, dead letters and delays. Safe to repeat because it only reads."""
    with unit_of_work() as connection:
        run.summary.update(numbers.stored(connection))
    run.summary.update(numbers.queued())


@job("backup")
def back_up(run: Run) -> None:
    """Back the database up to a new file. Safe to repeat because a backup overwrites nothing."""
    backup = backups.make(keep=get_settings().backup_keep, seconds=BACKUP_SECONDS)
    run.summary.update(file=str(backup.path), bytes=backup.bytes)


@job("verify_backup")
def verify_backup(run: Run) -> None:
    """Look whether there is a backup that is young enough and can be read; one is wanted where the job
    ``backup`` is on, or there was one.

    Safe to repeat because it only reads.
    """
    longest = timedelta(days=MAX_AGE_DAYS)
    newest = next(iter(backups.existing()), None)
    with backups.connect() as connection:
        since = backups.first_stored(connection)
    is_expected = since is not None and run.now - since > longest
    if newest is None:
        if is_expected and get_settings().backup_hours:
            raise BackupError(f"there is no backup in {backups.folder()}: make one with `jiyi backup`")
        run.summary["backup"] = None
        return
    age = run.now - backups.made_at(newest)
    days = round(age / timedelta(days=1), 1)
    run.summary.update(backup=str(newest), age_days=days, tables=backups.verify(newest))
    if is_expected and age > longest:
        raise BackupError(f"the newest backup, {newest}, is {age.days} days old, more than {longest.days}")


@implements(show_llms)
def llm_report(actor: Actor, request: LLMsRequest) -> LLMReport:
    """Safe to repeat because it only reads."""
    first_day = (datetime.now(UTC) - timedelta(days=request.days - 1)).date()
    with unit_of_work() as connection:
        usage = numbers.usage_since(connection, actor.group_id, first_day)
    active = _active()
    vendors = [
        Vendor(
            vendor=name,
            model=preset.chat_model,
            needs_key=preset.needs_key,
            key=has_key(preset) or (active.vendor == name and active.problem is None and preset.needs_key),
        )
        for name, preset in PRESETS.items()
    ]
    return LLMReport(active=active, vendors=vendors, days=request.days, usage=usage)


def _active() -> ActiveLLM:
    settings = get_settings()
    if settings.llm == llms.RULES:
        return ActiveLLM(vendor=llms.RULES, model=llms.llm().model, breaker=None, problem=None)
    try:
        endpoint = llms.llm_endpoint(settings)
    except SettingsError as error:
        return ActiveLLM(vendor=None, model=settings.llm, breaker=None, problem=str(error))
    missing = endpoint.preset.needs_key and endpoint.api_key is None
    outcome = verdict(endpoint)
    return ActiveLLM(
        tried=list(outcome.results),
        left_to_rules=outcome.prompts_by_rules(),
        vendor=endpoint.spec.vendor,
        model=str(endpoint.spec),
        breaker=breakers.read_state(endpoint.breaker),
        problem=f"no key: set {endpoint.key_names}" if missing else None,
    )


@shared_task(name=worker_liveness.TASK, bind=True, ignore_result=True, acks_late=False, time_limit=TIME_LIMIT)
def canary(self: Any, queue: str, sent_at: float | None = None) -> None:
    """Note that somebody reads ``queue``. Safe to repeat because it notes the latest time.

    Anybody may send one: so it counts for the queue that it came through, and for no longer a wait than beat
    knows of.
    """
    came_through = (self.request.delivery_info or {}).get("routing_key")
    if queue != came_through or queue not in task_queues():
        log.warning("ignored a canary: its queue name does not match")
        return
    now = time.time()
    sent = now if sent_at is None else float(sent_at)
    worker_liveness.record_canary(
        queue, sent if now - worker_liveness.CANARY_FORGOTTEN_AFTER <= sent <= now else now
    )


def canary_schedule() -> dict[str, BeatEntry]:
    """What beat sends, if it is due (``workers.beat``)."""
    return {
        f"{worker_liveness.TASK} {queue}": {
            "task": worker_liveness.TASK,
            "schedule": worker_liveness.CANARY_EVERY,
            "args": (queue,),
            "options": {"queue": queue, "retry": False},
        }
        for queue in task_queues()
    }


on_usage(numbers.record_usage)
on_question(budgets.allow)
