"""What tests of a real service share besides the service itself (:mod:`tests.shared`): people who sign in,
and that all is seen.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from importlib import import_module
from typing import TypeVar
from uuid import uuid4

import pytest
from pydantic import BaseModel
from sqlalchemy import Connection

from jiyi.protocol.accounts import AddPerson, Role, hash_password
from jiyi.protocol.wire import broker
from models.accounts import users
from models.accounts.actions import add_person
from models.accounts.users import User
from models.db.actions import Action, Actor, Context
from models.db.connection import unit_of_work
from models.db.scope import whole_service

Q = TypeVar("Q", bound=BaseModel)
R = TypeVar("R")

#: Of everybody that :func:`somebody` makes.
PASSWORD = "correct horse battery"


@pytest.fixture(autouse=True)
def _sees_everything() -> Iterator[None]:
    """Tests look at what was stored for whomever. Tasks, answers, jobs and the intake choose their scopes
    themselves.
    """
    with whole_service():
        yield


@lru_cache(maxsize=1)
def password_hash() -> str:
    return hash_password(PASSWORD)


def done_within(connection: Connection, action: Action[Q, R], actor: Actor, request: Q) -> R:
    """The effect of an action in a transaction of the test's; what follows a commit does not happen."""
    assert action.function is not None
    return action.function(Context(connection, actor, action.name), request)


def somebody(role: Role = "operator", groups: list[str] | None = None) -> User:
    """A new person with :data:`PASSWORD`."""
    name = f"{role}-{uuid4().hex[:8]}"
    somebody_new = AddPerson(
        name=name, password_hash=password_hash(), role=role, groups=groups, all_groups=groups is None
    )
    add_person.perform(Actor("test", "test", operator=True), somebody_new)
    with whole_service(), unit_of_work() as connection:
        user = users.by_name(connection, name)
    assert user is not None
    return user


@contextmanager
def intake_of_ones_own(name: str) -> Iterator[None]:
    """Events of this process go to an exchange and a queue of this name, and its intakes read them."""
    import_module("workers.intake.consumer")  # first: what is imported meanwhile would keep the name
    shared = {"EXCHANGE": broker.EXCHANGE, "INTAKE_QUEUE": broker.INTAKE_QUEUE}
    with pytest.MonkeyPatch.context() as patch:
        for module in list(sys.modules.values()):
            for constant, value in shared.items():
                if vars(module).get(constant) == value:
                    patch.setattr(module, constant, name)
        yield
