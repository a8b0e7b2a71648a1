"""The commands on skills, workflows, votes, patterns and trajectories: each is the action of its name (ZC-64…ZC-75, ZC-84…ZC-87)."""

from __future__ import annotations

from typing import Any

from models.db.actions import Action
from models.growth.artifacts import actions as artifacts
from models.growth.skills import actions as skills
from models.growth.trajectories import actions as trajectories
from models.growth.workflows import actions as workflows
from web.api.registry import expose


def told(action: Action[Any, Any]) -> dict[str, Any]:
    """Address, id and body follow from the action; 409: what was decided meanwhile does not allow it."""
    errors = (404, 409) if action.mutates else (404,)
    return {"path": f"/growth/{action.name}", "id": action.name, "tag": "growth", "body": action.request, "errors": errors}


expose(skills.list_skills, "POST", **told(skills.list_skills))
expose(skills.get, "POST", **told(skills.get))
expose(skills.accept, "POST", **told(skills.accept))
expose(skills.decline, "POST", **told(skills.decline))
expose(skills.enable, "POST", **told(skills.enable))
expose(skills.disable, "POST", **told(skills.disable))
expose(skills.archive, "POST", **told(skills.archive))
expose(skills.delete, "POST", **told(skills.delete))
expose(workflows.list_workflows, "POST", **told(workflows.list_workflows))
expose(workflows.get, "POST", **told(workflows.get))
expose(workflows.accept, "POST", **told(workflows.accept))
expose(workflows.decline, "POST", **told(workflows.decline))
expose(workflows.enable, "POST", **told(workflows.enable))
expose(workflows.disable, "POST", **told(workflows.disable))
expose(workflows.archive, "POST", **told(workflows.archive))
expose(workflows.delete, "POST", **told(workflows.delete))
expose(artifacts.give, "POST", **told(artifacts.give))
expose(artifacts.list_votes, "POST", **told(artifacts.list_votes))
expose(artifacts.list_trust, "POST", **told(artifacts.list_trust))
expose(artifacts.list_patterns, "POST", **told(artifacts.list_patterns))
expose(artifacts.list_events, "POST", **told(artifacts.list_events))
expose(artifacts.pending_hint, "POST", **told(artifacts.pending_hint))
expose(trajectories.list_trajectories, "POST", **told(trajectories.list_trajectories))
expose(trajectories.get, "POST", **told(trajectories.get))
expose(trajectories.list_steps, "POST", **told(trajectories.list_steps))
