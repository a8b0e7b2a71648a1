"""When schedules run next, across clock changes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from jiyi.protocol.appointments.cron import check_cron, next_run, next_runs

NEW_YORK = "America/New_York"


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def some(count: int, after: str, **schedule: Any) -> list[str]:
    given = {"kind": "cron", "cron": None, "at": None, "every_seconds": None, "tz": "UTC"} | schedule
    return [moment.isoformat()[:16] for moment in next_runs(**given, after=at(after), count=count)]


def test_cron_in_its_time_zone() -> None:
    assert some(2, "2026-03-04T00:00Z", cron="0 9 * * 1-5", tz="Asia/Shanghai") == ["2026-03-04T01:00", "2026-03-05T01:00"]


def test_a_skipped_time_is_kept_once_after_the_change_and_one_that_comes_twice_once() -> None:
    runs = some(2, "2026-03-08T05:00Z", cron="30 2 * * *", tz=NEW_YORK)
    assert runs == ["2026-03-08T07:00", "2026-03-09T06:30"]
    assert some(2, "2026-11-01T04:00Z", cron="30 1 * * *", tz=NEW_YORK) == ["2026-11-01T05:30", "2026-11-02T06:30"]


def test_the_31st_and_leap_day() -> None:
    assert some(3, "2026-01-31T10:00Z", cron="0 9 31 * *") == ["2026-03-31T09:00", "2026-05-31T09:00", "2026-07-31T09:00"]
    assert some(1, "2026-03-01T00:00Z", cron="0 9 29 2 *") == ["2028-02-29T09:00"]


def test_once_is_over_when_it_was() -> None:
    assert some(3, "2026-03-04T00:00Z", kind="once", at=at("2026-03-05T09:00Z")) == ["2026-03-05T09:00"]
    assert some(3, "2026-03-05T09:00Z", kind="once", at=at("2026-03-05T09:00Z")) == []


def test_steps_go_on_from_their_first_time() -> None:
    step = {"kind": "interval", "at": at("2026-03-04T10:45Z"), "every_seconds": 2_700}
    assert some(2, "2026-03-04T10:00Z", **step) == ["2026-03-04T10:45", "2026-03-04T11:30"]
    assert some(1, "2026-03-04T10:45Z", **step) == ["2026-03-04T11:30"]
    assert some(1, "2026-03-05T10:44Z", **step) == ["2026-03-05T10:45"]


def test_steps_of_days_keep_the_time_of_day_across_a_clock_change() -> None:
    step = {"kind": "interval", "at": at("2026-03-07T07:00-05:00"), "every_seconds": 2 * 86_400, "tz": NEW_YORK}
    assert some(2, "2026-03-06T00:00Z", **step) == ["2026-03-07T12:00", "2026-03-09T11:00"]


@pytest.mark.parametrize("cron", ["", "0 9 * *", "61 * * * *", "0 25 * * *", "0 0 30 2 *", "@daily", "* * * * * *"])
def test_a_wrong_cron_expression_is_refused(cron: str) -> None:
    with pytest.raises(ValueError, match="cron"):
        check_cron(cron)


def test_nothing_follows_what_is_over() -> None:
    assert next_run(kind="once", cron=None, at=at("2026-01-01T00:00Z"), every_seconds=None, tz="UTC", after=at("2026-01-02T00:00Z")) is None
    far = next_run(kind="interval", cron=None, at=at("2020-01-01T00:00Z"), every_seconds=60, tz="UTC", after=at("2026-01-01T00:00:30Z"))
    assert far == at("2026-01-01T00:00Z") + timedelta(minutes=1)
