"""A real service for all tests of a process, whichever folder they are in: its PostgreSQL, Valkey and workers
are started once.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from jiyi.polling import poll
from jiyi.protocol.wire.broker import INTAKE_QUEUE
from jiyi.settings import get_settings
from models.operations import worker_liveness
from models.queue.broker_queues import redis_address, task_queues
from tests import forking, pgbouncer
from tests.integration.quick_web import urls_built_late
from workers import ephemeral, procfile
from workers.embedded import postgres
from workers.embedded.stack import Stack

#: Small and quick: the machinery is under test, not the patience.
SETTINGS = {
    "embedder": "hashing",
    "work_lease_seconds": "4",
    "request_timeout": "30",  # an answer that comes late on a busy machine is one
    "secret_key": "only-for-tests-" + "x" * 32,
}


def share(config: pytest.Config) -> None:
    """Make the fixtures below those of the whole session: a folder's conftest would start a service for its
    folder.
    """
    if not config.pluginmanager.has_plugin(__name__):
        config.pluginmanager.register(sys.modules[__name__], __name__)


@pytest.fixture(scope="session")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """An embedded, migrated database and Valkey; ``JIYI_…`` point to them. Nor do servers that a test starts
    by itself wait for disks.
    """
    folder = tmp_path_factory.mktemp("stack")
    with (
        begun_by_forking(),
        without_fsync(),
        ephemeral.database(folder, **SETTINGS) as stack,
        _pooled(stack.urls.database_url),
    ):
        importlib.import_module(
            "workers.app"
        )  # the Celery app reads the settings, so not before they are there
        yield stack


@contextmanager
def begun_by_forking() -> Iterator[None]:
    """The processes that are started here are copies of one: :mod:`tests.forking`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ephemeral, "begin", forking.begin)
        yield


@contextmanager
def without_fsync() -> Iterator[None]:
    """PostgreSQLs that are started here wait for no disk: what they wrote survives their death, but no power
    cut.

    A test commits hundreds of times, and a disk takes some milliseconds each.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(postgres.SETTINGS, "fsync", "off")
        patch.setattr(postgres, "INITDB_OPTIONS", [*postgres.INITDB_OPTIONS, "--no-sync"])
        yield


@contextmanager
def _pooled(database_url: str) -> Iterator[None]:
    """With ``PGBOUNCER=1`` in the environment: all but what needs a session of its own goes through a
    PgBouncer that pools transactions.
    """
    if "PGBOUNCER" not in os.environ:
        yield
        return
    with (
        pgbouncer.in_front_of(database_url) as address,
        ephemeral.environment(database_url=address, database_direct_url=database_url),
    ):
        yield


@pytest.fixture(scope="session")
def _workers(database: Stack) -> Iterator[None]:
    with ExitStack() as running:
        with few_processes():
            running.enter_context(ephemeral.processes(database.log_dir))
        silent = poll(_silent, lambda left: not left, ephemeral.START_SECONDS)
        assert not silent, f"still starting: {silent}"
        yield


@contextmanager
def few_processes() -> Iterator[None]:
    """What is started of a service without naming it: its intake, its beat, and in place of the worker
    ``retrieval`` one of all queues.

    To start a worker for each queue is most of what a whole service costs here. Smoke tests have them all.
    """
    everything = procfile.commands

    def few() -> dict[str, list[str]]:
        commands = everything()
        own = {
            "--queues": ",".join(task_queues()),
            "--hostname": "all@%h",
        }  # not as those that answer, which log errors only
        named = [(part, part.partition("=")[0]) for part in commands["retrieval"]]
        worker = [f"{name}={own[name]}" if name in own else part for part, name in named]
        return {"intake": commands["intake"], "retrieval": worker, "beat": commands["beat"]}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ephemeral, "commands", few)
        yield


@pytest.fixture(scope="session")
def unlimited_web(database: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of the web as in production, for all who may ask as often as they like."""
    with ephemeral.served(tmp_path_factory.mktemp("web"), rate_limit="") as (port, _):
        yield port


@pytest.fixture(scope="session")
def quick_urls() -> Iterator[None]:
    with urls_built_late():
        yield


def _silent() -> set[str]:
    """Queues that nobody reads yet: the first test is not to wait for workers that are just starting."""
    settings = get_settings()
    read = {queue for worker in worker_liveness.workers() if worker.counts for queue in worker.queues}
    address = redis_address(settings.broker_url)
    if address is None or worker_liveness.intake_ages(
        address, INTAKE_QUEUE, settings.intake_redelivery_seconds
    ):
        read.add(INTAKE_QUEUE)
    return {*task_queues(), INTAKE_QUEUE} - read
