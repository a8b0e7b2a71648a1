"""Erasures as they are told of: without names, which are kept only until they are erased."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Select, Text, literal, select

from jiyi.protocol.erasure import ErasureState
from models.db.rows import columns, fetch, fetch_one
from models.erasure.tables import ErasureRow


def one(connection: Connection, group_id: str, erasure_id: UUID) -> ErasureState | None:
    return fetch_one(connection, ErasureState, _of(group_id).where(ErasureRow.erasure_id == erasure_id))


def page(connection: Connection, group_id: str, before: UUID | None, limit: int) -> list[ErasureState]:
    """Newest first, those before an id."""
    wanted = _of(group_id) if before is None else _of(group_id).where(ErasureRow.erasure_id < before)
    return fetch(connection, ErasureState, wanted.order_by(ErasureRow.erasure_id.desc()).limit(limit))


def _of(group_id: str) -> Select[tuple[Any, ...]]:
    without_names = ErasureRow.what.op("-")(literal("asked", Text))
    return select(*columns(ErasureState, ErasureRow, what=without_names)).where(ErasureRow.group_id == group_id)
