"""Celery's scheduler; a queue's canary waits for the one before, and a clock put back makes all tasks due."""

from __future__ import annotations

import logging
import time
from datetime import timedelta
from typing import Any

from celery.beat import Scheduler

from models.operations import worker_liveness

log = logging.getLogger("jiyi.beat")

#: Seconds by which a clock may be put back without notice: that delays a task by as much, which harms none.
CLOCKS_APART = 5.0


class CanaryScheduler(Scheduler):  # type: ignore[misc]  # Celery has no types
    """That it asks, again and again, whether canaries are due is beat's own sign of life."""

    #: When it was called last, epoch seconds.
    _last_call = 0.0

    def tick(self, *args: Any, **kwargs: Any) -> float:
        """Send what is due, at most one task. Returns the seconds until the next call."""
        now = time.time()
        if now < self._last_call - CLOCKS_APART:
            log.warning("the clock was put back by %.0f s: all entries are due", self._last_call - now)
            for entry in self.schedule.values():
                entry.last_run_at = entry.default_now() - timedelta(days=1)
            self._heap = None
        self._last_call = now
        wait: float = super().tick(*args, **kwargs)
        return wait

    def apply_entry(self, entry: Any, producer: Any = None) -> None:
        if entry.task != worker_liveness.TASK:
            super().apply_entry(entry, producer=producer)
            return
        (queue,) = entry.args
        try:
            if worker_liveness.due(queue):
                entry.args = (queue, time.time())
                self.apply_async(entry, producer=producer, advance=False)
        except Exception as error:  # noqa: BLE001 – Valkey or the broker is away: the next tick tries again
            log.warning("no canary for %s: %s", queue, error)
        finally:
            entry.args = (queue,)
