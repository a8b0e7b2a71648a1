"""workers.worker_setup: a broker that is back is found soon; priorities; quiet logs."""

from __future__ import annotations

import logging
import os
import subprocess
import sys

import pytest
from celery import Celery
from kombu.exceptions import OperationalError

from workers import worker_setup
from workers.procfile import commands
from workers.worker_setup import FIRST, MOST, BrokerConnection, SoonAgain

#: A process for each worker, as none gets its priority back; all of one that has imported what they need.
PROGRAM = """
import os, sys, threading
from celery import signals
from workers import worker_setup
from workers.supervision.processes import AUTOGROUP
worker_setup.install()
for worker in sys.argv[1:]:
    if not os.fork():
        os.setsid()
        signals.celeryd_init.send(sender=worker, instance=None, conf=None, options={})
        session = AUTOGROUP.read_text().split()[-1:] if AUTOGROUP.exists() else []
        thread = threading.Thread(target=lambda: print(os.nice(0), *session))
        thread.start()
        thread.join()
        sys.exit()
    os.wait()
"""


def test_a_broker_that_is_away_is_tried_again_soon_and_never_after_long_pauses(monkeypatch):
    monkeypatch.setattr("kombu.utils.functional.sleep", lambda _seconds: None)
    app = Celery("test", broker="redis://127.0.0.1:1/0", amqp=SoonAgain, set_as_current=False)
    pauses: list[float] = []
    for connection in (app.connection_for_read(), app.connection_for_write()):
        assert isinstance(connection, BrokerConnection)
        pauses.clear()
        with pytest.raises(OperationalError):
            connection.ensure_connection(lambda _error, pause: pauses.append(pause), max_retries=15)
        assert pauses[0] == FIRST
        assert max(pauses) <= MOST
        assert sum(pauses[:4]) <= MOST


def test_threads_of_workers_in_the_background_have_a_lower_priority() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, "embedding@host", "retrieval-1@host"],
        check=True,
        capture_output=True,
        text=True,
    )
    for line, nicer in zip(done.stdout.splitlines(), (worker_setup.NICENESS, 0), strict=True):
        of_process, *of_session = map(int, line.split())
        assert of_process == min(19, os.nice(0) + nicer)
        assert all(priority == nicer for priority in of_session)
    assert commands().keys() >= worker_setup.BACKGROUND  # workers that there are


def test_workers_that_answer_log_errors_only() -> None:
    loggers = [logging.getLogger(name) for name in worker_setup.LISTING]
    before = [logger.level for logger in loggers]
    try:
        for worker, listed in {
            "retrieval@host": False,
            "retrieval-1@host": False,
            "upkeep@host": True,
        }.items():
            for logger in loggers:
                logger.setLevel(logging.INFO)
            worker_setup.quieten(sender=worker, instance=None, conf=None, options={})
            assert {logger.isEnabledFor(logging.INFO) for logger in loggers} == {listed}
            assert all(logger.isEnabledFor(logging.ERROR) for logger in loggers)
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)
