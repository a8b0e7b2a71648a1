"""Commands: actions whose address, id and body follow from their name, each in the order of its subject's modules."""

from __future__ import annotations

from collections.abc import Iterable
from types import ModuleType
from typing import Any

from jiyi.protocol.openapi.operations import Tag
from models.conversations import actions as conversations
from models.db.actions import Action
from models.growth.artifacts import actions as artifacts
from models.growth.heartbeat import actions as heartbeat_actions
from models.growth.identity import actions as identity
from models.growth.identity import questions as identity_questions
from models.growth.pains import actions as pains
from models.growth.reflections import actions as reflections
from models.growth.schedules import actions as schedule_actions
from models.growth.schedules import asking as schedule_asking
from models.growth.skills import actions as skills
from models.growth.tracking import actions as tracking
from models.growth.trajectories import actions as trajectories
from models.growth.workflows import actions as workflows
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
expose_commands("growth", skills, workflows, artifacts, trajectories, conflicts=True)
expose_commands("growth", identity_questions, identity, pains, reflections, tracking, conflicts=True)
expose_commands("growth", schedule_actions, schedule_asking.ask, heartbeat_actions)
