"""Calls over the broker: each action of the registry is the Celery task ``rpc.<name>``.

Whoever may write to the broker is trusted as an operator (``docs/tenants.md``). A message is acknowledged early: an answer that a
dead worker owes is of no use later, the caller asks again. Safe to repeat because every action is.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, TypeVar

from celery import shared_task
from pydantic import BaseModel, ConfigDict

from jiyi.protocol.events import Name
from models.accounts.audit import OPERATOR
from models.actions import ACTIONS
from models.db.actions import Action, Actor
from models.db.scope import for_groups
from models.db.valkey import valkey
from tasks.framework.answering import ANSWER_TIME_LIMIT, push, reply_to

log = logging.getLogger(__name__)

Q = TypeVar("Q", bound=BaseModel)
R = TypeVar("R")

#: Names that an older client calls: kept for one release.
_OLD_NAMES_TOLD: set[str] = set()


class _Whose(BaseModel):
    """The part of every call that says for which group it asks."""

    model_config = ConfigDict(extra="ignore")

    group_id: Name


def implements(action: Action[Q, R]) -> Callable[[Callable[[Actor, Q], R]], Callable[[Actor, Q], R]]:
    """Make a function the implementation of an action that only workers can do. It opens its own transactions."""

    def register(function: Callable[[Actor, Q], R]) -> Callable[[Actor, Q], R]:
        def in_scope(actor: Actor, request: Q) -> R:
            with for_groups(actor.group_id):
                return function(actor, request)

        _serve(action, in_scope)
        return function

    return register


def _serve(action: Action[Q, R], perform: Callable[[Actor, Q], R]) -> None:
    def answer(request_id: str, request: dict[str, Any], actor: str) -> None:
        def parse() -> tuple[Actor, Q]:
            body = {name: value for name, value in request.items() if name != "group_id"}
            group_id = _Whose.model_validate(request).group_id
            return Actor(group_id, actor, operator=actor == OPERATOR), action.request.model_validate(body)

        _, _, reply = reply_to(action.name, request_id, parse, lambda asked: perform(*asked))
        with valkey().pipeline(transaction=False) as pipe:
            push(pipe, request_id, reply)
            pipe.execute()

    options = {"acks_late": False, "ignore_result": True, "time_limit": ANSWER_TIME_LIMIT}

    @shared_task(name=f"rpc.{action.name}", **options)
    def run(request_id: str, request: dict[str, Any], actor: str = OPERATOR) -> None:
        answer(request_id, request, actor)

    if action.formerly is not None:

        @shared_task(name=action.formerly, **options)
        def run_as_formerly(request_id: str, request: dict[str, Any]) -> None:
            if action.name not in _OLD_NAMES_TOLD:
                _OLD_NAMES_TOLD.add(action.name)
                log.warning("an older client calls %s; the next release knows it as rpc.%s only", action.formerly, action.name)
            answer(request_id, request, OPERATOR)


for known in ACTIONS.values():
    if known.function is not None:
        _serve(known, known.perform)
