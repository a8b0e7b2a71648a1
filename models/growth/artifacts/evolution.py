"""Evolution events in the audit log: written with what they tell of, and read back."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from sqlalchemy import Connection, text

from jiyi.protocol.growth.artifact_types import KINDS, PREFIX, EvolutionEvent
from jiyi.protocol.growth.artifacts import EvolutionRow
from jiyi.protocol.wire.json_values import JsonObject
from models.accounts import audit


def record(connection: Connection, group_id: str, actor: str, event: EvolutionEvent) -> None:
    """Write it, in the transaction of the change itself."""
    details = event.model_dump(mode="json", exclude={"kind"}, exclude_none=True)
    audit.record(connection, group_id=group_id, actor=actor, action=f"{PREFIX}{event.kind}", target=str(event.artifact_id), **details)


def events(
    connection: Connection, group_id: str, *, agent_id: str | None, artifact_id: UUID | None, before: UUID | None, limit: int
) -> list[EvolutionRow]:
    """The group's evolution events, newest first."""
    parameters = {"group": group_id, "agent": agent_id, "before": before, "limit": limit}
    target = None if artifact_id is None else str(artifact_id)
    rows = connection.execute(_EVENTS, parameters | {"actions": [f"{PREFIX}{kind}" for kind in KINDS], "target": target})
    return [_row(row.audit_id, row.at, row.actor, row.action, row.details) for row in rows if row.details]


def _row(audit_id: UUID, at: datetime, actor: str, action: str, details: JsonObject) -> EvolutionRow:
    return EvolutionRow.model_validate({"id": audit_id, "at": at, "actor": actor, "kind": action.removeprefix(PREFIX), **details})


_EVENTS = text("""
    SELECT audit_id, at, actor, action, details FROM audit_log
    WHERE group_id = :group AND action = ANY(:actions)
      AND (CAST(:agent AS text) IS NULL OR details ->> 'agent_id' = :agent)
      AND (CAST(:target AS text) IS NULL OR target = :target)
      AND (CAST(:before AS uuid) IS NULL OR audit_id < :before)
    ORDER BY audit_id DESC LIMIT :limit
""")
