"""How each action is tried: what there is before, what is asked, what is to be seen afterwards."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from models.db.actions import Action


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
