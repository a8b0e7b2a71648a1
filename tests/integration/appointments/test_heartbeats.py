"""Heartbeats end to end: configured, due, ticked once, silent in quiet hours; and the health of the whole."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import text
from uuid6 import uuid7

from jiyi.errors import InvalidRequest, NotFound
from jiyi.protocol.appointments import ConfigureHeartbeat, HealthRequest, ListAlerts
from jiyi.protocol.base import OfAgent
from jiyi.protocol.growth import ReportPain
from models.appointments import heartbeat_actions, heartbeats
from models.appointments.schedules import HEARTBEAT
from models.db.actions import Actor
from models.db.connection import unit_of_work
from models.db.scope import whole_service
from models.growth.pain_actions import report_pain
from tasks import appointments as schedules
from tasks.appointments import due_scan
from tasks.framework import work
from tasks.framework.jobs import Run
from tests.integration.conversations.talk import say

pytestmark = pytest.mark.usefixtures("database", "nothing_owed", "nothing_due")

AGENT = OfAgent(agent_id="helper")


def me(group: str) -> Actor:
    return Actor(group, "test")


def configure(group: str, **fields: Any) -> Any:
    asked = ConfigureHeartbeat(agent_id="helper", **fields)
    return heartbeat_actions.configure_heartbeat.perform(me(group), asked)


def tick(group: str) -> Any:
    return heartbeat_actions.tick_heartbeat.perform(me(group), AGENT)


def status(group: str, of: OfAgent = AGENT) -> Any:
    return heartbeat_actions.heartbeat_status.perform(me(group), of)


def health(group: str, agent_id: str | None = None) -> Any:
    return heartbeat_actions.health_snapshot.perform(me(group), HealthRequest(agent_id=agent_id))


def troubled(group: str) -> None:
    """Something to say: a problem that is still open."""
    report_pain.perform(me(group), ReportPain(agent_id="helper", summary="The kiln never gets hot."))


def due(group: str) -> None:
    """Make a group's heartbeats due, of which nothing is owed yet."""
    with whole_service(), unit_of_work() as connection:
        connection.execute(_NOTHING_OWED, {"group": group})
        connection.execute(_DUE, {"group": group, "due": datetime.now(UTC) - timedelta(seconds=1)})


def scan(now: datetime | None = None) -> dict[str, Any]:
    run = Run("due_scan", now or datetime.now(UTC))
    with run.scope():
        due_scan(run)
    return run.summary


def beat() -> int:
    return work.run_until_idle(HEARTBEAT, schedules.heartbeat)


def alerts(group: str, **options: Any) -> list[Any]:
    asked = ListAlerts(agent_id="helper", **options)
    return heartbeat_actions.heartbeat_alerts.perform(me(group), asked).rows


def test_zc_134_configured_switched_on_and_off(group: str) -> None:
    made = configure(group, tz="Asia/Shanghai", interval_minutes=60, quiet_hours=None, channel="all")
    assert (made.config.enabled, made.next_tick_at) == (False, None)
    on = configure(group, enabled=True)
    assert on.config.enabled
    assert timedelta(minutes=59) < on.next_tick_at - datetime.now(UTC) <= timedelta(minutes=60)
    assert (on.config.tz, on.config.quiet_hours, on.config.channel) == ("Asia/Shanghai", None, "all")
    assert status(group).config == on.config
    off = configure(group, enabled=False)
    assert (off.config.enabled, off.next_tick_at) == (False, None)
    # null switches quiet hours off and keeps everything else
    kept = configure(group, tz=None, quiet_hours=None).config
    assert (kept.tz, kept.quiet_hours) == ("Asia/Shanghai", None)
    assert configure(group, interval_minutes=5).config.quiet_hours is None


def test_zc_135_what_is_due_ticks_once_and_what_it_finds_becomes_an_alert_once_in_a_day(group: str) -> None:
    configure(group, enabled=True, quiet_hours=None)
    troubled(group)
    due(group)
    assert [scan()[HEARTBEAT], scan()[HEARTBEAT]] == [1, 0]
    assert [beat(), beat()] == [1, 0]
    with unit_of_work() as connection:
        [ticked] = heartbeats.history(connection, (group, "helper"), 5)
    assert (ticked["status"], ticked["alerts"]) == ("alert", 1)
    assert status(group).last_tick_at is not None
    assert status(group).next_tick_at > datetime.now(UTC)
    [alert] = alerts(group)
    assert (alert.source, alert.urgency, alert.channel) == ("pain", "medium", "ui")
    troubled(group)
    again = tick(group)
    assert (again.status, again.alerts) == ("ok", [])
    assert len(alerts(group, everything=True)) == 1


