"""Cases of the actions on schedules, heartbeats and alerts."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from models.appointments import heartbeat_actions, heartbeats, schedule_actions
from models.appointments.heartbeats import NewAlert
from models.db.connection import unit_of_work
from models.memory import agents
from tests.integration.actions.cases import MADE, Case, case, do, nothing

AGENT = "小伴"
OF = {"agent_id": AGENT}
DAILY = {**OF, "text": "每天早上9点提醒我查房"}


def scheduled(group: str) -> str:
    """The id of a schedule."""
    return str(do(group, schedule_actions.create_schedule, **DAILY).schedule.id)


def paused(group: str) -> str:
    schedule_id = scheduled(group)
    do(group, schedule_actions.update_schedule, id=schedule_id, paused=True)
    return schedule_id


def alerted(group: str) -> str:
    """The id of an alert."""
    now, texts = datetime.now(UTC), {"title": "x", "content": "x"}
    new = NewAlert(**OF, **texts, source="schedule", urgency="high", channel="ui", deliver_at=now)
    with unit_of_work() as connection:
        agents.lock_agents(connection, [(group, AGENT)])
        heartbeats.add(connection, group, [new], now)
    return str(new.alert_id)


def beating(group: str) -> None:
    do(group, heartbeat_actions.configure_heartbeat, **OF, enabled=True)


def _updating(
    prepare: Any, fields: dict[str, Any], form: dict[str, str], name: str = "", path: str = ""
) -> Case:
    page = lambda made: (f"/growth/schedules/{made}{path}", form)
    return case(schedule_actions.update_schedule, prepare, {"id": MADE, **fields}, name, admin=page)


OTHER = {"text": "every day at 10:30", "task": "water the ferns"}
HOURLY = {"interval_minutes": 60, "quiet_hours": None, "tz": "Asia/Shanghai"}
CASES = (
    case(schedule_actions.create_schedule, nothing, DAILY),
    _updating(scheduled, OTHER, OTHER),
    _updating(scheduled, {"paused": True}, {}, "pause", "/pause"),
    _updating(paused, {"paused": False}, {}, "resume", "/resume"),
    case(schedule_actions.delete_schedule, scheduled, {"id": MADE}),
    case(heartbeat_actions.configure_heartbeat, beating, {**OF, **HOURLY}),
    case(heartbeat_actions.configure_heartbeat, nothing, {**OF, "enabled": True}),
    case(heartbeat_actions.tick_heartbeat, beating, OF),
    case(heartbeat_actions.acknowledge_alerts, alerted, {"ids": [MADE]}),
)
