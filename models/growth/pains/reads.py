"""Lists of pain points."""

from __future__ import annotations

from sqlalchemy import Connection, select, tuple_
from sqlalchemy.orm import aliased

from jiyi.protocol.growth.pains import ListPains, PainPoint
from models.db.conditions import equal_if_given
from models.db.rows import columns, fetch
from models.growth import tables


def page(connection: Connection, group_id: str, request: ListPains) -> list[PainPoint]:
    """One more than asked for, if there are more: those felt last first."""
    found = _SHOWN.where(_P.group_id == group_id, *equal_if_given((_P.agent_id, request.agent_id), (_P.status, request.status)))
    if request.before is not None:
        last = aliased(_P)
        place = select(last.last_seen, last.pain_id).where(last.group_id == group_id, last.pain_id == request.before)
        found = found.where(tuple_(_P.last_seen, _P.pain_id) < place.scalar_subquery())
    return fetch(connection, PainPoint, found.order_by(_P.last_seen.desc(), _P.pain_id.desc()).limit(request.limit + 1))


_P = tables.PainPoint
_SHOWN = select(*columns(PainPoint, _P))
