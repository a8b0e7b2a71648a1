"""Lists of looks at itself, and one with all that it found."""

from __future__ import annotations

from uuid import UUID

from sqlalchemy import Connection, text

from jiyi.protocol.growth.self_review import Findings, ListLooks, Look, LookDetail
from models.reflection import reads as reflections


def page(connection: Connection, group_id: str, request: ListLooks) -> list[Look]:
    """One more than asked for, if there are more: the latest first."""
    wanted = {"group": group_id, "agent": request.agent_id, "before": request.before, "limit": request.limit + 1}
    return [Look.model_validate(dict(row)) for row in connection.execute(_PAGE, wanted).mappings()]


def detail(connection: Connection, group_id: str, reflection_id: UUID) -> LookDetail | None:
    """Any reflection; without findings if it was no look at itself."""
    found = reflections.reflection(connection, group_id, reflection_id)
    if found is None:
        return None
    row = connection.execute(_FINDINGS, {"group": group_id, "id": reflection_id}).one()
    findings = None if row.findings is None else Findings.model_validate(row.findings)
    return LookDetail.model_construct(**{**dict(found), "findings": findings})


_PAGE = text("""
    SELECT reflection_id, agent_id, trigger, state, created_at, finished_at, thoughts, llm, findings FROM reflections
    WHERE group_id = :group AND (findings IS NOT NULL OR trigger IN ('conversations', 'hours'))
      AND (CAST(:agent AS text) IS NULL OR agent_id = :agent)
      AND (CAST(:before AS uuid) IS NULL OR (created_at, reflection_id) < (
          SELECT created_at, reflection_id FROM reflections WHERE group_id = :group AND reflection_id = :before
      ))
    ORDER BY created_at DESC, reflection_id DESC LIMIT :limit
""")
_FINDINGS = text("SELECT findings FROM reflections WHERE group_id = :group AND reflection_id = :id")
