"""What a new memory changes around it: keyword strengths, and the importance that calls for reflection."""

from __future__ import annotations

from models import strength, work
from models.inbox import ACCUMULATE, STRENGTHEN
from tasks.work import Batch, wake, work_task

#: Counting is cheap, so one run takes many: the cost is in the round trips.
COUNTING_BATCH = 1_000

REFLECT = "reflect"


@work_task(STRENGTHEN, queue="upkeep", batch=COUNTING_BATCH, time_limit=60)
def strengthen(batch: Batch) -> None:
    """Add new nodes' keywords to ``kw_strength`` (GA-18).

    Safe to repeat because the counts and the receipt are one transaction.
    """
    with batch.finish() as (connection, owed):
        strength.strengthen(connection, owed)


@work_task(ACCUMULATE, queue="upkeep", batch=COUNTING_BATCH, time_limit=60)
def accumulate(batch: Batch) -> None:
    """Add new events' poignancy up; at the agent's trigger, owe it a reflection (GA-48).

    Safe to repeat because the sums, the reflection owed and the receipt are one transaction.
    """
    with batch.finish() as (connection, owed):
        work.owe(connection, REFLECT, strength.accumulate(connection, owed))
    wake(REFLECT)
