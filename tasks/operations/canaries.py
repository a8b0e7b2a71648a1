"""The canary of each queue: that it runs is all there is to it."""

from __future__ import annotations

import time
from typing import Any

from celery import shared_task

from models.operations import canaries
from models.queue.broker_queues import task_queues
from tasks.framework.jobs import BeatEntry

#: Seconds; it takes a millisecond.
TIME_LIMIT = 10


@shared_task(name=canaries.TASK, bind=True, ignore_result=True, acks_late=False, time_limit=TIME_LIMIT)
def canary(_task: Any, queue: str, sent_at: float | None = None) -> None:
    """Note that somebody reads ``queue``. Safe to repeat because it notes the latest time."""
    canaries.record_heartbeat(queue, time.time() if sent_at is None else sent_at)


def beat_schedule() -> dict[str, BeatEntry]:
    """What beat sends, if it is due (``workers.celery.beat``)."""
    return {
        f"{canaries.TASK} {queue}": {
            "task": canaries.TASK,
            "schedule": canaries.EVERY,
            "args": (queue,),
            "options": {"queue": queue, "retry": False},
        }
        for queue in task_queues()
    }
