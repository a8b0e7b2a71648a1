"""The thread of each Celery worker that writes its heartbeat and carries out orders to forget.

Celery's remote control does the same by broadcasts that anybody with the broker's address may send, and that can also shut
workers down; so it is off, and what workers have to say or to be told goes through Valkey.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from typing import Any

import redis
from celery import signals

from models.erasure import cache_invalidation
from models.erasure.cache_invalidation import worker_id
from models.operations import signs_of_life
from tasks.erasure.forget import forget, forget_everything

log = logging.getLogger("jiyi.heartbeat")


class Heartbeat:
    """Beats from :meth:`start` to :meth:`stop`."""

    def __init__(self, name: str, queues: Sequence[str]) -> None:
        self._name, self._queues = name, list(queues)
        self._stop = threading.Event()
        self._carried_out: set[str] = set()
        self._thread = threading.Thread(target=self._beat, name="heartbeat", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End in good order: nobody waits for this worker any more."""
        self._stop.set()
        self._thread.join()
        try:
            signs_of_life.forget(worker_id())
        except redis.RedisError as error:
            log.info("no farewell: %s", error)  # it is forgotten in time

    def _beat(self) -> None:
        silent = False
        heard = time.monotonic()
        while True:
            try:
                # After half of the time others may count it as dead, and erasures go on without it.
                if time.monotonic() - heard > signs_of_life.COUNTS_SECONDS / 2:
                    forget_everything()
                signs_of_life.record_heartbeat(worker_id(), self._name, self._queues)
                self._carried_out = cache_invalidation.carry_out(worker_id(), self._carried_out, forget)
                silent = False
                heard = time.monotonic()
            except redis.RedisError as error:  # Valkey is away or full; said once
                log.log(logging.DEBUG if silent else logging.WARNING, "no heartbeat: %s; trying again", error)
                silent = True
            if self._stop.wait(signs_of_life.HEARTBEAT_EVERY):
                return


def install() -> None:
    """Give the worker of this process a heartbeat, once it is ready."""
    begun: list[Heartbeat] = []

    def start(sender: Any, **_: Any) -> None:
        heartbeat = Heartbeat(sender.hostname, list(sender.app.amqp.queues.consume_from))
        begun.append(heartbeat)
        heartbeat.start()

    def stop(**_: Any) -> None:
        while begun:
            begun.pop().stop()

    # Kept by us: Celery's signals hold weak references.
    signals.worker_ready.connect(start, weak=False)
    signals.worker_shutdown.connect(stop, weak=False)
