"""How each action is tried: what there is before, what is asked, and how each door is asked for the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from models.db.actions import Action


@dataclass(frozen=True)
class Case:
    """One mutation, done in the same way through every door that it has.

    ``prepare(group)`` makes what the action is done to, and returns what the other functions get as ``made``.
    """

    action: Action[Any, Any]
    prepare: Callable[[str], Any]
    request: Callable[[Any], BaseModel]
    #: ``effect(group, made)``: what is there afterwards, without ids and times, so that doors can be compared.
    effect: Callable[[str, Any], Any]
    #: ``rest(made)``: method, path below /api/v1, body; None: REST does not have it.
    rest: Callable[[Any], tuple[str, str, dict[str, Any] | None]] | None = None
    #: ``admin(made)``: address and form of the page; None: no page has it.
    admin: Callable[[Any], tuple[str, dict[str, Any]]] | None = None
    #: Tells two cases of one action apart.
    name: str = ""

    def __str__(self) -> str:
        return f"{self.action.name}{self.name and '-' + self.name}"


def command(
    action: Action[Any, Any],
    tag: str,
    fields: Callable[[Any], dict[str, Any]],
    *,
    prepare: Callable[[str], Any],
    effect: Callable[[str, Any], Any],
    admin: Callable[[Any], tuple[str, dict[str, Any]]] | None = None,
) -> Case:
    """The case of an action that REST has under its name: the request and the body have the same ``fields(made)``."""
    return Case(
        action=action,
        prepare=prepare,
        request=lambda made: action.request.model_validate(fields(made)),
        effect=effect,
        rest=lambda made: ("POST", f"/{tag}/{action.name}", fields(made)),
        admin=admin,
    )
