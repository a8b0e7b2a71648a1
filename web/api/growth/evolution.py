"""The commands on skills, workflows, votes, patterns and trajectories: each is the action of its name (ZC-64…ZC-75, ZC-84…ZC-87)."""

from __future__ import annotations

from typing import Any

from models.db.actions import Action
from models.growth.artifacts import actions as artifacts
from models.growth.skills import actions as skills
from models.growth.trajectories import actions as trajectories
from models.growth.workflows import actions as workflows
from web.api.registry import expose


def _told(action: Action[Any, Any]) -> dict[str, Any]:
    """Address, id and body follow from the action; 409: what was decided meanwhile does not allow it."""
    errors = (404, 409) if action.mutates else (404,)
    return {"path": f"/growth/{action.name}", "id": action.name, "tag": "growth", "body": action.request, "errors": errors}


expose(skills.list_skills, "POST", **_told(skills.list_skills))
expose(skills.get, "POST", **_told(skills.get))
expose(skills.accept, "POST", **_told(skills.accept))
expose(skills.decline, "POST", **_told(skills.decline))
expose(skills.enable, "POST", **_told(skills.enable))
expose(skills.disable, "POST", **_told(skills.disable))
expose(skills.archive, "POST", **_told(skills.archive))
expose(skills.delete, "POST", **_told(skills.delete))
expose(workflows.list_workflows, "POST", **_told(workflows.list_workflows))
expose(workflows.get, "POST", **_told(workflows.get))
expose(workflows.accept, "POST", **_told(workflows.accept))
expose(workflows.decline, "POST", **_told(workflows.decline))
expose(workflows.enable, "POST", **_told(workflows.enable))
expose(workflows.disable, "POST", **_told(workflows.disable))
expose(workflows.archive, "POST", **_told(workflows.archive))
expose(workflows.delete, "POST", **_told(workflows.delete))
expose(artifacts.give, "POST", **_told(artifacts.give))
expose(artifacts.list_votes, "POST", **_told(artifacts.list_votes))
expose(artifacts.list_trust, "POST", **_told(artifacts.list_trust))
expose(artifacts.list_patterns, "POST", **_told(artifacts.list_patterns))
expose(artifacts.list_events, "POST", **_told(artifacts.list_events))
expose(artifacts.pending_hint, "POST", **_told(artifacts.pending_hint))
expose(trajectories.list_trajectories, "POST", **_told(trajectories.list_trajectories))
expose(trajectories.get, "POST", **_told(trajectories.get))
expose(trajectories.list_steps, "POST", **_told(trajectories.list_steps))
