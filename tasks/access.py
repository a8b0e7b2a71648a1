"""Buffered accesses reach the database."""

from __future__ import annotations

from celery import shared_task

from models import access


@shared_task(name="access.flush", time_limit=60, ignore_result=True, expires=60)
def flush() -> None:
    """Write the buffered access times in one batch (GA-37, GA-38).

    Safe to repeat because times only move forward, and an empty buffer is nothing to do.
    """
    access.flush()
