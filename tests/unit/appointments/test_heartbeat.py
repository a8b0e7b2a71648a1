"""Heartbeats: quiet hours, checks, and what is told of them."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest
from pydantic import ValidationError

from engine.appointments.heartbeat import CORRECTIONS, IDLE_AFTER, LATE_SECONDS, Facts, findings, is_quiet, loud_from, to_tell
from jiyi.protocol.appointments.heartbeats import ConfigureHeartbeat, HeartbeatConfig, QuietHours

SHANGHAI = ZoneInfo("Asia/Shanghai")
NIGHT = (time(22), time(8))
NOW = datetime(2026, 3, 4, 10, tzinfo=SHANGHAI)


@pytest.mark.parametrize(
    ("hour", "minute", "quiet"),
    [(21, 59, False), (22, 0, True), (23, 30, True), (0, 0, True), (7, 59, True), (8, 0, False), (12, 0, False)],
)
def test_zc_137_quiet_hours_cross_midnight(hour: int, minute: int, quiet: bool) -> None:
    assert is_quiet(datetime(2026, 3, 4, hour, minute, tzinfo=SHANGHAI), NIGHT, SHANGHAI) is quiet


def test_quiet_hours_within_a_day() -> None:
    noon = (time(12), time(14))
    assert is_quiet(datetime(2026, 3, 4, 13, tzinfo=SHANGHAI), noon, SHANGHAI)
    assert not is_quiet(datetime(2026, 3, 4, 14, tzinfo=SHANGHAI), noon, SHANGHAI)


def test_quiet_hours_are_in_the_agents_time_zone() -> None:
    moment = datetime(2026, 3, 4, 15, tzinfo=UTC)  # 23:00 in Shanghai
    assert is_quiet(moment, NIGHT, SHANGHAI)
    assert not is_quiet(moment, NIGHT, ZoneInfo("UTC"))


def test_no_quiet_hours_is_never_quiet() -> None:
    assert not is_quiet(datetime(2026, 3, 4, 3, tzinfo=SHANGHAI), None, SHANGHAI)


@pytest.mark.parametrize(("day", "hour", "loud"), [(4, 23, (5, 8)), (5, 3, (5, 8)), (5, 12, (5, 12))])
def test_alerts_wait_for_the_end_of_the_quiet_hours(day: int, hour: int, loud: tuple[int, int]) -> None:
    found = loud_from(datetime(2026, 3, day, hour, tzinfo=SHANGHAI), NIGHT, SHANGHAI)
    assert (found.astimezone(SHANGHAI).day, found.astimezone(SHANGHAI).hour) == loud


def test_zc_134_defaults() -> None:
    found = HeartbeatConfig()
    assert (found.interval_minutes, found.quiet_hours, found.proactivity, found.max_alerts) == (
        30,
        QuietHours(start="22:00", end="08:00"),
        "standard",
        5,
    )


def test_zc_136_each_check_finds_its_own() -> None:
    facts = Facts(
        unseen=2,
        late_seconds=LATE_SECONDS + 1,
        dead_letters=1,
        last_interaction_at=NOW - IDLE_AFTER,
        pains=("打印机总是离线",),
        corrections={"tone": CORRECTIONS},
        language="zh",
    )
    found = findings(facts, NOW)
    assert [one.source for one in found] == ["memory", "tasks", "memory", "pain", "corrections", "idle"]
    assert all(one.title and one.content for one in found)
    assert findings(Facts(), NOW) == []


def test_a_greeting_waits_for_a_day_and_for_somebody_who_was_there() -> None:
    assert findings(Facts(last_interaction_at=NOW - IDLE_AFTER + timedelta(minutes=1)), NOW) == []
    assert findings(Facts(last_interaction_at=None), NOW) == []
    assert [one.source for one in findings(Facts(last_interaction_at=NOW - IDLE_AFTER), NOW)] == ["idle"]


@pytest.mark.parametrize(("proactivity", "count"), [("silent", 0), ("light", 1), ("standard", 2), ("autonomous", 3)])
def test_proactivity_says_how_urgent_it_has_to_be(proactivity: str, count: int) -> None:
    found = findings(Facts(unseen=1, dead_letters=1, last_interaction_at=NOW - IDLE_AFTER), NOW)
    assert len(to_tell(found, proactivity, 5, set())) == count  # type: ignore[arg-type]


def test_at_most_so_many_of_a_tick_the_most_urgent_first() -> None:
    found = findings(Facts(unseen=1, dead_letters=1, pains=tuple("abcdefg")), NOW)
    told = to_tell(found, "autonomous", 5, set())
    assert len(told) == 5
    assert told[0].urgency == "high"


def test_nothing_is_told_twice_in_a_day() -> None:
    found = findings(Facts(unseen=1), NOW)
    assert to_tell(found, "standard", 5, {("tasks", "unseen")}) == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"interval_minutes": 0},
        {"interval_minutes": 20_000},
        {"quiet_hours": {"start": "25:00", "end": "08:00"}},
        {"quiet_hours": {"start": "08:00", "end": "08:00"}},
        {"tz": "Mars/Olympus"},
        {"channel": "smoke"},
        {"proactivity": "loud"},
        {"max_alerts": 0},
    ],
)
def test_bad_input_is_refused_with_its_field(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError) as error:
        ConfigureHeartbeat(agent_id="小伴", **wrong)
    assert error.value.errors()[0]["loc"][0] == next(iter(wrong))
