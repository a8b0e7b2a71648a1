"""The list of what an erasure under way has found: ids in ``erasing_ids``, each once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import ARRAY, ColumnElement, Connection, Uuid, any_, func, literal, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import InstrumentedAttribute

from models.erasure.tables import ErasingId

#: A table's column of ids.
Key = InstrumentedAttribute[UUID]


def note_ids(connection: Connection, erasure_id: UUID, group_id: str, key: Key, ids: Sequence[UUID]) -> int:
    """Note the group's rows of these ids; returns how many are new."""
    return _note(connection, erasure_id, group_id, key, key == any_(literal(list(ids), ARRAY(Uuid))))


def note_agent(connection: Connection, erasure_id: UUID, group_id: str, agent_id: str, *keys: Key) -> int:
    """Note all rows of an agent in these keys' tables; returns how many are new."""
    return sum(_note(connection, erasure_id, group_id, key, key.class_.agent_id == agent_id) for key in keys)


def _note(connection: Connection, erasure_id: UUID, group_id: str, key: Key, condition: ColumnElement[bool]) -> int:
    table: Any = key.class_
    found = select(literal(erasure_id, Uuid), key, table.group_id, func.coalesce(table.agent_id, "")).where(
        table.group_id == group_id, condition
    )
    stored = insert(ErasingId).from_select(["erasure_id", "subject_id", "group_id", "agent_id"], found).on_conflict_do_nothing()
    return connection.execute(stored.execution_options(preserve_rowcount=True)).rowcount
