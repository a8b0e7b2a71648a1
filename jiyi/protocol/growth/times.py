"""Every command on schedules, heartbeats and health by its name: what it takes, what it gives, which queue of the broker answers it."""

from __future__ import annotations

from pydantic import BaseModel

from jiyi.protocol.conversations.commands import AgentId
from jiyi.protocol.growth.heartbeat import (
    AcknowledgeAlerts,
    Acknowledged,
    Alerts,
    ConfigureHeartbeat,
    CorrectAgent,
    Health,
    HealthRequest,
    HeartbeatConfig,
    HeartbeatState,
    ListAlerts,
    ListTicks,
    TickResult,
    Ticks,
)
from jiyi.protocol.growth.schedules import (
    AskedSchedules,
    AskSchedules,
    CreatedSchedule,
    CreateSchedule,
    Deleted,
    ListRuns,
    ListSchedules,
    ParseSchedule,
    ScheduleDetails,
    ScheduleId,
    ScheduleParse,
    ScheduleRuns,
    Schedules,
    ScheduleState,
)
from jiyi.protocol.queries import CHANGES, QUEUE

Command = tuple[type[BaseModel], type[BaseModel], str]

#: Name → request, result, queue. ``models.growth`` has what each does.
COMMANDS: dict[str, Command] = {
    "schedule_parse": (ParseSchedule, ScheduleParse, QUEUE),
    "schedule_create": (CreateSchedule, CreatedSchedule, CHANGES),
    "schedule_ask": (AskSchedules, AskedSchedules, CHANGES),
    "schedule_list": (ListSchedules, Schedules, QUEUE),
    "schedule_get": (ScheduleId, ScheduleDetails, QUEUE),
    "schedule_runs": (ListRuns, ScheduleRuns, QUEUE),
    "schedule_pause": (ScheduleId, ScheduleState, CHANGES),
    "schedule_resume": (ScheduleId, ScheduleState, CHANGES),
    "schedule_delete": (ScheduleId, Deleted, CHANGES),
    "heartbeat_get": (AgentId, HeartbeatConfig, QUEUE),
    "heartbeat_configure": (ConfigureHeartbeat, HeartbeatState, CHANGES),
    "heartbeat_enable": (AgentId, HeartbeatState, CHANGES),
    "heartbeat_disable": (AgentId, HeartbeatState, CHANGES),
    "heartbeat_tick": (AgentId, TickResult, CHANGES),
    "heartbeat_status": (AgentId, HeartbeatState, QUEUE),
    "heartbeat_history": (ListTicks, Ticks, QUEUE),
    "heartbeat_alerts": (ListAlerts, Alerts, QUEUE),
    "heartbeat_acknowledge": (AcknowledgeAlerts, Acknowledged, CHANGES),
    "heartbeat_interact": (AgentId, HeartbeatState, CHANGES),
    "heartbeat_correct": (CorrectAgent, HeartbeatState, CHANGES),
    "health_snapshot": (HealthRequest, Health, QUEUE),
}
