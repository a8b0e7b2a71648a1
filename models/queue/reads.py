"""Pending work as people look at it: by kind, and one by one. How it is done stands in ``models.queue.pending_work``."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from sqlalchemy import Connection, text

from jiyi.protocol.operations import PendingRow, WorkOwed


def by_kind(connection: Connection, group_id: str | None = None) -> list[WorkOwed]:
    """Pending work by kind, of one group or of all that may be seen."""
    return [WorkOwed.model_validate(dict(row)) for row in connection.execute(_BY_KIND, {"group": group_id}).mappings()]


def rows(connection: Connection, kind: str, group_id: str | None, after: tuple[datetime, UUID] | None, limit: int) -> list[PendingRow]:
    """What is pending of a kind, the longest pending first, after that place; of all groups that may be seen, or of one."""
    at, subject_id = after or (None, None)
    parameters = {"kind": kind, "group": group_id, "at": at, "id": subject_id, "limit": limit}
    return [PendingRow.model_validate(dict(row)) for row in connection.execute(_ROWS, parameters).mappings()]


_BY_KIND = text("""
    SELECT kind, count(*) AS owed, count(*) FILTER (WHERE due_at <= clock_timestamp()) AS overdue,
        count(*) FILTER (WHERE attempts > 1) AS retried, min(created_at) AS oldest
    FROM pending_work WHERE CAST(:group AS text) IS NULL OR group_id = :group GROUP BY kind ORDER BY kind
""")
_ROWS = text("""
    SELECT kind, subject_id, group_id, due_at, attempts, last_error, created_at, due_at <= clock_timestamp() AS overdue
    FROM pending_work
    WHERE kind = :kind AND (CAST(:group AS text) IS NULL OR group_id = :group)
      AND (CAST(:at AS timestamptz) IS NULL OR (created_at, subject_id) > (:at, CAST(:id AS uuid)))
    ORDER BY created_at, subject_id LIMIT :limit
""")
