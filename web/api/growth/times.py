"""The commands on schedules, heartbeats and health: each is the action of its name (ZC-90 … ZC-96, ZC-134 … ZC-142)."""

from __future__ import annotations

from models.growth import heartbeat_actions, schedule_actions
from web.api.growth.evolution import told
from web.api.registry import expose

expose(schedule_actions.parse_schedule, "POST", **told(schedule_actions.parse_schedule))
expose(schedule_actions.create_schedule, "POST", **told(schedule_actions.create_schedule))
expose(schedule_actions.list_schedules, "POST", **told(schedule_actions.list_schedules))
expose(schedule_actions.get_schedule, "POST", **told(schedule_actions.get_schedule))
expose(schedule_actions.schedule_runs, "POST", **told(schedule_actions.schedule_runs))
expose(schedule_actions.pause_schedule, "POST", **told(schedule_actions.pause_schedule))
expose(schedule_actions.resume_schedule, "POST", **told(schedule_actions.resume_schedule))
expose(schedule_actions.delete_schedule, "POST", **told(schedule_actions.delete_schedule))
expose(heartbeat_actions.get_heartbeat, "POST", **told(heartbeat_actions.get_heartbeat))
expose(heartbeat_actions.configure_heartbeat, "POST", **told(heartbeat_actions.configure_heartbeat))
expose(heartbeat_actions.enable_heartbeat, "POST", **told(heartbeat_actions.enable_heartbeat))
expose(heartbeat_actions.disable_heartbeat, "POST", **told(heartbeat_actions.disable_heartbeat))
expose(heartbeat_actions.tick_heartbeat, "POST", **told(heartbeat_actions.tick_heartbeat))
expose(heartbeat_actions.heartbeat_status, "POST", **told(heartbeat_actions.heartbeat_status))
expose(heartbeat_actions.heartbeat_history, "POST", **told(heartbeat_actions.heartbeat_history))
expose(heartbeat_actions.heartbeat_alerts, "POST", **told(heartbeat_actions.heartbeat_alerts))
expose(heartbeat_actions.acknowledge_alerts, "POST", **told(heartbeat_actions.acknowledge_alerts))
expose(heartbeat_actions.heartbeat_interact, "POST", **told(heartbeat_actions.heartbeat_interact))
expose(heartbeat_actions.heartbeat_correct, "POST", **told(heartbeat_actions.heartbeat_correct))
expose(heartbeat_actions.health_snapshot, "POST", **told(heartbeat_actions.health_snapshot))
