"""Work owed as people look at it: by kind, one by one, and made due at once. How it is done stands in ``models.queue.pending_work``."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, text

from models.accounts import audit

#: Rows that one "retry now" of a whole kind makes due.
MAX_RETRIED = 10_000


def rows(connection: Connection, kind: str, group_id: str | None, after: tuple[datetime, UUID] | None, limit: int) -> list[dict[str, Any]]:
    """What is owed of a kind, the longest owed first, after that place; of all groups that may be seen, or of one."""
    at, subject_id = after or (None, None)
    parameters = {"kind": kind, "group": group_id, "at": at, "id": subject_id, "limit": limit}
    return [dict(row) for row in connection.execute(_ROWS, parameters).mappings()]


def retry(connection: Connection, kind: str, group_id: str | None, subject_ids: Sequence[UUID], actor: str) -> int:
    """Make it due now: these, or all of the kind; returns how many. Each has all its attempts again.

    Safe to repeat because work is done once, however often it is due.
    """
    parameters = {"kind": kind, "group": group_id, "ids": list(subject_ids), "limit": MAX_RETRIED}
    count = connection.execute(_RETRY, parameters).rowcount
    if count:
        audit.record(connection, group_id=group_id, actor=actor, action="work retried", target=kind, count=count)
    return count


_ROWS = text("""
    SELECT kind, subject_id, group_id, due_at, attempts, last_error, created_at, due_at <= clock_timestamp() AS overdue
    FROM pending_work
    WHERE kind = :kind AND (CAST(:group AS text) IS NULL OR group_id = :group)
      AND (CAST(:at AS timestamptz) IS NULL OR (created_at, subject_id) > (:at, CAST(:id AS uuid)))
    ORDER BY created_at, subject_id LIMIT :limit
""")
# Also of what a worker has in hand: then two work on it, and the effect of one counts.
_RETRY = text("""
    UPDATE pending_work SET due_at = clock_timestamp(), attempts = 0 WHERE (kind, subject_id) IN (
        SELECT kind, subject_id FROM pending_work
        WHERE kind = :kind AND (CAST(:group AS text) IS NULL OR group_id = :group)
          AND (cardinality(CAST(:ids AS uuid[])) = 0 OR subject_id = ANY(:ids))
        LIMIT :limit FOR UPDATE SKIP LOCKED
    )
""")
