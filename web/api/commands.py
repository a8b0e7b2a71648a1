"""Commands: actions whose address, id and body follow from their name, each in the order of its subject's modules."""

from __future__ import annotations

from collections.abc import Iterable
from types import ModuleType
from typing import Any

from jiyi.protocol.openapi.operations import Tag
from models.appointments import heartbeat_actions, schedule_actions
from models.conversations import actions as conversations
from models.db.actions import Action
from models.growth import artifacts, identity_actions, pain_actions, self_review, tracking, trajectories
from models.growth.artifacts import SKILL_ACTIONS, WORKFLOW_ACTIONS
from models.stores import actions as stores
from web.api.registry import expose

Command = Action[Any, Any]


def expose_commands(tag: Tag, *given: ModuleType | Command, conflicts: bool = False) -> None:
    """Make actions, or all actions of a module, ``POST /<tag>/<verb>``; with ``conflicts``, 409 where the state does not allow it."""
    for action in _each(given):
        body = action.request if action.request.model_fields else None
        errors = (404, 409) if conflicts and action.mutates else (404,)
        path = f"/{tag}/{action.name.removeprefix(f'{tag}.')}"
        expose(action, "POST", path, id=action.name.replace(".", "_"), tag=tag, body=body, errors=errors)


def _each(given: Iterable[ModuleType | Command]) -> Iterable[Command]:
    for one in given:
        yield from (value for value in vars(one).values() if isinstance(value, Action)) if isinstance(one, ModuleType) else (one,)


expose_commands("conversations", conversations)
expose_commands("stores", stores)
expose_commands("growth", *SKILL_ACTIONS.values(), *WORKFLOW_ACTIONS.values(), artifacts, trajectories, conflicts=True)
expose_commands("growth", identity_actions, pain_actions, self_review, tracking, conflicts=True)
expose_commands("growth", schedule_actions, heartbeat_actions)
