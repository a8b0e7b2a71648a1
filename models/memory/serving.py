"""Questions that only the API asks. All are bound to one group: what belongs to no known group is nobody's here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, text

Row = dict[str, Any]

#: Characters that a list shows of a refused event.
BODY_CHARS = 2_000
#: Letters that one request resolves.
MAX_RESOLVED = 1_000


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


def counts(connection: Connection, group_id: str) -> Row:
    return _rows(connection, _COUNTS, group=group_id)[0]


def work_owed(connection: Connection, group_id: str) -> list[Row]:
    """By kind: how many rows, how many overdue, how many failed before, the age of the oldest."""
    return _rows(connection, _WORK_OWED, group=group_id)


def letters(connection: Connection, group_id: str, state: str, kind: str | None, before: UUID | None, limit: int) -> list[Row]:
    """Dead letters, newest first."""
    return _rows(connection, _LETTERS, group=group_id, state=state, kind=kind, before=before, limit=limit, chars=BODY_CHARS)


def letter(connection: Connection, group_id: str, letter_id: UUID) -> Row | None:
    return next(iter(_rows(connection, _LETTER, group=group_id, id=letter_id, chars=BODY_CHARS)), None)


def open_letters(connection: Connection, group_id: str, letter_ids: Sequence[UUID], kind: str | None) -> list[UUID]:
    """Those of the letters that are the group's and open, or its open ones of a kind; locked for the transaction."""
    parameters = {"group": group_id, "ids": list(letter_ids), "kind": kind, "limit": MAX_RESOLVED}
    return list(connection.execute(_OPEN, parameters).scalars())


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
_COUNTS = text("""
    SELECT (SELECT count(*) FROM agents WHERE group_id = :group) AS agents,
        (SELECT count(*) FROM events WHERE group_id = :group) AS events,
        count(*) AS nodes, count(*) FILTER (WHERE type = 'event') AS event_nodes,
        count(*) FILTER (WHERE type = 'thought') AS thought_nodes, count(*) FILTER (WHERE type = 'chat') AS chat_nodes,
        count(*) FILTER (WHERE embedding_model IS NULL) AS not_embedded, count(*) FILTER (WHERE is_idle) AS idle,
        count(*) FILTER (WHERE archived_at IS NOT NULL) AS archived,
        (SELECT count(*) FROM dead_letters WHERE state = 'open' AND group_id = :group) AS dead_letters
    FROM memory_nodes WHERE group_id = :group
""")
_WORK_OWED = text("""
    SELECT kind, count(*) AS owed, count(*) FILTER (WHERE due_at <= clock_timestamp()) AS overdue,
        count(*) FILTER (WHERE attempts > 1) AS retried, min(created_at) AS oldest
    FROM pending_work WHERE group_id = :group GROUP BY kind ORDER BY kind
""")
_LETTER_COLUMNS = """
    letter_id, kind, subject_id, reason, traceback, left(body, :chars) AS body, attempts, state, created_at
"""
_LETTERS = text(f"""
    SELECT {_LETTER_COLUMNS} FROM dead_letters
    WHERE group_id = :group AND state = :state AND (CAST(:kind AS text) IS NULL OR kind = :kind)
      AND (CAST(:before AS uuid) IS NULL OR letter_id < :before)
    ORDER BY letter_id DESC LIMIT :limit
""")
_LETTER = text(f"SELECT {_LETTER_COLUMNS} FROM dead_letters WHERE group_id = :group AND letter_id = :id")
_OPEN = text("""
    SELECT letter_id FROM dead_letters
    WHERE group_id = :group AND state = 'open'
      AND (letter_id = ANY(:ids) OR (cardinality(CAST(:ids AS uuid[])) = 0 AND kind = :kind))
    ORDER BY letter_id LIMIT :limit FOR UPDATE
""")
