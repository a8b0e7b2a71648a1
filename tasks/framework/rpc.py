"""Calls over the broker: each action is the Celery task ``rpc.<name>``, also by each of its aliases.

Who calls is told by the call's signature, and needs the action's scope (:mod:`tasks.framework.answering`). A
message is acknowledged early: an answer that a dead worker owes is of no use later, the caller asks again.
Safe to repeat because every action is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from celery import shared_task
from pydantic import BaseModel, ConfigDict

from engine import subjects
from engine.subjects import Subject
from jiyi import tracing
from jiyi.protocol.actions import ALIASES_OF
from jiyi.protocol.base import JsonMapping, Name, user_of
from jiyi.protocol.wire.signatures import KeyScope
from models.actions import ACTIONS, REFUSED
from models.db.actions import Action, Actor
from models.db.scope import for_groups
from models.db.valkey import valkey
from tasks.framework import answering
from tasks.framework.answering import ANSWER_TIME_LIMIT, in_turn, push, reply_to

Q = TypeVar("Q", bound=BaseModel)
R = TypeVar("R")
F = TypeVar("F", bound=Callable[[Actor, Any], Any])


class _Whose(BaseModel):
    """The part of every call that says for which group it asks."""

    model_config = ConfigDict(extra="ignore")

    group_id: Name


def implements(action: Action[Any, Any]) -> Callable[[F], F]:
    """Make a function the implementation of an action that only workers can do. It opens its own
    transactions.
    """

    def register(function: F) -> F:
        _serve(action, function)
        return function

    return register


def _serve(action: Action[Q, R], perform: Callable[[Actor, Q], R]) -> None:
    for name in (action.name, *ALIASES_OF[action.name]):
        answer(f"rpc.{name}", action.request, perform, scope=action.scope, changes=action.mutates)


def answer(
    task: str, model: type[Q], perform: Callable[[Actor, Q], R], *, scope: KeyScope, changes: bool
) -> None:
    """Make a function of who asks, and what, a Celery task: it answers whoever may, in the scope of the group
    they ask for.
    """

    def in_scope(actor: Actor, asked: Q) -> R:
        with for_groups(actor.group_id, user=user_of(asked)):
            return perform(actor, asked)

    @shared_task(name=task, bind=True, acks_late=False, ignore_result=True, time_limit=ANSWER_TIME_LIMIT)
    def run(self: Any, request_id: str, request: JsonMapping, actor: str | None = None) -> None:  # noqa: ARG001 – part of what is signed
        def parse() -> tuple[Actor, Q]:
            body = {name: value for name, value in request.items() if name != "group_id"}
            group_id = _Whose.model_validate(request).group_id
            return answering.caller(
                self.request, task, group_id, scope, changes=changes
            ), model.model_validate(body)

        def answer_in_turn(asked: tuple[Actor, Q]) -> R:
            with in_turn(self.request, asked[0].group_id):
                return in_scope(*asked)

        with tracing.span(task, "consumer", within=tracing.received(self.request)):
            _, _, reply = reply_to(task, request_id, parse, answer_in_turn, model)
            with valkey().pipeline(transaction=False) as pipe:
                push(pipe, request_id, reply)
                pipe.execute()


class _Anything(BaseModel):
    """A request that is refused, whatever it says."""

    model_config = ConfigDict(extra="allow")


def _refuse(subject: Subject, call: str) -> None:
    def refuse(_actor: Actor, _request: _Anything) -> None:
        raise subject.refusal

    answer(call, _Anything, refuse, scope="read", changes=False)


for subject in subjects.off():
    for call in subject.calls:
        _refuse(subject, call)
for known in (*ACTIONS.values(), *REFUSED.values()):
    if known.function is not None:
        _serve(known, known.perform)
