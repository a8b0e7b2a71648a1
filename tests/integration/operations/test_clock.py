"""A clock was three days ahead, and is put right: nothing is silent until the wrong time has come."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from celery import Celery
from sqlalchemy import text

from engine.operations import JOBS
from models.appointments import heartbeats
from models.db.connection import CLOCK_AHEAD, database_time, unit_of_work
from models.memory.work import EMBED
from models.queue import ticks
from tasks import appointments as schedules
from tasks.appointments import due_scan
from tasks.framework import jobs
from tasks.framework.jobs import Run
from tasks.operations import maintenance
from tests.integration.appointments import test_heartbeats, test_schedules
from tests.integration.appointments.conftest import nothing_due
from tests.integration.memory.test_inbox import execute, observed, rows, save
from workers import beat as beats

__all__ = ["nothing_due"]
pytestmark = pytest.mark.usefixtures("database", "nothing_owed", "nothing_due")

WRONG = timedelta(days=3)

SetClock = Callable[[timedelta], None]


@pytest.fixture(autouse=True)
def _no_run_ahead_is_left() -> Iterator[None]:
    yield
    execute("DELETE FROM schedule_runs WHERE due_at > now() + interval '1 day'")


@pytest.fixture
def set_clock() -> Iterator[SetClock]:
    """``set_clock(WRONG)``: the clock that jobs, schedules and heartbeats go by is so far ahead."""
    with pytest.MonkeyPatch.context() as patch:

        def set_ahead(ahead: timedelta) -> None:
            for module in (ticks, jobs, schedules):
                patch.setattr(module, "database_time", lambda connection: database_time(connection) + ahead)

        yield set_ahead


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[datetime]:
    """When the job ``expire_items`` ran; it has not, in any slot."""
    found: list[datetime] = []
    monkeypatch.setitem(jobs.FUNCTIONS, "expire_items", lambda run: found.append(run.now))
    execute("DELETE FROM job_ticks WHERE job = 'expire_items'")
    return found


def test_a_job_runs_by_the_right_clock_and_again_when_the_wrong_time_has_come(set_clock, ran):
    job = JOBS["expire_items"]
    for ahead in (WRONG, timedelta(0), timedelta(0), WRONG):
        set_clock(ahead)
        jobs.perform(job)
    assert len(ran) == 3


def test_a_run_that_died_while_the_clock_was_wrong_holds_up_no_other(set_clock, ran):
    job = JOBS["expire_items"]
    with unit_of_work() as connection:
        died = ticks.begin(connection, job.name, datetime.now(UTC) - timedelta(hours=1), 15)
        connection.execute(
            text("UPDATE job_ticks SET due_by = now() + interval '3 days' WHERE job = :job"),
            {"job": job.name},
        )
    assert died is not None
    jobs.perform(job)
    assert len(ran) == 1


def test_work_that_was_claimed_or_owed_while_the_clock_was_wrong_is_due_at_the_next_look(group: str) -> None:
    far, soon = observed(group, "far"), observed(group, "soon")
    save(far, soon)
    with unit_of_work() as connection:
        connection.execute(
            text("UPDATE pending_work SET due_at = now() + interval '3 days' WHERE subject_id = :id"),
            {"id": far.event_id},
        )
        connection.execute(
            text("UPDATE pending_work SET due_at = now() + interval '60 s' WHERE subject_id = :id"),
            {"id": soon.event_id},
        )
    run = Run("reconcile", datetime.now(UTC))
    with run.scope():
        maintenance.reconcile(run)
    due = {
        row["subject_id"]
        for row in rows("SELECT subject_id FROM pending_work WHERE kind = :k AND due_at <= now()", k=EMBED)
    }
    assert due == {far.event_id}  # what waits for its time still does


def test_a_schedule_that_ran_ahead_runs_at_its_next_time(group: str, set_clock: SetClock) -> None:
    schedule_id = test_schedules.create(group, "每10分钟提醒我喝水")
    test_schedules.due(schedule_id)
    set_clock(WRONG)
    test_schedules.scan()
    test_schedules.fire()
    assert _next_run(schedule_id) > datetime.now(UTC) + timedelta(days=2)
    set_clock(timedelta(0))
    assert test_schedules.scan()["clock_skew_repaired"] >= 1
    assert datetime.now(UTC) < _next_run(schedule_id) <= datetime.now(UTC) + timedelta(minutes=10)
    test_schedules.due(schedule_id)
    test_schedules.scan()
    test_schedules.fire()
    assert len(test_schedules.runs(group, schedule_id)) == 2  # too early, and in time
    assert test_schedules.scan()["clock_skew_repaired"] == 0


def test_a_heartbeat_that_beat_ahead_beats_again(group: str, set_clock: SetClock) -> None:
    test_heartbeats.configure(group, enabled=True)
    test_heartbeats.due(group)
    set_clock(WRONG)
    test_heartbeats.scan()
    assert test_heartbeats.beat() == 1
    set_clock(timedelta(0))
    assert test_heartbeats.scan()["clock_skew_repaired"] >= 1
    test_heartbeats.due(group)
    test_heartbeats.scan()
    assert test_heartbeats.beat() == 1
    (beat,) = rows("SELECT last_tick_at, next_tick_at FROM heartbeats WHERE group_id = :g", g=group)
    assert beat["last_tick_at"] < datetime.now(UTC) + CLOCK_AHEAD  # type: ignore[operator]
    assert beat["next_tick_at"] < datetime.now(UTC) + timedelta(hours=1)  # type: ignore[operator]


def test_what_was_configured_for_later_waits_without_being_looked_at_again_and_again(group: str) -> None:
    """It is owed by the scan when its time comes, not claimed and put off until then."""
    schedule_id = test_schedules.create(group)
    test_schedules.due(schedule_id)
    test_schedules.scan()
    execute(
        "UPDATE schedules SET next_run_at = now() + interval '3 hours' WHERE schedule_id = :id",
        id=schedule_id,
    )
    test_schedules.fire()
    assert rows("SELECT FROM pending_work WHERE subject_id = :id", id=schedule_id) == []
    test_schedules.due(schedule_id)
    test_schedules.scan()
    test_schedules.fire()
    assert len(test_schedules.alerts(group)) == 1


def test_an_alert_of_the_wrong_time_is_delivered(group: str) -> None:
    test_heartbeats.configure(group, enabled=True)
    ahead = datetime.now(UTC) + WRONG
    alert = heartbeats.NewAlert(
        agent_id="helper",
        source="schedule",
        title="water",
        content="",
        urgency="low",
        channel="ui",
        deliver_at=ahead + timedelta(hours=1),
    )
    with unit_of_work() as connection:
        heartbeats.add(connection, group, [alert], ahead)
    run = Run("due_scan", datetime.now(UTC))
    with run.scope():
        due_scan(run)
    (row,) = rows("SELECT delivered_at FROM alerts WHERE alert_id = :id", id=alert.alert_id)
    assert row["delivered_at"] is not None


def test_beat_sends_again_when_its_clock_is_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    app = Celery("test-beat", broker="memory://", set_as_current=False)
    app.conf.beat_schedule = {name: {"task": name, "schedule": 10.0} for name in ("one", "other")}
    scheduler = beats.CanaryScheduler(app=app, lazy=True)
    sent: list[str] = []
    monkeypatch.setattr(scheduler, "apply_entry", lambda entry, producer=None: sent.append(entry.task))
    scheduler.setup_schedule()
    app_now, real_time = app.now, time.time
    with monkeypatch.context() as wrong:
        wrong.setattr(app, "now", lambda: app_now() + WRONG)
        wrong.setattr(beats.time, "time", lambda: real_time() + WRONG.total_seconds())
        for entry in scheduler.schedule.values():
            entry.last_run_at = app.now() - timedelta(minutes=1)
        _run(scheduler, sent, 2)
    sent.clear()
    _run(scheduler, sent, 2)
    assert set(sent) >= {"one", "other"}


def _run(scheduler: Any, sent: list[str], count: int) -> None:
    """Tick as often as it wants to be ticked at once."""
    for _ in range(10 * count):
        if len({*sent} - {"celery.backend_cleanup"}) >= count:
            return
        scheduler.tick()


def _next_run(schedule_id: object) -> datetime:
    (row,) = rows("SELECT next_run_at FROM schedules WHERE schedule_id = :id", id=schedule_id)
    assert isinstance(row["next_run_at"], datetime)
    return row["next_run_at"]
