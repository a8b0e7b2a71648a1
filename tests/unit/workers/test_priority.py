"""workers.celery.worker_setup: workers in the background give way, those that answer do not."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from workers.celery import worker_setup
from workers.procfile import commands

#: A process of its own: none gets its priority back.
PROGRAM = """
import os, sys, threading
from celery import signals
from workers.celery import worker_setup
worker_setup.install_priority()
signals.celeryd_init.send(sender=sys.argv[1], instance=None, conf=None, options={})
thread = threading.Thread(target=lambda: print(os.nice(0)))
thread.start()
thread.join()
"""


@pytest.mark.parametrize(("worker", "gives_way"), [("embedding@host", True), ("retrieval-1@host", False)])
def test_threads_of_workers_in_the_background_have_a_lower_priority(worker: str, *, gives_way: bool) -> None:
    told = subprocess.run([sys.executable, "-c", PROGRAM, worker], check=True, capture_output=True, text=True)
    assert int(told.stdout) == min(19, os.nice(0) + worker_setup.NICENESS * gives_way)
    assert commands().keys() >= worker_setup.BACKGROUND  # workers that there are