def test_in_quiet_hours_alerts_wait_and_are_delivered_after_them(group: str) -> None:
    now = datetime.now(UTC)
    around = {"start": f"{now - timedelta(hours=1):%H:%M}", "end": f"{now + timedelta(hours=2):%H:%M}"}
    configure(group, enabled=True, quiet_hours=around)
    troubled(group)
    due(group)
    scan()
    beat()
    assert alerts(group) == []
    [waiting] = alerts(group, everything=True)
    assert waiting.delivered_at is None
    assert waiting.deliver_at > datetime.now(UTC)
    assert status(group).quiet_now
    assert scan()["delivered"] == 0
    assert scan(waiting.deliver_at)["delivered"] == 1
    assert len(alerts(group)) == 1


def test_zc_136_a_greeting_to_who_has_not_been_there_for_a_day(group: str) -> None:
    say(group, "Hello there.", start=datetime.now(UTC) - timedelta(days=2))
    configure(group, enabled=True, quiet_hours=None, proactivity="autonomous")
    assert [one.source for one in tick(group).alerts] == ["idle"]
    configure(group, proactivity="silent")  # looks after things and says nothing
    troubled(group)
    result = tick(group)
    assert (result.checks.get("pain"), result.alerts) == (1, [])


def test_zc_136_reminders_memory_and_pains_are_looked_after(group: str) -> None:
    say(group, "Hello there.", start=datetime.now(UTC))
    configure(group, enabled=True, quiet_hours=None, proactivity="autonomous", channel="desktop")
    long_ago = datetime.now(UTC) - timedelta(hours=3)
    with unit_of_work() as connection:
        for statement in _TROUBLES:
            connection.execute(statement, {"group": group, "at": long_ago, "id": uuid7()})
    result = tick(group)
    assert result.checks == {"tasks": 1, "memory": 2, "pain": 1}
    assert sorted(alert.source for alert in result.alerts) == ["memory", "memory", "pain", "tasks"]
    on_desktop = {alert.source for alert in alerts(group, channel="desktop")}
    assert on_desktop == {"memory", "pain", "schedule", "tasks"}
    assert {alert.source for alert in alerts(group, channel="ui")} == {"schedule"}, "that is for all"
    say(group, "Hello there.", agent_id="other")
    assert [health(group, agent).memory["dead_letters"] for agent in ("helper", "other")] == [1, 0]


def test_a_heartbeat_that_was_never_configured_cannot_tick(group: str) -> None:
    say(group, "Hello there.")
    assert not status(group).config.enabled
    with pytest.raises(InvalidRequest, match="no heartbeat"):
        tick(group)
    with pytest.raises(NotFound):
        status(group, OfAgent(agent_id="nobody"))


def test_zc_142_health_of_memory_heartbeats_and_growth(group: str) -> None:
    configure(group, enabled=True)
    found = health(group)
    assert {"nodes", "overdue", "dead_letters"} <= found.memory.keys()
    assert {"schedules", "missed_runs"} <= found.growth.keys()
    assert [health(whose).heartbeat["enabled"] for whose in (group, f"{group}-other")] == [1, 0]


_TROUBLES = (
    text("""
        INSERT INTO alerts (alert_id, group_id, agent_id, source, title, content, urgency, channel,
        deliver_at, delivered_at)
        VALUES (:id, :group, 'helper', 'schedule', 'tea', 'tea', 'high', 'all', :at, :at)
    """),
    text("""
        INSERT INTO dead_letters (letter_id, kind, subject_id, group_id, reason, state)
        SELECT :id, 'embed', node_id, group_id, 'no answer', 'open' FROM memory_nodes
        WHERE group_id = :group AND :at IS NOT NULL
    """),
    text("UPDATE memory_nodes SET stored_at = :at WHERE group_id = :group AND :id IS NOT NULL"),
    text("""
        INSERT INTO pain_points (pain_id, group_id, agent_id, user_id, summary, category, severity,
        occurrence_count, confidence, status,
            first_seen, last_seen)
        VALUES (:id, :group, 'helper', 'helper', 'the kiln never gets hot', 'fault', 'high', 1, 0.5, 'open',
        :at, :at)
    """),
)
_NOTHING_OWED = text("DELETE FROM pending_work WHERE kind = 'heartbeat' AND group_id = :group")
_DUE = text("UPDATE heartbeats SET next_tick_at = :due, owed_for = NULL WHERE group_id = :group")
