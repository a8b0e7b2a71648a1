"""What tests of a real service share: its settings, its PostgreSQL, Valkey and workers, and people who sign in.

A folder's conftest imports the fixtures that it offers.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import TypeVar
from uuid import uuid4

import pytest
from pydantic import BaseModel
from sqlalchemy import Connection

from jiyi.polling import poll
from jiyi.protocol.accounts import AddPerson, Role, hash_password
from jiyi.settings import get_settings
from models.accounts import users
from models.accounts.actions import add_person
from models.accounts.users import User
from models.db.actions import Action, Actor, Context
from models.db.connection import unit_of_work
from models.db.scope import whole_service
from models.operations import signs_of_life
from models.queue.broker_queues import redis_address, task_queues
from tests import pgbouncer
from workers import ephemeral
from workers.embedded import postgres
from workers.embedded.stack import Stack

Q = TypeVar("Q", bound=BaseModel)
R = TypeVar("R")

#: Small and quick: the machinery is under test, not the patience.
SETTINGS = {
    "embedder": "hashing",
    "work_lease_seconds": "4",
    "request_timeout": "30",  # an answer that comes late on a busy machine is one
    "secret_key": "only-for-tests-" + "x" * 32,
}
#: Of everybody that :func:`somebody` makes.
PASSWORD = "correct horse battery"


@pytest.fixture(scope="session")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """An embedded, migrated database and Valkey; ``JIYI_…`` point to them."""
    folder = tmp_path_factory.mktemp("stack")
    with without_fsync() as as_usual, ephemeral.database(folder, **SETTINGS) as stack, _pooled(stack.urls.database_url):
        as_usual()  # for servers that a test starts by itself
        importlib.import_module("workers.app")  # the Celery app reads the settings, so not before they are there
        yield stack


@contextmanager
def without_fsync() -> Iterator[Callable[[], None]]:
    """PostgreSQLs that are started here wait for no disk: what they wrote survives their death, but no power cut.

    A test commits hundreds of times, and a disk takes some milliseconds each. Gives a function that ends it early.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(postgres.SETTINGS, "fsync", "off")
        patch.setattr(postgres, "INITDB_OPTIONS", [*postgres.INITDB_OPTIONS, "--no-sync"])
        yield patch.undo


@contextmanager
def _pooled(database_url: str) -> Iterator[None]:
    """With ``PGBOUNCER=1`` in the environment: all but what needs a session of its own goes through a PgBouncer that pools transactions."""
    if "PGBOUNCER" not in os.environ:
        yield
        return
    with pgbouncer.in_front_of(database_url) as address, ephemeral.environment(database_url=address, database_direct_url=database_url):
        yield


@pytest.fixture(autouse=True)
def _sees_everything() -> Iterator[None]:
    """Tests look at what was stored for whomever. Tasks, answers, jobs and the intake choose their scopes themselves."""
    with whole_service():
        yield


@pytest.fixture(scope="session")
def _workers(database: Stack) -> Iterator[None]:
    with ephemeral.processes(database.log_dir):
        silent = poll(_silent, lambda left: not left, ephemeral.START_SECONDS)
        assert not silent, f"still starting: {silent}"
        yield


def _silent() -> set[str]:
    """Queues that nobody reads yet: the first test is not to wait for workers that are just starting."""
    settings = get_settings()
    read = {queue for worker in signs_of_life.workers() if worker.counts for queue in worker.queues}
    address = redis_address(settings.broker_url)
    if address is None or signs_of_life.intake_ages(address, settings.intake_queue, settings.intake_redelivery_seconds):
        read.add(settings.intake_queue)
    return {*task_queues(), settings.intake_queue} - read


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
    somebody_new = AddPerson(name=name, password_hash=password_hash(), role=role, groups=groups, all_groups=groups is None)
    add_person.perform(Actor("test", "test", operator=True), somebody_new)
    with whole_service(), unit_of_work() as connection:
        user = users.by_name(connection, name)
    assert user is not None
    return user
