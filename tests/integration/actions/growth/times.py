"""Cases of the actions on schedules, heartbeats and alerts."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from jiyi.protocol.appointments import ConfigureHeartbeat, CreateSchedule, UpdateSchedule
from jiyi.protocol.base import ById, ByIds
from models.appointments import heartbeat_actions, heartbeats, schedule_actions
from models.appointments.heartbeats import NewAlert
from models.db.actions import Actor
from models.db.connection import unit_of_work
from models.memory import agents
from tests.integration.actions.cases import Case

AGENT = "小伴"
SAID = "每天早上9点提醒我查房"


def scheduled(group: str) -> str:
    """The id of a schedule."""
    made = schedule_actions.create_schedule.perform(
        Actor(group, "test"), CreateSchedule(agent_id=AGENT, text=SAID)
    )
    assert made.schedule is not None
    return str(made.schedule.id)


def paused(group: str) -> str:
    schedule_id = scheduled(group)
    schedule_actions.update_schedule.perform(
        Actor(group, "test"), UpdateSchedule(id=UUID(schedule_id), paused=True)
    )
    return schedule_id


def alerted(group: str) -> str:
    """The id of an alert."""
    now = datetime.now(UTC)
    new = NewAlert(
        agent_id=AGENT,
        source="schedule",
        title="x",
        content="x",
        urgency="high",
        channel="ui",
        deliver_at=now,
    )
    with unit_of_work() as connection:
        agents.lock_agents(connection, [(group, AGENT)])
        heartbeats.add(connection, group, [new], now)
    return str(new.alert_id)


def beating(group: str) -> None:
    heartbeat_actions.configure_heartbeat.perform(
        Actor(group, "test"), ConfigureHeartbeat(agent_id=AGENT, enabled=True)
    )


def _on_schedule(action: Any, prepare: Any) -> Case:
    return Case(action=action, prepare=prepare, request=lambda made: ById(id=made))


def _on_heartbeat(action: Any, *, prepare: Any = beating, **fields: Any) -> Case:
    return Case(
        action=action, prepare=prepare, request=lambda _made: action.request(agent_id=AGENT, **fields)
    )


CASES = (
    Case(
        action=schedule_actions.create_schedule,
        prepare=lambda _group: None,
        request=lambda _made: CreateSchedule(agent_id=AGENT, text=SAID),
    ),
    Case(
        action=schedule_actions.update_schedule,
        prepare=scheduled,
        request=lambda made: UpdateSchedule(id=made, text="every day at 10:30", task="water the ferns"),
        admin=lambda made: (
            f"/growth/schedules/{made}",
            {"text": "every day at 10:30", "task": "water the ferns"},
        ),
    ),
    Case(
        action=schedule_actions.update_schedule,
        prepare=scheduled,
        name="pause",
        request=lambda made: UpdateSchedule(id=made, paused=True),
        admin=lambda made: (f"/growth/schedules/{made}/pause", {}),
    ),
    Case(
        action=schedule_actions.update_schedule,
        prepare=paused,
        name="resume",
        request=lambda made: UpdateSchedule(id=made, paused=False),
        admin=lambda made: (f"/growth/schedules/{made}/resume", {}),
    ),
    _on_schedule(schedule_actions.delete_schedule, scheduled),
    _on_heartbeat(
        heartbeat_actions.configure_heartbeat, interval_minutes=60, quiet_hours=None, tz="Asia/Shanghai"
    ),
    _on_heartbeat(heartbeat_actions.configure_heartbeat, prepare=lambda _group: None, enabled=True),
    _on_heartbeat(heartbeat_actions.tick_heartbeat),
    Case(
        action=heartbeat_actions.acknowledge_alerts, prepare=alerted, request=lambda made: ByIds(ids=[made])
    ),
)
