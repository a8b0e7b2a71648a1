"""Beat's scheduler: Celery's own, which sends a queue's canary only when the one before has run, or long after it."""

from __future__ import annotations

import logging
import time
from typing import Any

from celery.beat import Scheduler

from models.operations import canaries

log = logging.getLogger("jiyi.beat")


class CanaryScheduler(Scheduler):  # type: ignore[misc]  # Celery has no types
    """That it asks, again and again, whether canaries are due is beat's own sign of life."""

    def apply_entry(self, entry: Any, producer: Any = None) -> None:
        if entry.task != canaries.TASK:
            super().apply_entry(entry, producer=producer)
            return
        (queue,) = entry.args
        try:
            if canaries.due(queue):
                entry.args = (queue, time.time())
                self.apply_async(entry, producer=producer, advance=False)
        except Exception as error:  # noqa: BLE001 – Valkey or the broker is away: the next tick tries again
            log.warning("no canary for %s: %s", queue, error)
        finally:
            entry.args = (queue,)
