"""Heartbeats: quiet hours, checks, and what they report."""

from __future__ import annotations

from datetime import datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest
from pydantic import ValidationError

from engine.appointments import schedule
from jiyi.protocol.appointments import ConfigureHeartbeat

SHANGHAI = ZoneInfo("Asia/Shanghai")
NIGHT, NOON = (time(22), time(8)), (time(12), time(14))
NOW = datetime(2026, 3, 4, 10, tzinfo=SHANGHAI)


@pytest.mark.parametrize(
    ("hour", "minute", "hours", "tz", "quiet"),
    [
        *((21, 59, NIGHT, SHANGHAI, False), (22, 0, NIGHT, SHANGHAI, True), (0, 0, NIGHT, SHANGHAI, True)),
        *((7, 59, NIGHT, SHANGHAI, True), (8, 0, NIGHT, SHANGHAI, False)),
        (23, 0, NIGHT, ZoneInfo("UTC"), False),
        *((13, 0, NOON, SHANGHAI, True), (14, 0, NOON, SHANGHAI, False), (3, 0, None, SHANGHAI, False)),
    ],
)
def test_zc_137_quiet_hours_cross_midnight(
    hour: int, minute: int, hours: tuple[time, time] | None, tz: ZoneInfo, *, quiet: bool
) -> None:
    assert schedule.is_quiet(datetime(2026, 3, 4, hour, minute, tzinfo=SHANGHAI), hours, tz) is quiet


@pytest.mark.parametrize(("day", "hour", "loud"), [(4, 23, (5, 8)), (5, 3, (5, 8)), (5, 12, (5, 12))])
def test_alerts_wait_for_the_end_of_the_quiet_hours(day: int, hour: int, loud: tuple[int, int]) -> None:
    found = schedule.end_of_quiet_hours(datetime(2026, 3, day, hour, tzinfo=SHANGHAI), NIGHT, SHANGHAI)
    assert (found.astimezone(SHANGHAI).day, found.astimezone(SHANGHAI).hour) == loud


def test_zc_136_each_check_finds_its_own() -> None:
    facts = schedule.HeartbeatFacts(
        unseen=2,
        late_seconds=schedule.LATE_SECONDS + 1,
        dead_letters=1,
        last_interaction_at=NOW - schedule.IDLE_AFTER,
        pains=("打印机总是离线",),
        checklist=schedule.list_items("- 看看窑\n- [x] done"),
        language="zh",
    )
    found = schedule.findings(facts, NOW)
    assert [one.source for one in found] == ["memory", "tasks", "memory", "pain", "checklist", "idle"]
    assert all(one.title and one.content for one in found)
    assert schedule.findings(schedule.HeartbeatFacts(), NOW) == []
    lately = NOW - schedule.IDLE_AFTER + timedelta(minutes=1)  # a greeting waits for a day
    assert schedule.findings(schedule.HeartbeatFacts(last_interaction_at=lately), NOW) == []


@pytest.mark.parametrize(
    ("proactivity", "count"), [("silent", 0), ("light", 1), ("standard", 2), ("autonomous", 3)]
)
def test_proactivity_says_how_urgent_it_has_to_be(proactivity: str, count: int) -> None:
    found = schedule.findings(
        schedule.HeartbeatFacts(unseen=1, dead_letters=1, last_interaction_at=NOW - schedule.IDLE_AFTER), NOW
    )
    assert len(schedule.select_findings(found, proactivity, 5, set())) == count  # type: ignore[arg-type]


def test_at_most_so_many_of_a_tick_the_most_urgent_first_and_nothing_twice_in_a_day() -> None:
    found = schedule.findings(schedule.HeartbeatFacts(unseen=1, dead_letters=1, pains=tuple("abcdefg")), NOW)
    selected = schedule.select_findings(found, "autonomous", 5, set())
    assert len(selected) == 5
    assert selected[0].urgency == "high"
    unseen = schedule.findings(schedule.HeartbeatFacts(unseen=1), NOW)
    assert schedule.select_findings(unseen, "standard", 5, {("tasks", "unseen")}) == []


@pytest.mark.parametrize(
    "wrong",
    [
        *({"interval_minutes": 0}, {"interval_minutes": 20_000}, {"max_alerts": 0}, {"proactivity": "loud"}),
        *({"quiet_hours": {"start": start, "end": "08:00"}} for start in ("25:00", "08:00")),
        *({"tz": "Mars/Olympus"}, {"channel": "smoke"}),
    ],
)
def test_bad_input_is_refused_with_its_field(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError) as error:
        ConfigureHeartbeat(agent_id="小伴", **wrong)
    assert error.value.errors()[0]["loc"][0] == next(iter(wrong))
