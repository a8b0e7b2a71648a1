"""What every Celery worker has besides its tasks: a broker tried again soon, its priority, what its log lists, meters of its tasks."""

from __future__ import annotations

import logging
import os
import time
from datetime import datetime
from typing import Any

import kombu
from celery import signals
from celery.app.amqp import AMQP

from engine import subjects
from jiyi.protocol.base import JsonObject
from jiyi.protocol.wire.broker import PUBLISHED_AT
from models.operations import meters
from models.operations.signs_of_life import TASK as CANARY

#: Seconds between tries to reach a broker that is away: the first pause, what each is longer by, the longest. kombu's own pauses of
#: 2, 4, 6 … 30 s outlast most outages, and to try costs next to nothing.
FIRST, STEP, MOST = 0.5, 0.5, 5.0


class Connection(kombu.Connection):  # type: ignore[misc]  # kombu has no types
    """Kombu's, with shorter pauses."""

    def ensure_connection(self, errback: Any = None, max_retries: int | None = None, **options: Any) -> Connection:
        """As kombu's; returns itself, connected."""
        pauses = {"interval_start": FIRST, "interval_step": STEP, "interval_max": MOST}
        super().ensure_connection(errback, max_retries, **{**pauses, **options})
        return self


class SoonAgain(AMQP):  # type: ignore[misc]  # Celery has no types
    """Celery's, with such connections."""

    Connection = Connection


#: Names of the workers (``workers.procfile``) that do such work.
BACKGROUND = frozenset({"embedding", "upkeep", "reflection", *subjects.queues()})
#: How far they give way (``nice``): of a core that is wanted by both they get a quarter.
NICENESS = 5


def install_priority() -> None:
    """In every Celery worker, before it makes threads, which inherit it."""
    signals.celeryd_init.connect(give_way, weak=False)


def give_way(sender: str, **_: object) -> None:
    """``sender``: the worker's name, ``name@host``."""
    if sender.partition("@")[0] in BACKGROUND:
        os.nice(NICENESS)


#: Celery's loggers of "received" and of "succeeded".
LISTING = ("celery.worker.strategy", "celery.app.trace")
#: Workers that answer, by the beginning of their names (``workers.procfile``).
ANSWERING = "retrieval"


def quieten(sender: str = "", **_: Any) -> None:
    """``sender``: the worker's name."""
    if sender.startswith(ANSWERING):
        for name in LISTING:
            logging.getLogger(name).setLevel(logging.WARNING)


def install_logging() -> None:
    """In every Celery worker, before it makes ready for tasks."""
    signals.celeryd_init.connect(quieten, weak=False)


#: Ends of a run by Celery's name of its state; others are not ends.
OUTCOMES = {"SUCCESS": "done", "FAILURE": "failed", "RETRY": "retried", "REVOKED": "failed", "REJECTED": "failed"}


class Watch:
    """Keeps when each running task began."""

    def __init__(self) -> None:
        self._begun: dict[str, tuple[float, float | None]] = {}

    def begun(self, task_id: str, task: Any, **_: Any) -> None:
        meters.began()
        self._begun[task_id] = (time.monotonic(), waited(task.request))

    def ended(self, task_id: str, task: Any, state: str | None = None, **_: Any) -> None:
        began, wait = self._begun.pop(task_id, (None, None))
        if began is None or task.name == CANARY:  # it has numbers of its own
            return
        outcome = "failed" if meters.has_failed() else OUTCOMES.get(state or "", "done")
        meters.task(task.name, outcome, time.monotonic() - began, wait)


def waited(request: Any) -> float | None:
    """Seconds since the task could have begun: since it was sent, or since the time that it was to wait for."""
    sent, eta = getattr(request, PUBLISHED_AT, None), getattr(request, "eta", None)
    if not isinstance(sent, int | float):
        return None
    due = max(sent, datetime.fromisoformat(eta).timestamp()) if eta else sent
    return max(0.0, time.time() - due)  # two machines' clocks differ


def stamp(headers: JsonObject | None = None, **_: Any) -> None:
    """A message says when it was sent."""
    if headers is not None:
        headers.setdefault(PUBLISHED_AT, time.time())


def install_meters() -> None:
    """In every process with the Celery app."""
    watch = Watch()
    # Kept by us: Celery's signals hold weak references.
    signals.task_prerun.connect(watch.begun, weak=False)
    signals.task_postrun.connect(watch.ended, weak=False)
    signals.before_task_publish.connect(stamp, weak=False)
