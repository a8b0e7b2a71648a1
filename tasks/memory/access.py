"""Buffered accesses reach the database."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from celery import current_app, shared_task

from jiyi.settings import get_settings
from models.memory.nodes import access
from models.retrieval import records, touches


def note(group_id: str, agent_id: str, node_ids: Sequence[UUID], at: float) -> None:
    """The agent's memories were accessed at ``at`` (epoch seconds): all workers hear of it, the database soon."""
    if node_ids:
        touches.tell(group_id, agent_id, node_ids, at)
    buffer(group_id, node_ids, at)


def buffer(group_id: str, node_ids: Sequence[UUID], at: float) -> None:
    """The accesses are to be written to the database, together with others, a moment later."""
    if access.touch(group_id, node_ids, at):
        current_app.send_task("access.flush", queue="upkeep", countdown=get_settings().access_flush_seconds)


@shared_task(name="access.flush", time_limit=60, ignore_result=True, expires=60)
def flush() -> None:
    """Write the buffered access times, and what was asked, in one batch each (GA-37, GA-38).

    Safe to repeat because times only move forward, and an empty buffer is nothing to do.
    """
    access.flush()
    records.flush()
