"""Appointments: what a message asks of them is done; one scan a minute finds what is due, once each time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import TypeVar

from sqlalchemy import Connection

from engine.appointments.parse import judge_request
from engine.appointments.schedule import CATCH_UP, Firing, firing
from engine.heads.local import heads
from jiyi.protocol.appointments import AskedSchedules, AskSchedules, ScheduleState
from models.appointments import heartbeats, schedule_actions, schedules
from models.appointments.heartbeats import NewAlert
from models.appointments.schedules import AHEAD, FIRE, HEARTBEAT
from models.db.actions import Actor, Context
from models.db.connection import database_time, unit_of_work
from models.growth import self_review
from models.memory.agents import time_zone
from models.queue import stream
from models.queue.wakeups import wake_at
from models.reflection.reflections import REFLECT
from tasks.framework.jobs import Run, job
from tasks.framework.rpc import implements
from tasks.framework.work import Batch, work_task

T = TypeVar("T")

#: Schedules that one transaction runs.
FIRE_BATCH = 100
#: The source of an alert that a schedule delivers.
ALERT_SOURCE = "schedule"
#: Agents that one transaction sees to.
HEARTBEAT_BATCH = 50
#: Rows of one transaction.
SCAN_BATCH = 500
_ENQUEUERS: dict[str, Callable[[Connection, datetime, int], list[datetime]]] = {
    FIRE: schedules.enqueue_schedules,
    HEARTBEAT: schedules.enqueue_heartbeats,
    REFLECT: self_review.enqueue_reviews,
}


@work_task(FIRE, batch=FIRE_BATCH, time_limit=60, due_ahead=AHEAD.total_seconds())
def fire_schedule(batch: Batch) -> None:
    """Deliver what is due, and note the run.

    Safe to repeat because a run is a row of its schedule and time, in one transaction with the alert, the
    next time and the receipt.
    """
    with unit_of_work() as connection:
        now = database_time(connection)
    fire(batch, now)


def fire(batch: Batch, now: datetime) -> None:
    group_id = batch.scope.groups[0]
    alerts: list[NewAlert] = []
    with batch.finish() as (connection, pending):
        due = schedules.locked(connection, group_id, pending)
        known_runs = schedules.known_runs(connection, group_id, list(due), now - 2 * CATCH_UP)
        runs, waiting = [], []
        for schedule_id, schedule in due.items():
            if schedule.next_run_at is None:
                continue
            run = firing(schedules.timing_of(schedule), schedule.next_run_at, now)
            if run is None:  # it was resumed for later: the scan enqueues it then
                waiting.append(schedule_id)
                continue
            alert = (
                None if run.skipped or (schedule_id, run.due_at) in known_runs else _alert(schedule, run, now)
            )
            if alert is not None:
                alerts.append(alert)
            runs.append((schedule_id, run, None if alert is None else alert.alert_id))
        heartbeats.add(connection, group_id, alerts, now)
        schedules.note_runs(connection, group_id, runs, now)
        schedules.clear_pending(connection, group_id, waiting)
    heartbeats.publish_delivered(group_id, alerts, now)


def _alert(schedule: ScheduleState, run: Firing, now: datetime) -> NewAlert:
    """What was asked for is no disturbance: it comes in quiet hours, too."""
    return NewAlert(
        agent_id=schedule.agent_id,
        source=ALERT_SOURCE,
        subject=f"{schedule.id}/{run.due_at.isoformat()}",
        title=schedule.task_description or schedule.natural_description,
        content=schedule.natural_description,
        urgency="high",
        channel="all",
        target_type=None if schedule.target_type == "reminder" else schedule.target_type,
        target_id=schedule.target_id,
        deliver_at=now,
    )


@implements(schedule_actions.ask)
def do_request(actor: Actor, request: AskSchedules) -> AskedSchedules:
    """Safe to repeat because what was done for a ``request_id`` is not done again."""
    judge, now = heads(), datetime.now(UTC)
    intent = judge_request(
        request.text, now, partial(_time_zone, actor, request), judge, request.completes or ""
    )
    if intent.kind is None:
        return AskedSchedules(certainty="none")
    similarity = None if judge is None else judge.similarities

    def perform(context: Context, request: AskSchedules) -> AskedSchedules:
        if intent.parsed is not None:
            return schedule_actions.do_new(context, request, intent.parsed, now)
        return schedule_actions.do_request(context, request, intent, similarity)

    result: AskedSchedules = replace(schedule_actions.ask, function=perform).perform(actor, request)
    return result


def _time_zone(actor: Actor, request: AskSchedules) -> str:
    if request.tz is not None:
        return request.tz
    with unit_of_work() as connection:
        return time_zone(connection, actor.group_id, request.agent_id)


@work_task(HEARTBEAT, batch=HEARTBEAT_BATCH, time_limit=60, due_ahead=AHEAD.total_seconds())
def heartbeat(batch: Batch) -> None:
    """Let agents look after their reminders, memories, open problems and people.

    Safe to repeat because a tick is a row of its agent and time, in one transaction with the alerts, the next
    time and the receipt.
    """
    with unit_of_work() as connection:
        now = database_time(connection)
    tick_due(batch, now)


def tick_due(batch: Batch, now: datetime) -> None:
    group_id = batch.scope.groups[0]
    alerts: list[NewAlert] = []
    with batch.finish() as (connection, pending):
        for row in heartbeats.locked(connection, group_id, pending):
            due_at = row.next_tick_at
            if due_at is None or heartbeats.has_ticked(connection, (group_id, row.agent_id), due_at):
                continue
            if due_at > now:  # it was reconfigured: the scan enqueues it when it is due
                heartbeats.clear_pending(connection, (group_id, row.agent_id))
                continue
            alerts += heartbeats.tick(connection, row, due_at, now)[1]
    heartbeats.publish_delivered(group_id, alerts, now)


@job("due_scan")
def due_scan(run: Run) -> None:
    """Enqueue the runs of schedules, heartbeats and self-reviews that are due, and deliver alerts whose quiet
    hours are over.

    Safe to repeat because what was enqueued for a time, or delivered, is not found again.
    """
    run.repeat(partial(_repair_clock, run), SCAN_BATCH)
    for kind, enqueue in _ENQUEUERS.items():
        for moment in sorted(set(_batches(run, kind, enqueue))):
            wake_at(kind, moment)
    stream.publish_all(_batches(run, "delivered", heartbeats.deliver))


def _repair_clock(run: Run, connection: Connection) -> int:
    """Reschedule what ran while the clock was ahead."""
    of_both = (schedules.repair_clock_skew, heartbeats.repair_clock_skew)
    repaired = [repair(connection, run.now, SCAN_BATCH) for repair in of_both]
    run.count(clock_skew_repaired=sum(repaired))
    return max(repaired)


def _batches(run: Run, counted: str, take: Callable[[Connection, datetime, int], list[T]]) -> list[T]:
    """All that ``take`` finds, a transaction for each batch."""
    results: list[T] = []

    def step(connection: Connection) -> int:
        batch = take(connection, run.now, SCAN_BATCH)
        results.extend(batch)
        run.count(**{counted: len(batch)})
        return len(batch)

    run.repeat(step, SCAN_BATCH)
    return results
