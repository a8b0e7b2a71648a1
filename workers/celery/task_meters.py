"""Celery tells when a task begins and ends: that is counted, and when it was sent travels with it."""

from __future__ import annotations

import time
from datetime import datetime
from typing import Any

from celery import signals

from jiyi.protocol.wire.broker import PUBLISHED_AT
from jiyi.protocol.wire.json_values import JsonObject
from models.operations import meters
from models.operations.canaries import TASK as CANARY

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


def install() -> None:
    """In every process with the Celery app."""
    watch = Watch()
    # Kept by us: Celery's signals hold weak references.
    signals.task_prerun.connect(watch.begun, weak=False)
    signals.task_postrun.connect(watch.ended, weak=False)
    signals.before_task_publish.connect(stamp, weak=False)
