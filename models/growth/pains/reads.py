"""Lists of pain points."""

from __future__ import annotations

from sqlalchemy import Connection, text

from jiyi.protocol.growth.pains import ListPains, PainPoint
from models.db.rows import fetch


def page(connection: Connection, group_id: str, request: ListPains) -> list[PainPoint]:
    """One more than asked for, if there are more: those felt last first."""
    wanted = {"agent": request.agent_id, "status": request.status, "before": request.before, "limit": request.limit + 1}
    return fetch(connection, PainPoint, _PAGE, group=group_id, **wanted)


_PAGE = text(f"""
    SELECT {", ".join(PainPoint.model_fields)} FROM pain_points
    WHERE group_id = :group AND (CAST(:agent AS text) IS NULL OR agent_id = :agent)
      AND (CAST(:status AS text) IS NULL OR status = :status)
      AND (CAST(:before AS uuid) IS NULL OR (last_seen, pain_id) < (
          SELECT last_seen, pain_id FROM pain_points WHERE group_id = :group AND pain_id = :before
      ))
    ORDER BY last_seen DESC, pain_id DESC LIMIT :limit
""")  # noqa: S608 – our own names; values are parameters
