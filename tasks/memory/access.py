"""Buffered accesses reach the database."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from celery import current_app, shared_task
from redis.client import Pipeline

from models.db.valkey import valkey
from models.memory import access
from models.retrieval import records


def note(group_id: str, agent_id: str, node_ids: Sequence[UUID], at: float) -> None:
    """The agent's memories were accessed at ``at`` (epoch seconds): all workers hear of it, the database soon."""
    if not node_ids:
        return
    with valkey().pipeline(transaction=False) as pipe:
        note_with(pipe, group_id, agent_id, node_ids, at)
        due = pipe.execute()[-1]
    flush_soon(due=due)


def note_with(pipe: Pipeline, group_id: str, agent_id: str, node_ids: Sequence[UUID], at: float) -> None:
    """The same, on its way with whatever else the pipeline has to say; its last answer is for :func:`flush_soon`."""
    records.tell_with(pipe, group_id, agent_id, node_ids, at)
    access.touch_with(pipe, group_id, node_ids, at)


def flush_soon(*, due: Any) -> None:
    """What was noted is to be written to the database, together with others, a moment later; if nobody else sees to it (``due``)."""
    if due:
        access.keep_bounded()
        current_app.send_task("access.flush", queue="upkeep", countdown=access.DUE_SECONDS)


@shared_task(name="access.flush", time_limit=60, ignore_result=True, expires=60)
def flush() -> None:
    """Write the buffered access times, and what was asked, in one batch each.

    Safe to repeat because times only move forward, and an empty buffer is nothing to do.
    """
    access.flush()
    records.flush()
