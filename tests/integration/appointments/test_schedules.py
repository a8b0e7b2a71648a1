"""Schedules end to end: created, fired once for each time, caught up, delivered until acknowledged."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from threading import Barrier
from typing import Any
from unittest.mock import Mock
from uuid import UUID

import pytest
from pydantic import ValidationError
from sqlalchemy import text

from jiyi.errors import InvalidRequest, NotFound
from jiyi.protocol.appointments import (
    CreateSchedule,
    ListAlerts,
    ListSchedules,
    ParseSchedule,
    Target,
    UpdateSchedule,
)
from jiyi.protocol.base import ById, ByIds
from models.appointments import heartbeat_actions, schedule_actions
from models.appointments.schedules import FIRE, runs_of
from models.db.actions import Actor
from models.db.connection import unit_of_work
from models.db.scope import for_groups, whole_service
from models.queue import stream
from tasks import appointments as schedules
from tasks.appointments import due_scan
from tasks.framework import work
from tasks.framework.jobs import Run
from tasks.framework.work import Batch
from tests.integration.threads import Threads

pytestmark = pytest.mark.usefixtures("database", "nothing_owed", "nothing_due")

AGENT = "小伴"


def me(group: str) -> Actor:
    return Actor(group, "test")


def made(group: str, said: str = "每天早上9点提醒我查房", **fields: Any) -> Any:
    """What comes of a request for a schedule."""
    asked = CreateSchedule(agent_id=AGENT, **({"text": said} if said else {}), **fields)
    return schedule_actions.create_schedule.perform(me(group), asked)


def create(group: str, said: str = "每天早上9点提醒我查房", **fields: Any) -> UUID:
    found = made(group, said, **fields)
    assert found.schedule is not None, found.reason
    return found.schedule.id  # type: ignore[no-any-return]


def get(group: str, schedule_id: UUID) -> Any:
    return schedule_actions.get_schedule.perform(me(group), ById(id=schedule_id))


def update(group: str, schedule_id: UUID, **fields: Any) -> Any:
    return schedule_actions.update_schedule.perform(me(group), UpdateSchedule(id=schedule_id, **fields))


def listed(group: str) -> list[UUID]:
    found = schedule_actions.list_schedules.perform(me(group), ListSchedules())
    return [one.id for one in found.rows]


def acknowledge(group: str, alert_id: UUID) -> int | None:
    return heartbeat_actions.acknowledge_alerts.perform(me(group), ByIds(ids=[alert_id])).count


def run_due(*schedule_ids: UUID) -> int:
    """Let them come due; how many were fired."""
    for one in schedule_ids:
        due(one)
    scan()
    return fire()


def due(schedule_id: UUID, ago: timedelta = timedelta(seconds=1)) -> datetime:
    """Make a schedule due, of which nothing is owed yet, though a scan may have owed its own time."""
    moment = datetime.now(UTC) - ago
    with whole_service(), unit_of_work() as connection:
        connection.execute(_NOTHING_OWED, {"id": schedule_id})
        connection.execute(_DUE, {"id": schedule_id, "due": moment})
    return moment


def scan(now: datetime | None = None) -> dict[str, Any]:
    run = Run("due_scan", now or datetime.now(UTC))
    with run.scope():
        due_scan(run)
    return run.summary


def fire() -> int:
    return work.run_until_idle(FIRE, schedules.fire_schedule)


def alerts(group: str) -> list[Any]:
    return heartbeat_actions.heartbeat_alerts.perform(me(group), ListAlerts(limit=100)).rows


def runs(group: str, schedule_id: UUID) -> list[Any]:
    with unit_of_work() as connection:
        return runs_of(connection, group, schedule_id, 50)


def test_zc_95_a_message_becomes_a_schedule_with_a_confirmation(group: str) -> None:
    found = made(group, tz="Asia/Shanghai", session_id="s")
    assert found.schedule is not None
    schedule = found.schedule
    assert (found.certainty, schedule.cron, schedule.task_description) == ("exact", "0 9 * * *", "查房")
    assert schedule.target_type == "reminder"
    assert "查房" in (found.confirmation or "")
    assert listed(group) == [schedule.id]
    details = get(group, schedule.id)
    assert len(details.next_runs) == schedule_actions.SHOWN_RUNS
    assert details.next_runs[0] == schedule.next_run_at
    stranger = f"{group}-other"
    assert listed(stranger) == []
    for action in (schedule_actions.get_schedule, schedule_actions.delete_schedule):
        with pytest.raises(NotFound):
            action.perform(me(stranger), ById(id=schedule.id))


def test_what_is_unclear_is_asked_back_and_nothing_stored_of_what_is_only_read(group: str) -> None:
    asked = ParseSchedule(text="每天3点提醒我", tz="Asia/Shanghai")
    read = schedule_actions.parse_schedule.perform(me(group), asked)
    assert (read.certainty, read.intent, len(read.readings)) == ("ambiguous", True, 2)
    assert all(len(one.next_runs) == 3 for one in read.readings)
    for said, certainty in (("每天25点提醒我", "unclear"), ("今天天气怎么样", "none")):
        found = made(group, said)
        assert (found.certainty, found.schedule) == (certainty, None)
        assert (found.confirmation is None) is (certainty == "none")
    assert listed(group) == []


def test_k_37_fired_exactly_once_for_each_time(group: str) -> None:
    """Delivered until it is acknowledged, and told in the stream; what was to come once is over then."""
    schedule_id = create(group, "10分钟后提醒我关火")
    moment = due(schedule_id)
    assert [scan()[FIRE], scan()[FIRE]] == [1, 0]
    assert fire() == 1
    scan()
    assert fire() == 0
    [run] = runs(group, schedule_id)
    assert (run["due_at"], run["missed"], run["skipped"]) == (moment, False, False)
    found = get(group, schedule_id)
    assert (found.state, found.next_run_at, found.next_runs) == ("ended", None, [])
    [alert] = alerts(group)
    assert (alert.source, alert.title, alert.agent_id, alert.channel) == ("schedule", "关火", AGENT, "all")
    assert [one.kind for one in stream.read(group, "0")].count("alert.delivered") == 1
    assert acknowledge(group, alert.id) == 1
    assert alerts(group) == []
    assert acknowledge(group, alert.id) == 0


def test_zc_92_an_alert_says_what_its_schedule_is_to_start(group: str) -> None:
    starts = {"target_type": "workflow", "target_id": "weekly-report"}
    target = Target(type="workflow", id="weekly-report")
    assert run_due(create(group, "10分钟后提醒我关火", target=target)) == 1
    [alert] = alerts(group)
    assert {name: getattr(alert, name) for name in starts} == starts
    [news] = [news for news in stream.read(group, "0") if news.kind == "alert.delivered"]
    assert starts.items() <= json.loads(news.data).items()


def test_what_was_missed_within_a_day_runs_once_and_what_longer_ago_is_only_noted(group: str) -> None:
    for said, hours, skipped in (("每10分钟提醒我喝水", 3, False), ("10分钟后提醒我关火", 25, True)):
        own = f"{group}-{hours}"
        schedule_id = create(own, said)
        due(schedule_id, timedelta(hours=hours))
        scan()
        fire()
        [run] = runs(own, schedule_id)
        assert (run["missed"], run["skipped"], run["alert_id"] is None) == (True, skipped, skipped)
        assert len(alerts(own)) == (0 if skipped else 1)
        after = get(own, schedule_id).next_run_at
        assert after is None if skipped else after > datetime.now(UTC)


def test_bad_input_a_clock_that_is_put_back_fires_nothing_twice(group: str) -> None:
    # Its own time of day is in six hours: it does not come due by the clock that was put back, whatever the
    # time is now.
    schedule_id = create(group, f"每天{datetime.now(UTC) + timedelta(hours=6):%H}点30分提醒我查房", tz="UTC")
    run_due(schedule_id)
    earlier = datetime.now(UTC) - timedelta(hours=2)
    scan(earlier)  # of the whole service: what other tests left may come due by it
    with for_groups(group):
        with unit_of_work() as connection:
            assert connection.execute(_OWED, {"id": schedule_id}).scalar_one() == 0
            connection.execute(_OWE, {"id": schedule_id, "group": group})
        schedules.fire(Batch(FIRE, [schedule_id]), earlier)
    assert (len(runs(group, schedule_id)), len(alerts(group))) == (1, 1)


def test_two_beats_and_200_schedules_due_each_once(group: str) -> None:
    ids = [create(group, f"每天早上9点提醒我查房{number}") for number in range(200)]
    with whole_service(), unit_of_work() as connection:
        connection.execute(_ALL_DUE, {"ids": ids, "due": datetime.now(UTC) - timedelta(seconds=2)})
    together = Barrier(2)

    def one_beat(_: int) -> int:
        together.wait()
        return int(scan()[FIRE])

    with Threads(3) as pool:
        assert sum(pool.map(one_beat, range(2))) == 200
        list(pool.map(lambda _: fire(), range(3)))
    fire()
    with for_groups(group), unit_of_work() as connection:
        counted = connection.execute(_COUNTED, {"group": group}).one()
    assert (counted.runs, counted.alerts) == (200, 200)


def test_a_run_that_dies_before_its_commit_is_taken_over_and_done_once(group: str) -> None:
    schedule_id = create(group)
    due(schedule_id)
    scan()

    def dies(batch: Batch) -> None:
        with pytest.MonkeyPatch.context() as broken:
            broken.setattr("models.appointments.schedules.note_runs", Mock(side_effect=SystemExit))
            schedules.fire_schedule(batch)

    with pytest.raises(SystemExit):
        work.run_due(work.KINDS[FIRE], dies)
    assert alerts(group) == []
    with whole_service(), unit_of_work() as connection:
        connection.execute(text("UPDATE pending_work SET due_at = clock_timestamp()"))
    assert fire() == 1
    assert (len(runs(group, schedule_id)), len(alerts(group))) == (1, 1)


def test_old_runs_and_alerts_that_were_seen_are_forgotten(group: str) -> None:
    schedule_id = create(group)
    run_due(schedule_id)
    acknowledge(group, alerts(group)[0].id)
    with for_groups(group), unit_of_work() as connection:
        for statement in _LONG_AGO:
            connection.execute(statement, {"group": group})
    run_due(schedule_id)
    assert len(runs(group, schedule_id)) == 1
    everything = heartbeat_actions.heartbeat_alerts.perform(me(group), ListAlerts(everything=True)).rows
    assert [one.acknowledged_at for one in everything] == [None]


def test_a_paused_or_deleted_schedule_does_not_run_and_a_resumed_one_does(group: str) -> None:
    schedule_id, deleted = create(group), create(group, "每天晚上8点提醒我给狗洗澡")
    for one in (schedule_id, deleted):
        due(one)
    scan()
    assert update(group, schedule_id, paused=True).state == "paused"
    assert schedule_actions.delete_schedule.perform(me(group), ById(id=deleted)).count == 1
    assert fire() == 2
    assert alerts(group) == []
    with pytest.raises(NotFound, match="no schedule"):
        schedule_actions.delete_schedule.perform(me(group), ById(id=deleted))
    resumed = update(group, schedule_id, paused=False)
    assert resumed.state == "active"
    assert resumed.next_run_at > datetime.now(UTC)


def test_a_schedule_gets_another_time_or_other_words_and_runs_by_them(group: str) -> None:
    schedule_id = create(group)
    change = lambda **fields: update(group, schedule_id, **fields)
    before = get(group, schedule_id)
    assert change(task="浇花") == before.model_copy(update={"task_description": "浇花", "next_runs": []})
    elsewhere = change(tz="Asia/Tokyo")
    assert (elsewhere.tz, elsewhere.cron, elsewhere.state) == ("Asia/Tokyo", before.cron, "active")
    assert elsewhere.next_run_at != before.next_run_at
    change(paused=True)
    assert change(tz="Europe/Paris").next_run_at is None
    moved = change(text="every day at 17:45", tz="Europe/Berlin")
    assert (moved.cron, moved.tz, moved.task_description) == ("45 17 * * *", "Europe/Berlin", "浇花")
    assert moved.state == "active"
    assert change(kind="interval", every_seconds=3_600).every_seconds == 3_600
    for wrong in ({"text": "some day"}, {"kind": "once", "at": datetime(2020, 1, 1, tzinfo=UTC)}):
        with pytest.raises(InvalidRequest):
            change(**wrong)
    for unsaid in ({}, {"kind": "cron"}, {"text": "at 9", "kind": "once"}, {"task": "  "}):
        with pytest.raises(ValidationError):
            change(**unsaid)
    run_due(schedule_id)
    assert alerts(group)[0].title == "浇花"


def test_schedules_field_by_field_and_what_is_wrong_with_them(group: str) -> None:
    found = made(group, "", kind="cron", cron="0 9 * * 1-5", task="stand-up", tz="Europe/Berlin")
    assert found.schedule.tz == "Europe/Berlin"
    for wrong in (
        {"kind": "cron", "task": "x"},
        {"kind": "cron", "cron": "0 25 * * *", "task": "x"},
        {"kind": "interval", "every_seconds": 1, "task": "x"},
        {"text": "每天早上9点提醒我", "tz": "Mars/Olympus"},
        {},
    ):
        with pytest.raises(ValueError, match=r"cron|every_seconds|time zone|kind"):
            CreateSchedule(agent_id=AGENT, **wrong)
    with pytest.raises(InvalidRequest, match="passed"):
        made(group, "", kind="once", at=datetime(2020, 1, 1, tzinfo=UTC), task="x")


_LONG_AGO = (
    text("UPDATE schedule_runs SET due_at = due_at - interval '31 days' WHERE group_id = :group"),
    text("UPDATE alerts SET acknowledged_at = acknowledged_at - interval '91 days' WHERE group_id = :group"),
)
_NOTHING_OWED = text("DELETE FROM pending_work WHERE kind = 'fire_schedule' AND subject_id = :id")
_DUE = text("UPDATE schedules SET next_run_at = :due, owed_for = NULL WHERE schedule_id = :id")
_ALL_DUE = text("UPDATE schedules SET next_run_at = :due, owed_for = NULL WHERE schedule_id = ANY(:ids)")
_OWE = text(
    "INSERT INTO pending_work (kind, subject_id, group_id) VALUES ('fire_schedule', :id, :group) ON CONFLICT"
    " DO NOTHING"
)
_OWED = text("SELECT count(*) FROM pending_work WHERE kind = 'fire_schedule' AND subject_id = :id")
_COUNTED = text("""
    SELECT (SELECT count(*) FROM schedule_runs WHERE group_id = :group) AS runs,
        (SELECT count(*) FROM alerts WHERE group_id = :group) AS alerts
""")
