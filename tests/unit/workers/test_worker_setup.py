"""workers.celery.worker_setup: a broker that is back is found soon; workers in the background give way, those that answer list no tasks."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
from celery import Celery
from kombu.exceptions import OperationalError

from workers.celery import worker_setup
from workers.celery.worker_setup import FIRST, MOST, Connection, SoonAgain
from workers.procfile import commands

#: A process of its own: none gets its priority back.
PROGRAM = """
import os, sys, threading
from celery import signals
from workers.celery import worker_setup
from workers.supervision.processes import AUTOGROUP
worker_setup.install_priority()
signals.celeryd_init.send(sender=sys.argv[1], instance=None, conf=None, options={})
session = AUTOGROUP.read_text().split()[-1:] if AUTOGROUP.exists() else []
thread = threading.Thread(target=lambda: print(os.nice(0), *session))
thread.start()
thread.join()
"""


def test_a_broker_that_is_away_is_tried_again_soon_and_never_after_long_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kombu.utils.functional.sleep", lambda _seconds: None)
    app = Celery("test", broker="redis://127.0.0.1:1/0", amqp=SoonAgain, set_as_current=False)
    pauses: list[float] = []
    for connection in (app.connection_for_read(), app.connection_for_write()):
        assert isinstance(connection, Connection)
        pauses.clear()
        with pytest.raises(OperationalError):
            connection.ensure_connection(lambda _error, pause: pauses.append(pause), max_retries=15)
        assert pauses[0] == FIRST
        assert max(pauses) <= MOST
        assert sum(pauses[:4]) <= MOST


@pytest.mark.parametrize(("worker", "gives_way"), [("embedding@host", True), ("retrieval-1@host", False)])
def test_threads_of_workers_in_the_background_have_a_lower_priority(worker: str, *, gives_way: bool) -> None:
    told = subprocess.run([sys.executable, "-c", PROGRAM, worker], check=True, capture_output=True, text=True, start_new_session=True)
    of_process, *of_session = map(int, told.stdout.split())
    assert of_process == min(19, os.nice(0) + worker_setup.NICENESS * gives_way)
    assert all(priority == worker_setup.NICENESS * gives_way for priority in of_session)
    assert commands().keys() >= worker_setup.BACKGROUND  # workers that there are


@pytest.fixture
def levels() -> Iterator[None]:
    before = {name: logging.getLogger(name).level for name in worker_setup.LISTING}
    yield
    for name, level in before.items():
        logging.getLogger(name).setLevel(level)


@pytest.mark.usefixtures("levels")
@pytest.mark.parametrize(("worker", "listed"), [("retrieval@host", False), ("retrieval-1@host", False), ("upkeep@host", True)])
def test_workers_that_answer_tell_of_errors_only(worker: str, *, listed: bool) -> None:
    for name in worker_setup.LISTING:
        logging.getLogger(name).setLevel(logging.INFO)
    worker_setup.quieten(sender=worker, instance=None, conf=None, options={})
    for name in worker_setup.LISTING:
        assert logging.getLogger(name).isEnabledFor(logging.INFO) is listed
        assert logging.getLogger(name).isEnabledFor(logging.ERROR)
