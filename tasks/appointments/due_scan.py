"""The job that finds whose time has come: one scan a minute, however many agents there are."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import partial

from sqlalchemy import Connection

from models.appointments import heartbeats, schedules
from models.growth import self_review
from models.queue import stream
from models.queue.wakeups import wake_at
from models.reflection.reflections import REFLECT
from tasks.framework.jobs import Run, job

#: Rows of one transaction.
SCAN_BATCH = 500

_OWE: dict[str, Callable[[Connection, datetime, int], list[datetime]]] = {
    schedules.FIRE: schedules.owe_schedules,
    schedules.HEARTBEAT: schedules.owe_heartbeats,
    REFLECT: self_review.owe_hours,
}


@job("due_scan")
def due_scan(run: Run) -> None:
    """Owe the runs of schedules, heartbeats and self-reviews that are due, and deliver alerts whose quiet hours are over.

    Safe to repeat because what is owed for a time is not found again for it, and what is delivered is not delivered again.
    """
    if run.dry:
        with run.transaction() as connection:
            due_schedules, due_heartbeats = schedules.count_due(connection, run.now)
        run.count(fire_schedule=due_schedules, heartbeat=due_heartbeats)
        return
    run.repeat(partial(_repair_clock, run), SCAN_BATCH)
    for kind, owe in _OWE.items():
        _owe(run, kind, owe)
    _deliver(run)


def _repair_clock(run: Run, connection: Connection) -> int:
    """What ran by a clock that was ahead, and would be silent until that time has come, is due by the right one again."""
    repaired = [put_right(connection, run.now, SCAN_BATCH) for put_right in (schedules.set_right, heartbeats.set_right)]
    run.count(set_right=sum(repaired))
    return max(repaired)


def _owe(run: Run, kind: str, owe: Callable[[Connection, datetime, int], list[datetime]]) -> None:
    times: set[datetime] = set()

    def step(connection: Connection) -> int:
        owed = owe(connection, run.now, SCAN_BATCH)
        times.update(owed)
        run.count(**{kind: len(owed)})
        return len(owed)

    run.repeat(step, SCAN_BATCH)
    for moment in sorted(times):
        wake_at(kind, moment)


def _deliver(run: Run) -> None:
    told: list[stream.News] = []

    def step(connection: Connection) -> int:
        delivered = heartbeats.deliver(connection, run.now, SCAN_BATCH)
        told.extend(delivered)
        run.count(delivered=len(delivered))
        return len(delivered)

    run.repeat(step, SCAN_BATCH)
    stream.publish_all(told)
