"""Calls over the broker: each action is the Celery task ``rpc.<name>``, also by each of its aliases."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict

from engine import subjects
from engine.subjects import Subject
from jiyi.protocol.actions import ALIASES_OF
from models.actions import ACTIONS, REFUSED
from models.db.actions import Action, Actor
from tasks.framework.answering import OnReply, serve

Q = TypeVar("Q", bound=BaseModel)
R = TypeVar("R")
F = TypeVar("F", bound=Callable[[Actor, Any], Any])


def implements(action: Action[Any, Any], *, on_reply: OnReply | None = None) -> Callable[[F], F]:
    """Make a function the implementation of an action that only workers can do, in transactions of its
    own; ``on_reply``: what goes to Valkey with its reply.
    """

    def register(function: F) -> F:
        _serve(action, function, on_reply)
        return function

    return register


def _serve(action: Action[Q, R], perform: Callable[[Actor, Q], R], on_reply: OnReply | None = None) -> None:
    for name in (action.name, *ALIASES_OF[action.name]):
        serve(
            f"rpc.{name}",
            action.request,
            perform,
            scope=action.scope,
            changes=action.mutates,
            on_reply=on_reply,
        )


class _Anything(BaseModel):
    """A request that is refused, whatever it says."""

    model_config = ConfigDict(extra="allow")


def _refuse(subject: Subject, call: str) -> None:
    def refuse(_actor: Actor, _request: _Anything) -> None:
        raise subject.refusal

    serve(call, _Anything, refuse, scope="read")


for subject in subjects.off():
    for call in subject.calls:
        _refuse(subject, call)
for action in (*ACTIONS.values(), *REFUSED.values()):
    if action.function is not None:
        _serve(action, action.perform)
