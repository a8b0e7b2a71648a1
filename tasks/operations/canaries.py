"""The canary of each queue: that it runs is all there is to it."""

from __future__ import annotations

import logging
import time
from typing import Any

from celery import shared_task

from models.operations import signs_of_life
from models.queue.broker_queues import task_queues
from tasks.framework.jobs import BeatEntry

log = logging.getLogger(__name__)

#: Seconds; it takes a millisecond.
TIME_LIMIT = 10


@shared_task(name=signs_of_life.TASK, bind=True, ignore_result=True, acks_late=False, time_limit=TIME_LIMIT)
def canary(self: Any, queue: str, sent_at: float | None = None) -> None:
    """Note that somebody reads ``queue``. Safe to repeat because it notes the latest time.

    Anybody may send one: so it counts for the queue that it came through, and for no longer a wait than beat knows of.
    """
    came_through = (self.request.delivery_info or {}).get("routing_key")
    if queue != came_through or queue not in task_queues():
        log.warning("a canary of another queue than it says was not noted")
        return
    now = time.time()
    sent = now if sent_at is None else float(sent_at)
    signs_of_life.record_canary(queue, sent if now - signs_of_life.CANARY_FORGOTTEN_AFTER <= sent <= now else now)


def beat_schedule() -> dict[str, BeatEntry]:
    """What beat sends, if it is due (``workers.celery.beat``)."""
    return {
        f"{signs_of_life.TASK} {queue}": {
            "task": signs_of_life.TASK,
            "schedule": signs_of_life.CANARY_EVERY,
            "args": (queue,),
            "options": {"queue": queue, "retry": False},
        }
        for queue in task_queues()
    }
