"""Erasures as they are told of: without names, which are kept only until they are erased."""

from __future__ import annotations

from uuid import UUID

from sqlalchemy import Connection, text

from jiyi.protocol.erasure import ErasureState


def one(connection: Connection, group_id: str, erasure_id: UUID) -> ErasureState | None:
    row = connection.execute(_ONE, {"group": group_id, "id": erasure_id}).mappings().one_or_none()
    return None if row is None else ErasureState.model_validate(row)


def page(connection: Connection, group_id: str, before: UUID | None, limit: int) -> list[ErasureState]:
    """Newest first, those before an id."""
    rows = connection.execute(_PAGE, {"group": group_id, "before": before, "limit": limit}).mappings()
    return [ErasureState.model_validate(row) for row in rows]


_COLUMNS = "erasure_id, group_id, kind, state, step, what - 'asked' AS what, requested_by, created_at, finished_at, report"
_ONE = text(f"SELECT {_COLUMNS} FROM erasures WHERE group_id = :group AND erasure_id = :id")  # noqa: S608 – our own names; values are parameters
_PAGE = text(f"""
    SELECT {_COLUMNS} FROM erasures WHERE group_id = :group AND (CAST(:before AS uuid) IS NULL OR erasure_id < :before)
    ORDER BY erasure_id DESC LIMIT :limit
""")  # noqa: S608 – our own names; values are parameters
