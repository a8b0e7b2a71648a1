"""The job that deletes items past their time."""

from __future__ import annotations

from functools import partial

from models.items import storage
from tasks.framework.jobs import Run, job

#: Items deleted by one transaction.
BATCH = 1_000


@job("expire_items")
def expire_items(run: Run) -> None:
    """Delete items past their time. They are not found any more before that.

    Safe to repeat because what is deleted is no longer there.
    """
    if run.dry:
        with run.transaction() as connection:
            run.count(expired=storage.count_expired(connection, run.now))
        return
    run.count(expired=run.repeat(partial(storage.delete_expired, now=run.now, limit=BATCH), BATCH))
