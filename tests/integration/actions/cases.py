"""How each action is tried: what there is before, what is asked, what is to be seen afterwards."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from models.db.actions import Action, Actor


@dataclass(frozen=True)
class Case:
    """One mutation. What stands for its kind says how REST and the admin are asked for the same.

    ``prepare(group)`` makes what the action is done to, and returns what the other functions get as ``made``.
    """

    action: Action[Any, Any]
    prepare: Callable[[str], Any]
    request: Callable[[Any], BaseModel]
    #: ``effect(group, made)``: what is there afterwards, without ids and times, for those that another door
    #: has to have, too.
    effect: Callable[[str, Any], Any] | None = None
    #: ``rest(made)``: method, path below /api/v1, body; None: it is not tried there.
    rest: Callable[[Any], tuple[str, str, dict[str, Any] | None]] | None = None
    #: ``admin(made)``: address and form of the page; None: it is not tried there.
    admin: Callable[[Any], tuple[str, dict[str, Any]]] | None = None
    #: Tells two cases of one action apart.
    name: str = ""

    def __str__(self) -> str:
        return f"{self.action.name}{self.name and '-' + self.name}"


#: In a field: what was prepared.
MADE = object()


def nothing(_group: str) -> None:
    """What some actions need before."""


def case(
    action: Any, prepare: Callable[[str], Any], fields: dict[str, Any], name: str = "", **doors: Any
) -> Case:
    """Of an action with these fields."""

    def request(made: Any) -> BaseModel:
        given = {
            field: made if value is MADE else [made] if value == [MADE] else value
            for field, value in fields.items()
        }
        asked: BaseModel = action.request.model_validate(given)
        return asked

    return Case(action, prepare, request, name=name, **doors)


def do(group: str, action: Any, *, operator: bool = False, **fields: Any) -> Any:
    """What an action answers to a request of these fields."""
    return action.perform(Actor(group, "test", operator=operator), action.request.model_validate(fields))
