"""Which tasks the log lists one by one: those that do work, not those that only answer, of which there are hundreds a second.

Celery writes two lines for each task. What was answered, how fast, and what failed is counted (``models.operations.meters``);
an error still is in the log with its trace.
"""

from __future__ import annotations

import logging
from typing import Any

from celery import signals

#: Celery's loggers of "received" and of "succeeded".
LISTING = ("celery.worker.strategy", "celery.app.trace")
#: Workers that answer, by the beginning of their names (``workers.procfile``).
ANSWERING = "retrieval"


def quieten(sender: str = "", **_: Any) -> None:
    """``sender``: the worker's name."""
    if sender.startswith(ANSWERING):
        for name in LISTING:
            logging.getLogger(name).setLevel(logging.WARNING)


def install() -> None:
    """In every Celery worker, before it makes ready for tasks."""
    signals.celeryd_init.connect(quieten, weak=False)
