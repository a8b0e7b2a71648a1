"""Jobs that keep the service itself in order."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from functools import partial

from engine.operations.jobs import JOBS
from jiyi.errors import BrokerUnavailable
from jiyi.settings import get_settings
from models.accounts import audit
from models.growth import due
from models.growth.trajectories.storing import SILENCE_MINUTES
from models.memory.agents import strength
from models.memory.nodes import access
from models.operations import prune as pruning
from models.operations import snapshot
from models.queue import clock, news, pending_work, ticks
from models.queue.wakeups import send, wake
from models.retrieval import records
from tasks.erasure.outside import TRY_AGAIN_MAX
from tasks.framework.jobs import LOOK_SECONDS, Run, job
from tasks.framework.work import KINDS, MAX_ATTEMPTS, MAX_BACKOFF_SECONDS, summary

#: Days after which raw steps are deleted; what they were compressed to stays.
TRAJECTORY_DAYS = 7
#: Days after which dead letters that were replayed or discarded are deleted.
LETTERS_DAYS = 180
#: Days after which runs of jobs are deleted.
TICKS_DAYS = 30
#: Days after which stores of a graph's run that nobody used, and the log of what nodes did with stores, are deleted.
RUNS_DAYS = 7

#: Rows deleted by one transaction.
PRUNE_BATCH = 1_000
#: Rows of pending work that one run brings forward.
BROUGHT_FORWARD = 10_000


@job("reconcile")
def reconcile(run: Run) -> None:
    """Wake what is overdue, make dead letters of what used up its attempts, write what was buffered and left behind.

    Safe to repeat because waking is harmless, and what became a dead letter or was written is no longer there.
    """
    with run.transaction() as connection:
        run.summary.update(summary(overdue := pending_work.due_counts(connection)))
    if run.dry:
        return
    with run.transaction() as connection:
        run.count(brought_forward=pending_work.bring_forward(connection, _longest_wait(), BROUGHT_FORWARD))
        letters = {kind: pending_work.dead_letter_exhausted(connection, kind, MAX_ATTEMPTS) for kind in KINDS}
        run.count(buried=sum(sum(groups.values()) for groups in letters.values()))
        run.summary["jobs_found_dead"] = dead = ticks.fail_overdue(connection)
    for name in set(dead) & JOBS.keys():  # beat looks again in a minute
        with suppress(BrokerUnavailable):
            send(JOBS[name].task, JOBS[name].queue, [], LOOK_SECONDS)
    for kind, groups in letters.items():
        news.opened(kind, groups)
    wake(*overdue)
    run.count(accesses_recovered=access.recover().nodes, retrievals_written=records.flush())


def _longest_wait() -> float:
    """Seconds: no work is owed for later than this from now on, unless the clock was wrong when it was."""
    settings = get_settings()
    waits = (
        settings.work_lease_seconds,
        MAX_BACKOFF_SECONDS,
        settings.extract_window_seconds + settings.extract_wait_seconds,
        SILENCE_MINUTES * 60,
        TRY_AGAIN_MAX,
        due.AHEAD.total_seconds(),
    )
    return max(waits) + clock.AHEAD.total_seconds()


@job("recompute_kw_strength")
def recompute_kw_strength(run: Run) -> None:
    """Count keyword strengths anew from the memories, and repair what differs.

    Safe to repeat because the difference is worked out under a lock, and a second look finds none.
    """
    for group_id, agent_id in run.agents():
        with run.transaction() as connection:
            look = strength.drift if run.dry else strength.repair
            drift = look(connection, group_id, agent_id)
            if drift.keywords and not run.dry:
                audit.record(
                    connection,
                    group_id=group_id,
                    actor=run.actor,
                    action="recompute_kw_strength",
                    target=agent_id,
                    keywords=drift.keywords,
                    off_by=drift.off_by,
                )
        run.count(agents=1, keywords_off=drift.keywords)
        if drift.keywords and len(found := run.summary.setdefault("drift", [])) < strength.MAX_SHOWN:
            found.append({"group_id": group_id, "agent_id": agent_id, "keywords": drift.keywords, "off_by": drift.off_by})


@job("prune")
def prune(run: Run) -> None:
    """Delete what is old: events (if asked to), closed dead letters, runs of jobs and graphs, steps of conversations, what was asked.

    Safe to repeat because what is deleted is no longer found.
    """
    settings = get_settings()
    ages = {"events": settings.prune_events_days, "dead_letters": LETTERS_DAYS, "job_ticks": TICKS_DAYS}
    ages |= {"trajectory_events": TRAJECTORY_DAYS, "retrievals": records.KEPT_DAYS}
    ages |= dict.fromkeys(("store_operations", "stores"), RUNS_DAYS)
    for table, days in ages.items():
        if not days:
            continue
        before = run.now - timedelta(days=days)
        if run.dry:
            with run.transaction() as connection:
                run.count(**{table: pruning.count(connection, table, before)})
            continue
        deleted = run.repeat(partial(pruning.delete, table=table, before=before, limit=PRUNE_BATCH), PRUNE_BATCH)
        run.count(**{table: deleted})
        if deleted and table == "events":
            with run.transaction() as connection:
                audit.record(connection, group_id=run.group_id, actor=run.actor, action="prune", target=table, count=deleted, before=before)


@job("snapshot")
def take_snapshot(run: Run) -> None:
    """Count queues, work owed, dead letters and delays, for plots and for looking back.

    Safe to repeat because it only reads.
    """
    with run.transaction() as connection:
        run.summary.update(snapshot.stored(connection))
    run.summary.update(snapshot.queued())
