"""Workers for operators: what each does, how tasks fare, and pause, resume, drain, stop."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import cast

from sqlalchemy import Connection

from jiyi.errors import NotFound
from jiyi.protocol.base import Count, Request
from jiyi.protocol.operations import (
    SetWorkerMode,
    TaskFigures,
    TaskInHand,
    WorkerMode,
    WorkersReport,
    WorkerState,
)
from jiyi.protocol.wire.signatures import call_signature, need_secret_key, service_call_key
from jiyi.settings import get_settings
from models.accounts import audit
from models.db import valkey_keys
from models.db.actions import Context, action
from models.db.valkey import valkey
from models.operations import histograms, meters, worker_liveness
from models.operations.health_checks import STOPPED_SECONDS
from models.operations.worker_liveness import Worker
from models.queue import pending_work

#: Seconds that a desired state is kept, and counts; and the least seconds by which one is later than the
#: one before it.
KEPT_SECONDS, LATER = 30 * 86_400, 0.001


@dataclass(frozen=True, slots=True)
class DesiredState:
    """The desired state of a worker, by its name; the worker reads it with its heartbeat.

    Signed with the service's secret and dated, so that write access to Valkey alone stops no worker. An older
    one that is written back loses against one read before, or in the audit log
    (``workers.worker_setup.Modes``).
    """

    mode: WorkerMode = "running"
    #: Epoch seconds at which it was written.
    at: float = 0.0
    #: Who wants it, as the audit log names them.
    by: str = ""


def write_desired_state(worker: str, mode: WorkerMode, by: str = "") -> str:
    """Write what the worker of this name shall do; its date, as written. Raises what Valkey raises."""
    # later than the last, also where that host's clock is ahead
    at = f"{max(time.time(), find_desired_state(worker).at + LATER):.3f}"
    fields = {"mode": mode, "at": at, "by": by, "signature": _signature(worker, mode, at, by)}
    valkey().set(valkey_keys.worker_desired_state(worker), json.dumps(fields), ex=KEPT_SECONDS)
    return at


def find_desired_state(worker: str) -> DesiredState:
    """What is wanted of the worker: to run, unless somebody who knows the secret says otherwise."""
    payload = cast("bytes | None", valkey().get(valkey_keys.worker_desired_state(worker)))
    try:
        fields = json.loads(payload or b"{}")
        if fields and fields["signature"] == _signature(worker, fields["mode"], fields["at"], fields["by"]):
            desired = DesiredState(fields["mode"], float(fields["at"]), fields["by"])
            return desired if desired.at > time.time() - KEPT_SECONDS else DesiredState()
    except (ValueError, KeyError, TypeError):  # of another version, or nobody's
        return DesiredState()
    return DesiredState()


def _signature(worker: str, mode: str, at: str, by: str) -> str:
    return call_signature(
        service_call_key(need_secret_key(get_settings())), "workers.wish", at, [worker, mode, by], {}
    )


def last_desired_state(connection: Connection, worker: str) -> DesiredState:
    """The latest that the audit log knows, which nobody writes back; to run if there is none that counts."""
    entry = audit.latest(connection, f"worker:{worker}", datetime.now(UTC) - timedelta(seconds=KEPT_SECONDS))
    if entry is None or "at" not in entry.details:
        return DesiredState()
    return DesiredState(entry.details["mode"], float(entry.details["at"]), entry.actor)


#: Minutes of which runs are counted.
MINUTES = 60


@action("workers.list")
def list_workers(context: Context, request: Request) -> WorkersReport:
    """List workers.

    Each process with what it has in hand and how it goes about; each task's runs, failures and durations; and
    what is tried again, when.
    """
    return workers_report(context.connection)


def workers_report(connection: Connection) -> WorkersReport:
    """Processes, tasks, and pending work that is tried again."""
    retries = [row for row in pending_work.by_kind(connection) if row.next_retry is not None]
    return WorkersReport(
        workers=[_state(worker) for worker in worker_liveness.workers()], tasks=_figures(), retries=retries
    )


def _state(worker: Worker) -> WorkerState:
    report, desired = worker.report, find_desired_state(worker.name)
    return WorkerState(
        worker_id=worker.worker_id,
        worker=worker.name,
        host=worker.worker_id.rpartition(":")[0],
        version=report.version,
        queues=list(worker.queues),
        mode=report.mode,
        wished=desired.mode,
        wished_by=desired.by or None,
        wished_at=datetime.fromtimestamp(desired.at, UTC) if desired.at else None,
        seen_seconds_ago=worker.seen_seconds_ago,
        silent=worker.ended or worker.seen_seconds_ago > STOPPED_SECONDS,
        in_hand=[
            TaskInHand(task=task, since=datetime.fromtimestamp(since, UTC)) for task, since in report.in_hand
        ],
        tasks_a_minute=report.tasks_a_minute,
        rss_bytes=report.rss_bytes,
    )


def _figures() -> list[TaskFigures]:
    counted, quantiles = (
        meters.series(MINUTES, MINUTES)["tasks"],
        histograms.quantiles(histograms.RUN, (0.5, 0.95)),
    )
    return [
        TaskFigures(
            task=task,
            runs=int(sum(ends["done"]) + sum(ends["failed"]) + sum(ends["retried"])),
            failed=int(sum(ends["failed"])),
            retried=int(sum(ends["retried"])),
            p50_seconds=quantiles.get(task, (None, None))[0],
            p95_seconds=quantiles.get(task, (None, None))[1],
        )
        for task, ends in counted.items()
    ]


@action("workers.set_mode")
def set_worker_mode(context: Context, request: SetWorkerMode) -> Count:
    """Have a worker run, pause, drain or stop.

    A paused one finishes what it has in hand, and takes nothing new; a draining one then ends; a stopped one
    ends within ten seconds, and what it had in hand is begun again by another. A worker that starts under the
    same name waits until its mode is running again.
    """
    if request.worker not in {worker.name for worker in worker_liveness.workers()}:
        raise NotFound(f"There is no worker {request.worker!r}: workers.list names them.")
    # before the commit: what cannot be written leaves no audit row
    at = write_desired_state(request.worker, request.mode, context.actor.name)
    context.audit(f"worker:{request.worker}", group_id=None, mode=request.mode, at=at)
    return Count(count=1)
