"""A worker that is connected but deaf ends itself, so that whoever supervises it starts it afresh.

After its broker restarted, a Celery worker can believe that it is connected and yet receive nothing (celery #8030,
#9054 and others; our smoke test with two restarts in a row met it). Seen from outside it is idle while messages wait:
exactly that is what this looks for, on a connection of its own.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Sequence
from typing import Any

from celery import signals

from jiyi.protocol.wire.broker import BROKER_ERRORS
from jiyi.settings import get_settings
from models.queue.broker_queues import messages_ready

log = logging.getLogger("jiyi.watchdog")

#: Exit code of "try again": the supervisor is meant to.
EX_TEMPFAIL = 75
#: Looks within the time after which a worker counts as deaf.
CHECKS_PER_TIMEOUT = 5
#: Seconds; an answer takes milliseconds.
ANSWER_SECONDS = 2.0


class Watchdog:
    """Counts what the worker runs and remembers when it last received something."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running = 0
        self._heard = time.monotonic()

    def received(self, **_: Any) -> None:
        self._heard = time.monotonic()

    def begun(self, **_: Any) -> None:
        with self._lock:
            self._running += 1
        self._heard = time.monotonic()

    def ended(self, **_: Any) -> None:
        with self._lock:
            self._running -= 1
        self._heard = time.monotonic()

    def watch(self, broker_url: str, queues: Sequence[str], seconds: float) -> None:
        """Look until the worker is deaf for ``seconds``; then end the process."""
        waiting_since: float | None = None
        while True:
            time.sleep(seconds / CHECKS_PER_TIMEOUT)
            try:
                waiting = messages_ready(broker_url, queues, ANSWER_SECONDS) > 0
            except BROKER_ERRORS:
                waiting = False  # away, not silent
            now = time.monotonic()
            if not waiting or self._running:
                waiting_since = None
            elif waiting_since is None:
                waiting_since = now
            elif now - max(waiting_since, self._heard) > seconds:
                log.critical("messages have waited for %.0f s, and this idle worker received none: ending it", now - waiting_since)
                os._exit(EX_TEMPFAIL)  # its main thread hears nothing, so it cannot be asked to stop; it holds no work


def install_watchdog() -> None:
    """Watch the worker of this process, once it is ready."""
    watchdog = Watchdog()
    # Kept by us: Celery's signals hold weak references.
    handlers = {signals.task_received: watchdog.received, signals.task_prerun: watchdog.begun, signals.task_postrun: watchdog.ended}
    for signal, handler in handlers.items():
        signal.connect(handler, weak=False)

    def start(sender: Any, **_: Any) -> None:
        settings = get_settings()
        arguments = (settings.need("broker_url"), list(sender.app.amqp.queues.consume_from), settings.deaf_worker_seconds)
        threading.Thread(target=watchdog.watch, args=arguments, name="watchdog", daemon=True).start()

    signals.worker_ready.connect(start, weak=False)
