"""The audit log: who changed memories otherwise than by events."""

from __future__ import annotations

from typing import Any

from pydantic_core import to_jsonable_python
from sqlalchemy import Connection, bindparam, text
from sqlalchemy.dialects.postgresql import JSONB
from uuid6 import uuid7

#: Who a change from the command line or the admin is put down to, until people have names here.
OPERATOR = "operator"


def record(connection: Connection, *, group_id: str | None, actor: str, action: str, target: str, **details: Any) -> None:
    """Write one row, in the transaction of the change itself. ``details`` may hold ids and times."""
    connection.execute(_RECORD, {
        "audit_id": uuid7(), "group_id": group_id, "actor": actor, "action": action, "target": target,
        "details": to_jsonable_python(details),
    })  # fmt: skip


_RECORD = text("""
    INSERT INTO audit_log (audit_id, group_id, actor, action, target, details)
    VALUES (:audit_id, :group_id, :actor, :action, :target, :details)
""").bindparams(bindparam("details", type_=JSONB))
