"""Questions that only the API asks. All are bound to one group: what belongs to no known group is nobody's here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, text

Row = dict[str, Any]


def _rows(connection: Connection, statement: Any, **parameters: Any) -> list[Row]:
    return [dict(row) for row in connection.execute(statement, parameters).mappings()]


def states(connection: Connection, group_id: str, event_ids: Sequence[UUID]) -> list[Row]:
    """What became of these events, one row an id, in the order given."""
    found = {row["event_id"]: row for row in _rows(connection, _STATES, group=group_id, ids=list(event_ids))}
    unknown = {"state": "unknown", "node_id": None, "reason": ""}
    return [found.get(event_id, {"event_id": event_id, **unknown}) for event_id in event_ids]


def event(connection: Connection, group_id: str, event_id: UUID) -> Row | None:
    """An event as it came, without its state."""
    return next(iter(_rows(connection, _EVENT, group=group_id, id=event_id)), None)


def keywords(connection: Connection, group_id: str, agent_id: str, after: tuple[int, str, str] | None, limit: int) -> list[Row]:
    """Strongest first, after a row's strength, keyword and type."""
    strength, keyword, memory_type = after or (None, None, None)
    return _rows(connection, _KEYWORDS, group=group_id, agent=agent_id, strength=strength, keyword=keyword, type=memory_type, limit=limit)


_STATES = text("""
    SELECT e.event_id, e.node_id, '' AS reason, CASE
        WHEN e.outcome <> 'stored' THEN e.outcome WHEN n.embedding_model IS NULL THEN 'stored' ELSE 'retrievable' END AS state
    FROM events e LEFT JOIN memory_nodes n ON n.node_id = e.node_id AND n.group_id = :group
    WHERE e.group_id = :group AND e.event_id = ANY(:ids)
    UNION ALL
    SELECT DISTINCT ON (subject_id) subject_id, NULL, reason, 'dead' FROM dead_letters
    WHERE group_id = :group AND kind = 'intake' AND state = 'open' AND subject_id = ANY(:ids)
      AND NOT EXISTS (SELECT FROM events WHERE event_id = subject_id)
""")
_EVENT = text("""
    SELECT event_id, type, agent_id, session_id, correlation_id, occurred_at, payload FROM events
    WHERE group_id = :group AND event_id = :id
""")
_KEYWORDS = text("""
    SELECT keyword, memory_type, strength FROM kw_strength
    WHERE group_id = :group AND agent_id = :agent AND (CAST(:strength AS int) IS NULL
        OR strength < :strength OR strength = :strength AND (keyword, memory_type) > (:keyword, :type))
    ORDER BY strength DESC, keyword, memory_type LIMIT :limit
""")
