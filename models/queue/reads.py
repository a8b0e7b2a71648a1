"""Pending work as people look at it: by kind, and one by one. How it is done stands in ``models.queue.pending_work``."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from sqlalchemy import Connection, func, select, text, tuple_

from jiyi.protocol.operations import PendingRow, WorkOwed
from models.db.rows import columns, fetch
from models.queue.tables import PendingWork


def by_kind(connection: Connection, group_id: str | None = None) -> list[WorkOwed]:
    """Pending work by kind, of one group or of all that may be seen."""
    return fetch(connection, WorkOwed, _BY_KIND, group=group_id)


def rows(connection: Connection, kind: str, group_id: str | None, after: tuple[datetime, UUID] | None, limit: int) -> list[PendingRow]:
    """What is pending of a kind, the longest pending first, after that place; of all groups that may be seen, or of one."""
    wanted = select(*columns(PendingRow, PendingWork, overdue=PendingWork.due_at <= func.clock_timestamp())).where(PendingWork.kind == kind)
    if group_id is not None:
        wanted = wanted.where(PendingWork.group_id == group_id)
    if after is not None:
        wanted = wanted.where(tuple_(PendingWork.created_at, PendingWork.subject_id) > after)
    return fetch(connection, PendingRow, wanted.order_by(PendingWork.created_at, PendingWork.subject_id).limit(limit))


_BY_KIND = text("""
    SELECT kind, count(*) AS owed, count(*) FILTER (WHERE due_at <= clock_timestamp()) AS overdue,
        count(*) FILTER (WHERE attempts > 1) AS retried, min(created_at) AS oldest
    FROM pending_work WHERE CAST(:group AS text) IS NULL OR group_id = :group GROUP BY kind ORDER BY kind
""")
