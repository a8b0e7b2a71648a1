"""Schedules that are due run: a reminder is delivered, once for each time it was due."""

from __future__ import annotations

from datetime import datetime

from engine.growth.schedules.firing import MAKE_GOOD, Firing, firing
from jiyi.protocol.growth.schedules import ScheduleState
from models.db.connection import unit_of_work
from models.growth.due import FIRE
from models.growth.heartbeat import alerts
from models.growth.heartbeat.alerts import NewAlert
from models.growth.schedules import schedules
from models.queue import clock
from tasks.framework.work import Batch, work_task

#: Schedules that one transaction runs.
FIRE_BATCH = 100
#: What the title of a reminder says before its task.
SOURCE = "schedule"


@work_task(FIRE, batch=FIRE_BATCH, time_limit=60)
def fire_schedule(batch: Batch) -> None:
    """Deliver what is due, and note the run.

    Safe to repeat because a run is a row of its schedule and time, and that row, the alert, the next time and the receipt are one
    transaction, which holds the schedule's lock.
    """
    with unit_of_work() as connection:
        now = clock.now(connection)
    fire(batch, now)


def fire(batch: Batch, now: datetime) -> None:
    group_id = batch.scope.groups[0]
    told: list[NewAlert] = []
    with batch.finish() as (connection, owed):
        due = schedules.locked(connection, group_id, owed)
        known = schedules.known_runs(connection, group_id, list(due), now - 2 * MAKE_GOOD)
        done, waiting = [], []
        for schedule_id, schedule in due.items():
            if schedule.next_run_at is None:
                continue
            run = firing(schedules.timing(schedule), schedule.next_run_at, now)
            if run is None:  # it was resumed for later: the scan owes it when that comes
                waiting.append(schedule_id)
                continue
            alert = None if run.skipped or (schedule_id, run.due_at) in known else _alert(schedule, run, now)
            if alert is not None:
                told.append(alert)
            done.append((schedule_id, run, None if alert is None else alert.alert_id))
        alerts.add(connection, group_id, told, now)
        schedules.ran(connection, group_id, done, now)
        schedules.owed_no_more(connection, group_id, waiting)
    alerts.tell(group_id, told, now)


def _alert(schedule: ScheduleState, run: Firing, now: datetime) -> NewAlert:
    """What was asked for is no disturbance: it comes in quiet hours, too."""
    return NewAlert(
        agent_id=schedule.agent_id,
        source=SOURCE,
        subject=f"{schedule.id}/{run.due_at.isoformat()}",
        title=schedule.task_description or schedule.natural_description,
        content=schedule.natural_description,
        urgency="high",
        channel="all",
        deliver_at=now,
    )
