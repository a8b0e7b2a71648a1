"""Functions of the actions that :mod:`jiyi.protocol.actions` declares.

An action is a function of a :class:`Context` and a validated request. :meth:`Action.perform` runs it in one
transaction, which holds the effect, the audit row and the pending work; wake-ups and live events follow it.
The broker's calls, REST, the admin and the command line translate to it and add no rule of their own.
``models.actions`` imports every module that has some.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from dataclasses import fields as dataclass_fields
from typing import Any, Generic, TypeVar, get_type_hints
from uuid import UUID

from pydantic import BaseModel
from sqlalchemy import Connection, text

from jiyi.protocol.actions import TABLE, Declaration
from jiyi.protocol.base import QUEUE, user_of
from jiyi.protocol.wire.signatures import KeyScope
from models.accounts import audit
from models.db.connection import after_commit, unit_of_work
from models.db.errors import tried_again
from models.db.scope import narrowed_to, whole_service
from models.queue import pending_work

Q = TypeVar("Q", bound=BaseModel)
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Actor:
    """The caller, and the group of the request."""

    group_id: str
    #: For the audit log: ``user:mia``, ``key:a1b2c3d4 (crawler)``, or a client of the broker.
    name: str = audit.OPERATOR
    #: An operator also sees what is no group's, or all groups', where an action is ``across_groups``.
    operator: bool = False
    #: Has the scope ``admin``: reads that are open to others, too, also return what nobody has verified.
    admin: bool = False

    @property
    def is_person(self) -> bool:
        """Somebody who was named, or has the command line: no API key."""
        return self.name == audit.OPERATOR or self.name.startswith("user:")


@dataclass(slots=True)
class Context:
    """What an action's function works with: one transaction of one actor."""

    connection: Connection
    actor: Actor
    action: str

    @property
    def group_id(self) -> str:
        return self.actor.group_id

    def audit(self, target: str, *, group_id: str | None = "", **details: Any) -> None:
        """Record who did what, in this transaction. ``group_id``: the actor's unless given."""
        whose = self.group_id if group_id == "" else group_id
        who: dict[str, Any] = {"group_id": whose, "actor": self.actor.name, "action": self.action}
        audit.record(self.connection, **who, target=target, **details)

    def enqueue(self, kind: str, subjects: Iterable[tuple[UUID, str]]) -> None:
        """Enqueue work of a kind for subjects, (id, group) each; workers are woken after the commit."""
        pending_work.enqueue(self.connection, kind, subjects)

    def after_commit(self, function: Callable[[], object]) -> None:
        """Do this after the commit. What it raises is logged, and fails nothing."""
        after_commit(self.connection, function)


@dataclass(frozen=True, slots=True, kw_only=True)
class Action(Declaration, Generic[Q, R]):
    """A row of the table of actions with its function; or a :func:`read`, which has no name."""

    request: type[Q]
    #: None: only workers can do it; other processes ask one of them.
    function: Callable[[Context, Q], R] | None
    mutates: bool = True

    def perform(self, actor: Actor, request: Q, *, timeout_ms: int | None = None) -> R:
        """Do it in its own transaction; ``timeout_ms``: of each statement. Raises JiyiError: refused."""
        assert self.function is not None, f"{self.name} is for workers"
        everything = self.whole_service or (self.across_groups and actor.operator)
        with whole_service() if everything else narrowed_to(actor.group_id, user_of(request)):
            return tried_again(lambda: self._transaction(actor, request, timeout_ms))

    def _transaction(self, actor: Actor, request: Q, timeout_ms: int | None) -> R:
        assert self.function is not None
        with unit_of_work() as connection:
            if timeout_ms is not None or not self.mutates:
                connection.execute(_BOUNDS, {"timeout": timeout_ms, "read_only": not self.mutates})
            return self.function(Context(connection, actor, self.name), request)


#: Every action whose module was imported, by name.
REGISTERED: dict[str, Action[Any, Any]] = {}


def action(name: str) -> Callable[[Callable[[Context, Q], R]], Action[Q, R]]:
    """Make a function the action ``name`` of the table (:mod:`jiyi.protocol.actions`).

    It is annotated with the table's request and result; its docstring is for people.
    """

    def register(function: Callable[[Context, Q], R]) -> Action[Q, R]:
        hints = get_type_hints(function, include_extras=True)
        declared = TABLE[name]
        if (hints["request"], hints["return"]) != (declared.request, declared.result):
            other = f"another request or result than {function.__qualname__}"
            raise TypeError(f"{name}: jiyi/protocol/actions.py declares {other}")
        return _registered(declared, function, function.__doc__ or "")

    return register


def by_worker(name: str) -> Action[Any, Any]:
    """An action that needs a worker, such as for a model; ``tasks.framework.rpc.implements`` does it."""
    return _registered(TABLE[name], None, TABLE[name].doc)


def read(*, scope: KeyScope) -> Callable[[Callable[[Context, Q], R]], Action[Q, R]]:
    """Make a function a read that one interface alone serves, such as REST a list with cursors."""

    def register(function: Callable[[Context, Q], R]) -> Action[Q, R]:
        hints, doc = get_type_hints(function), (function.__doc__ or "").strip()
        what: dict[str, Any] = {"request": hints["request"], "result": hints["return"], "doc": doc}
        return Action(name="", scope=scope, function=function, mutates=False, queue=QUEUE, **what)

    return register


def _registered(
    declared: Declaration, function: Callable[[Context, Any], Any] | None, doc: str
) -> Action[Any, Any]:
    assert declared.name not in REGISTERED, f"two functions are the action {declared.name}"
    fields = {field.name: getattr(declared, field.name) for field in dataclass_fields(declared)}
    REGISTERED[declared.name] = Action(**{**fields, "function": function, "doc": doc.strip()})
    return REGISTERED[declared.name]


_BOUNDS = text("""
    SELECT set_config('statement_timeout', coalesce(CAST(:timeout AS text),
    current_setting('statement_timeout')), true),
        set_config('transaction_read_only', CASE WHEN :read_only THEN 'on' ELSE
        current_setting('transaction_read_only') END, true),
        set_config('plan_cache_mode', 'force_custom_plan', true)
""")
