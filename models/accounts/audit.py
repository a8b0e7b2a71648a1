"""The audit log: who changed memories otherwise than by events."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic_core import to_jsonable_python
from sqlalchemy import Connection, insert, text
from uuid6 import uuid7

from models.accounts import tables

#: Recorded as the principal of a change from the command line or the admin without a signed-in person.
OPERATOR = "operator"
#: Bits of a UUID (version 7) behind the milliseconds with which it begins.
_RANDOM_BITS = 80


@dataclass(frozen=True, slots=True)
class AuditEntry:
    audit_id: UUID
    at: datetime
    #: None: it concerns no group, or all.
    group_id: str | None
    actor: str
    action: str
    target: str
    details: dict[str, Any]


def record(
    connection: Connection, *, group_id: str | None, actor: str, action: str, target: str, **details: Any
) -> None:
    """Write one row, in the transaction of the change itself. ``details`` may hold ids and times."""
    row = {"group_id": group_id, "actor": actor, "action": action, "target": target}
    entry = insert(tables.AuditEntryRow).values(audit_id=uuid7(), details=to_jsonable_python(details), **row)
    connection.execute(entry)


def entries(
    connection: Connection,
    group_id: str | None,
    before: UUID | None,
    limit: int,
    *,
    actor: str | None = None,
    action: str | None = None,
    target: str | None = None,
) -> list[AuditEntry]:
    """Newest first, of a group or of the whole service. ``actor`` and ``target`` are beginnings."""
    begins = {"actor": actor, "action": action, "target": target}
    rows = connection.execute(_ENTRIES, {"group": group_id, "before": before, "limit": limit, **begins})
    return [AuditEntry(*row) for row in rows]


def target_of(
    connection: Connection, group_id: str, action: str, detail: str, value: str, since: datetime
) -> str | None:
    """The target of what was done since a moment with a detail of this value."""
    what = {"action": action, "detail": detail, "value": value}
    parameters = {"group": group_id, "first": _first_of(since), **what}
    return connection.execute(_TARGET, parameters).scalar_one_or_none()


def latest(connection: Connection, target: str, since: datetime) -> AuditEntry | None:
    """What was done last to something of the whole service, since a moment."""
    row = connection.execute(_LATEST, {"target": target, "first": _first_of(since)}).one_or_none()
    return None if row is None else AuditEntry(*row)


def actions(connection: Connection, group_id: str | None) -> list[str]:
    return list(connection.execute(_ACTIONS, {"group": group_id}).scalars())


def _first_of(moment: datetime) -> UUID:
    return UUID(int=int(moment.timestamp() * 1_000) << _RANDOM_BITS)


_LATEST = text("""
    SELECT audit_id, at, group_id, actor, action, target, details FROM audit_log
    WHERE group_id IS NULL AND audit_id >= :first AND target = :target ORDER BY audit_id DESC LIMIT 1
""")
_ENTRIES = text("""
    SELECT audit_id, at, group_id, actor, action, target, details FROM audit_log
    WHERE (CAST(:group AS text) IS NULL OR group_id = :group)
      AND (CAST(:before AS uuid) IS NULL OR audit_id < :before)
      AND (CAST(:actor AS text) IS NULL OR starts_with(actor, :actor))
      AND (CAST(:action AS text) IS NULL OR action = :action)
      AND (CAST(:target AS text) IS NULL OR starts_with(target, :target))
    ORDER BY audit_id DESC LIMIT :limit
""")
_TARGET = text("""
    SELECT target FROM audit_log
    WHERE group_id = :group AND audit_id >= :first AND action = :action AND details ->> :detail = :value
    ORDER BY audit_id LIMIT 1
""")
_ACTIONS = text("""
    SELECT DISTINCT action FROM audit_log WHERE CAST(:group AS text) IS NULL OR group_id = :group
    ORDER BY action LIMIT 100
""")
