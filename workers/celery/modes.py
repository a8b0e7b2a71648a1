"""A worker follows what an operator wants of it: takes nothing new, takes on again, or ends."""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from typing import Any

from jiyi.protocol.operations import WorkerMode
from models.operations import worker_wishes

log = logging.getLogger("jiyi.modes")
#: Set while this worker is not meant to take anything.
HELD = threading.Event()
#: Seconds that a stop leaves to what is in hand. What has not ended by then is begun anew by another worker.
STOP_SECONDS = 10.0


class Modes:
    """How this process goes about: ``running``, ``paused``, ``draining`` or ``stopped``. For one thread.

    A process that was started after the wish that ended the one before it takes nothing, and does not end: whatever started it would
    start it again and again.
    """

    def __init__(self, consumer: Any) -> None:
        self._consumer = consumer
        self._queues = list(consumer.app.amqp.queues.consume_from)
        self._started = time.time()
        self.mode: WorkerMode = "running"
        #: Whether this process ends because somebody wants it.
        self.ending = False

    def follow(self, busy: bool) -> WorkerMode:
        """Do what is wanted now, ``busy`` or not. Raises what Valkey raises."""
        wish = worker_wishes.find(self._consumer.hostname)
        mode: WorkerMode = "stopped" if wish.mode == "draining" and wish.at < self._started else wish.mode
        if mode != self.mode:
            log.warning("an operator wants it: %s", mode)
            self._take(mode == "running")
            self.mode = mode
        if wish.at >= self._started and not self.ending and (mode == "stopped" or (mode == "draining" and not busy)):
            self._end()
        return self.mode

    def _take(self, on: bool) -> None:
        """From now on take messages, or none. Celery's consumer belongs to the main thread, which does it soon."""
        if on == (not HELD.is_set()):
            return
        queues = self._consumer.app.amqp.queues
        if on:
            HELD.clear()
            queues.select(self._queues)  # what a consumer that connects again reads
        else:
            HELD.set()
        change = self._consumer.add_task_queue if on else self._consumer.cancel_task_queue
        for queue in self._queues:
            self._consumer.call_soon(change, queue)

    def _end(self) -> None:
        self.ending = True
        late = threading.Timer(STOP_SECONDS, os._exit, (os.EX_OK,))
        late.daemon = True
        late.start()
        os.kill(os.getpid(), signal.SIGTERM)
