"""Cases of the actions on schedules, heartbeats and alerts."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from sqlalchemy import text

from jiyi.protocol.appointments.heartbeats import AcknowledgeAlerts, ConfigureHeartbeat, CorrectAgent
from jiyi.protocol.appointments.schedules import CreateSchedule, ScheduleId
from jiyi.protocol.conversations.commands import AgentId
from models.appointments import alerts, heartbeat_actions, schedule_actions
from models.appointments.alerts import NewAlert
from models.db.actions import Actor
from models.db.connection import unit_of_work
from models.memory import agents
from tests.integration.actions.cases import Case

AGENT = "小伴"
SAID = "每天早上9点提醒我查房"


def scheduled(group: str) -> str:
    """The id of a schedule."""
    made = schedule_actions.create_schedule.perform(Actor(group, "test"), CreateSchedule(agent_id=AGENT, text=SAID))
    assert made.schedule is not None
    return str(made.schedule.id)


def paused(group: str) -> str:
    schedule_id = scheduled(group)
    schedule_actions.pause_schedule.perform(Actor(group, "test"), ScheduleId(id=UUID(schedule_id)))
    return schedule_id


def alerted(group: str) -> str:
    """The id of an alert."""
    now = datetime.now(UTC)
    new = NewAlert(agent_id=AGENT, source="schedule", title="x", content="x", urgency="high", channel="ui", deliver_at=now)
    with unit_of_work() as connection:
        agents.lock_agents(connection, [(group, AGENT)])
        alerts.add(connection, group, [new], now)
    return str(new.alert_id)


def beating(group: str) -> None:
    heartbeat_actions.enable_heartbeat.perform(Actor(group, "test"), AgentId(agent_id=AGENT))


def schedules(group: str, _made: Any) -> list[Any]:
    with unit_of_work() as connection:
        return list(map(tuple, connection.execute(_SCHEDULES, {"group": group})))


def heartbeats(group: str, _made: Any) -> list[Any]:
    with unit_of_work() as connection:
        return list(map(tuple, connection.execute(_HEARTBEATS, {"group": group})))


def open_alerts(group: str, _made: Any) -> list[Any]:
    with unit_of_work() as connection:
        return list(map(tuple, connection.execute(_ALERTS, {"group": group})))


def _on_schedule(action: Any, name: str, prepare: Any) -> Case:
    return Case(
        action=action,
        prepare=prepare,
        request=lambda made: ScheduleId(id=made),
        effect=schedules,
        rest=lambda made: ("POST", f"/growth/schedule_{name}", {"id": made}),
        admin=lambda made: (f"/growth/schedules/{made}/{name}", {}),
    )


def _on_heartbeat(action: Any, request: Any, body: dict[str, Any], *, page: str | None = None, prepare: Any = beating) -> Case:
    return Case(
        action=action,
        prepare=prepare,
        request=lambda _made: request,
        effect=heartbeats,
        rest=lambda _made: ("POST", f"/growth/{action.name}", body),
        admin=None if page is None else lambda _made: (f"/growth/heartbeats/{AGENT}/{page}", {}),
    )


_WHOSE = {"agent_id": AGENT}
_CONFIGURED = {**_WHOSE, "interval_minutes": 60, "quiet_hours": None, "tz": "Asia/Shanghai"}
_CORRECTED = {**_WHOSE, "kind": "tone"}

CASES = (
    Case(
        action=schedule_actions.create_schedule,
        prepare=lambda _group: None,
        request=lambda _made: CreateSchedule(agent_id=AGENT, text=SAID),
        effect=schedules,
        rest=lambda _made: ("POST", "/growth/schedule_create", {**_WHOSE, "text": SAID}),
    ),
    _on_schedule(schedule_actions.pause_schedule, "pause", scheduled),
    _on_schedule(schedule_actions.resume_schedule, "resume", paused),
    _on_schedule(schedule_actions.delete_schedule, "delete", scheduled),
    _on_heartbeat(heartbeat_actions.configure_heartbeat, ConfigureHeartbeat.model_validate(_CONFIGURED), _CONFIGURED),
    _on_heartbeat(heartbeat_actions.enable_heartbeat, AgentId(agent_id=AGENT), _WHOSE, page="enable", prepare=lambda _group: None),
    _on_heartbeat(heartbeat_actions.disable_heartbeat, AgentId(agent_id=AGENT), _WHOSE, page="disable"),
    _on_heartbeat(heartbeat_actions.tick_heartbeat, AgentId(agent_id=AGENT), _WHOSE, page="tick"),
    _on_heartbeat(heartbeat_actions.heartbeat_interact, AgentId(agent_id=AGENT), _WHOSE),
    _on_heartbeat(heartbeat_actions.heartbeat_correct, CorrectAgent.model_validate(_CORRECTED), _CORRECTED),
    Case(
        action=heartbeat_actions.acknowledge_alerts,
        prepare=alerted,
        request=lambda made: AcknowledgeAlerts(ids=[made]),
        effect=open_alerts,
        rest=lambda made: ("POST", "/growth/heartbeat_acknowledge", {"ids": [made]}),
        admin=lambda made: ("/growth/alerts/acknowledge", {"alert": made}),
    ),
)

_SCHEDULES = text("SELECT agent_id, kind, cron, tz, task_description, state FROM schedules WHERE group_id = :group")
_HEARTBEATS = text("""
    SELECT enabled, interval_minutes, quiet_from, tz, corrections, last_interaction_at IS NULL, last_tick_at IS NULL
    FROM heartbeats WHERE group_id = :group
""")
_ALERTS = text("SELECT title FROM alerts WHERE group_id = :group AND acknowledged_at IS NULL")
