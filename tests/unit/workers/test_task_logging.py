"""workers.celery.worker_setup: workers that answer do not list each task, the others do."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from workers.celery import worker_setup


@pytest.fixture(autouse=True)
def _levels() -> Iterator[None]:
    before = {name: logging.getLogger(name).level for name in worker_setup.LISTING}
    yield
    for name, level in before.items():
        logging.getLogger(name).setLevel(level)


@pytest.mark.parametrize(("worker", "listed"), [("retrieval@host", False), ("retrieval-1@host", False), ("upkeep@host", True)])
def test_workers_that_answer_tell_of_errors_only(worker: str, *, listed: bool) -> None:
    for name in worker_setup.LISTING:
        logging.getLogger(name).setLevel(logging.INFO)
    worker_setup.quieten(sender=worker, instance=None, conf=None, options={})
    for name in worker_setup.LISTING:
        assert logging.getLogger(name).isEnabledFor(logging.INFO) is listed
        assert logging.getLogger(name).isEnabledFor(logging.ERROR)
