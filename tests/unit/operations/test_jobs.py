"""Jobs without a database: slots, schedules, what beat sends, when a run stops."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.operations import DAY, HOUR, JOBS, JobSchedule, find
from jiyi.errors import NotFound, SettingsError
from jiyi.protocol.operations import Tick
from jiyi.settings import Settings, get_settings
from models.operations import health_checks as health
from tasks.framework import jobs
from tasks.framework.jobs import Run, beat_schedule

CHECKOUT = Path(__file__).resolve().parents[3]
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
#: All that can be switched off.
OFF = {"jobs_off": ", ".join(JOBS.keys() - {"reconcile"})}


def test_a_slot_is_the_last_tick_at_or_before_now():
    seconds, minutes = timedelta(seconds=1), timedelta(minutes=1)
    for schedule, now, slot, text in (
        (JobSchedule(30), NOON + 59 * seconds, NOON + 30 * seconds, "every 30 s"),
        (JobSchedule(300), NOON, NOON, "every 5 min"),
        (JobSchedule(HOUR), NOON + 59 * minutes, NOON, "every 1 h"),
        (JobSchedule(DAY, 3 * HOUR), NOON, NOON - 540 * minutes, "daily at 03:00 UTC"),
        (JobSchedule(DAY, 13 * HOUR), NOON, NOON - 23 * 60 * minutes, "daily at 13:00 UTC"),
        (JobSchedule(6 * HOUR), NOON - seconds, NOON - 360 * minutes, "every 6 h"),
    ):
        assert schedule.slot(now) == slot
        assert schedule.words == text


@given(
    st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC)),
    st.integers(1, 90_000),
    st.integers(0, 23),
)
def test_slots_are_where_they_are_however_the_clock_moves(now: datetime, every: int, hour: int) -> None:
    schedule = JobSchedule(every, hour * HOUR)
    slot = schedule.slot(now)
    assert timedelta() <= now - slot < timedelta(seconds=every)
    assert schedule.slot(slot) == slot  # so a clock that goes back within a slot finds the same
    assert schedule.slot(slot + timedelta(seconds=every)) == slot + timedelta(seconds=every)


def test_every_job_has_a_time_or_a_setting_a_purpose_and_a_line_in_the_document(configure):
    text = (CHECKOUT / "docs" / "operations.md").read_text(encoding="utf-8")
    for name in JOBS:
        job = find(name)
        assert job.name == name
        assert hasattr(Settings, job.setting) or job.setting in Settings.model_fields or job.when.every
        assert job.purpose.endswith(".")
        assert re.search(rf"^\| `{name}` \|.*{job.variable if job.setting else ''}", text, re.MULTILINE)
        if name != "reconcile":
            assert job.schedule(configure(jobs_off=name)).words == "off"
    assert find("backup").schedule(configure(jobs_off="", backup_dir="")).words == "off"
    with pytest.raises(NotFound, match=r"no job 'sleep'; there are archive, backup"):
        find("sleep")


def test_beat_asks_at_least_once_a_minute_and_only_for_what_is_switched_on(configure):
    schedule = beat_schedule(configure(work_lease_seconds=10.5, **OFF))
    assert schedule == {
        "reconcile": {"task": "job.reconcile", "schedule": 7, "options": {"queue": "upkeep", "expires": 7}}
    }
    on = beat_schedule(configure(jobs_off="", backup_dir="/backups"))
    assert (on["backup"]["schedule"], on["archive"]["schedule"]) == (60, 60)


def test_what_cannot_be_switched_off_is_refused(configure: Callable[..., Settings]) -> None:
    for names in ("reconcile", "archive, sleep"):
        configure(jobs_off=names)
        sentence = r"^JIYI_JOBS_OFF: (reconcile|sleep) cannot be switched off; there are archive, backup"
        with pytest.raises(SettingsError, match=sentence):
            beat_schedule(get_settings())


EVERYBODY = [("g", f"{number:05}") for number in range(2 * jobs.AGENTS_PAGE + 1)]


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """A database that knows agents' names, and nothing else."""

    def next_agents(_connection: object, _group: None, after: tuple[str, str], limit: int) -> object:
        return [agent for agent in EVERYBODY if agent > after][:limit]

    monkeypatch.setattr(jobs, "unit_of_work", lambda: nullcontext(None))
    monkeypatch.setattr(jobs.agents, "next_agents", next_agents)


@pytest.mark.usefixtures("offline")
def test_agents_are_gone_through_from_where_the_last_run_stopped() -> None:
    assert list(Run("x", NOON).agents()) == EVERYBODY
    stopped = Run("x", NOON, deadline=0.0)
    assert list(stopped.agents()) == EVERYBODY[:1]
    assert stopped.summary == {"more": list(EVERYBODY[0])}
    again = Run("x", NOON, place=stopped.summary["more"])
    assert list(again.agents()) == EVERYBODY[1:]
    assert again.summary == {}
    midway = Run("x", NOON, deadline=0.0)
    for _ in midway.agents():
        midway.repeat(lambda _: 1, 1)  # full to the end: this agent is not done with
    assert midway.summary == {"more": ["", ""]}


def test_a_job_that_failed_needs_attention() -> None:
    runs = {"reconcile": Tick(job="reconcile", slot=datetime.now(UTC), state="done")}
    assert health.schedule(get_settings(), runs, "").state == "ok"
    runs["verify_backup"] = Tick(job="verify_backup", slot=NOON, state="failed", error="there is no backup")
    found = health.schedule(get_settings(), runs, "")
    assert (found.state, found.detail) == ("attention", "failed: verify_backup")
