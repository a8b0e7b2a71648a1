"""Scheduled jobs. Each tick is a unique row, so two beats are harmless."""

from __future__ import annotations

from datetime import UTC, datetime

from celery import shared_task

from jiyi.settings import get_settings
from models import access, ticks, work
from models.base import unit_of_work
from tasks.work import KINDS, summary, wake


@shared_task(name="maintenance.reconcile", time_limit=60, ignore_result=True)
def reconcile() -> None:
    """Wake what is overdue, bury what used up its attempts, write access buffers that were left behind.

    Safe to repeat because waking is harmless, and the tick is a unique row.
    """
    interval = get_settings().reconcile_seconds
    slot = datetime.fromtimestamp(datetime.now(UTC).timestamp() // interval * interval, UTC)
    with unit_of_work() as connection:
        if not ticks.begin(connection, "reconcile", slot):
            return
    with unit_of_work() as connection:
        buried = sum(work.bury_exhausted(connection, kind, get_settings().work_max_attempts) for kind in KINDS)
        due = work.due_counts(connection)
    wake(*due)
    recovered = access.recover()
    with unit_of_work() as connection:
        result = {**summary(due), "buried": buried, "accesses_recovered": recovered.nodes}
        ticks.end(connection, "reconcile", slot, result)
