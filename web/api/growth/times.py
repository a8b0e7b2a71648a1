"""The commands on schedules, heartbeats and health: each is the action of its name (ZC-90 … ZC-96, ZC-134 … ZC-142)."""

from __future__ import annotations

from typing import Any

from models.db.actions import Action
from models.growth import heartbeat_actions, schedule_actions
from web.api.registry import expose


def _told(action: Action[Any, Any]) -> dict[str, Any]:
    """Address, id and body follow from the action."""
    return {"path": f"/growth/{action.name}", "id": action.name, "tag": "growth", "body": action.request, "errors": (404,)}


expose(schedule_actions.parse_schedule, "POST", **_told(schedule_actions.parse_schedule))
expose(schedule_actions.create_schedule, "POST", **_told(schedule_actions.create_schedule))
expose(schedule_actions.list_schedules, "POST", **_told(schedule_actions.list_schedules))
expose(schedule_actions.get_schedule, "POST", **_told(schedule_actions.get_schedule))
expose(schedule_actions.schedule_runs, "POST", **_told(schedule_actions.schedule_runs))
expose(schedule_actions.pause_schedule, "POST", **_told(schedule_actions.pause_schedule))
expose(schedule_actions.resume_schedule, "POST", **_told(schedule_actions.resume_schedule))
expose(schedule_actions.delete_schedule, "POST", **_told(schedule_actions.delete_schedule))
expose(heartbeat_actions.get_heartbeat, "POST", **_told(heartbeat_actions.get_heartbeat))
expose(heartbeat_actions.configure_heartbeat, "POST", **_told(heartbeat_actions.configure_heartbeat))
expose(heartbeat_actions.enable_heartbeat, "POST", **_told(heartbeat_actions.enable_heartbeat))
expose(heartbeat_actions.disable_heartbeat, "POST", **_told(heartbeat_actions.disable_heartbeat))
expose(heartbeat_actions.tick_heartbeat, "POST", **_told(heartbeat_actions.tick_heartbeat))
expose(heartbeat_actions.heartbeat_status, "POST", **_told(heartbeat_actions.heartbeat_status))
expose(heartbeat_actions.heartbeat_history, "POST", **_told(heartbeat_actions.heartbeat_history))
expose(heartbeat_actions.heartbeat_alerts, "POST", **_told(heartbeat_actions.heartbeat_alerts))
expose(heartbeat_actions.acknowledge_alerts, "POST", **_told(heartbeat_actions.acknowledge_alerts))
expose(heartbeat_actions.heartbeat_interact, "POST", **_told(heartbeat_actions.heartbeat_interact))
expose(heartbeat_actions.heartbeat_correct, "POST", **_told(heartbeat_actions.heartbeat_correct))
expose(heartbeat_actions.health_snapshot, "POST", **_told(heartbeat_actions.health_snapshot))
