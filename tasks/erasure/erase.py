"""Erasure as pending work: step by step, each bounded, each noted before the next, until nothing is left."""

from __future__ import annotations

import time
from uuid import UUID

from jiyi.protocol.erasure import Erasure, ErasurePreview
from models.db.actions import Actor
from models.db.connection import unit_of_work
from models.db.scope import whole_service
from models.erasure import actions, previews
from models.erasure.progress import ERASE, begin, save
from models.queue import pending_work
from tasks.erasure.database import IN_DATABASE
from tasks.erasure.outside import LONG_STEP, OUTSIDE
from tasks.framework.rpc import implements
from tasks.framework.work import Batch, work_task

#: Seconds after which a run stops between two steps, to go on with the next message.
RUN_SECONDS = 45.0


@work_task(ERASE, batch=1, time_limit=110, alone=True)
def erase(batch: Batch) -> None:
    """Carry erasures on.

    Safe to repeat because every step looks for what is there, and is noted with what it did in one transaction.
    """
    for erasure_id in batch.subject_ids:
        with whole_service():
            pause = _run(batch, erasure_id)
            if pause is None:
                continue
            with unit_of_work() as connection:
                pending_work.postpone(connection, ERASE, [erasure_id], pause, "waits for the workers, or tries again")
        batch.subject_ids = []


def _run(batch: Batch, erasure_id: UUID) -> float | None:
    """Steps until it is done or time is up (None), or it has to wait (seconds)."""
    until = time.monotonic() + RUN_SECONDS
    while time.monotonic() < until:
        with unit_of_work() as connection:
            progress = begin(connection, erasure_id)
            if progress is not None and progress.step in IN_DATABASE:
                progress.state = "running"
                if IN_DATABASE[progress.step](connection, progress):
                    progress.advance()
                save(connection, progress)
                continue
        if progress is None:
            break
        batch.extend(LONG_STEP)
        pause = OUTSIDE[progress.step](progress)
        if pause is not None:
            return pause
        if progress.step == "tidy":
            break
    else:
        batch.again.append(erasure_id)
    with batch.finish():
        pass
    return None


@implements(actions.preview)
def preview(actor: Actor, request: Erasure) -> ErasurePreview:
    """Safe to repeat because it only reads."""
    with unit_of_work() as connection:
        return previews.preview(connection, actor.group_id, request)
