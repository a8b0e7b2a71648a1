"""Lists that only the admin shows: events as they arrive, reflections, the archive, an agent's times. Newest first."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, text

Row = dict[str, Any]

#: Memories, the newest ones, that an agent's timeline counts: a tenth of a second of reading.
TIMELINE_NODES = 100_000
#: Characters of an event's payload that a list carries.
MAX_PAYLOAD_CHARS = 600


def _rows(connection: Connection, statement: Any, **parameters: Any) -> list[Row]:
    return [dict(row) for row in connection.execute(statement, parameters).mappings()]


def events(connection: Connection, group_id: str, agent_id: str | None, *, before: int | None, after: int | None, limit: int) -> list[Row]:
    """Stored events, the latest to arrive first, with a ``position`` between the two."""
    return _rows(connection, _EVENTS, group=group_id, agent=agent_id, before=before, after=after, limit=limit, chars=MAX_PAYLOAD_CHARS)


def reflections(
    connection: Connection,
    group_id: str,
    *,
    agent_id: str | None,
    state: str | None,
    trigger: str | None,
    before: tuple[datetime, UUID] | None,
    limit: int,
) -> list[Row]:
    """Reflections, the latest first; ``state`` may be ``given up``, as in :func:`models.reflection.reflections.found`."""
    at, id_ = before or (None, None)
    return _rows(connection, _REFLECTIONS, group=group_id, agent=agent_id, state=state, trigger=trigger, at=at, id=id_, limit=limit)


def archived(
    connection: Connection, group_id: str, *, agent_id: str | None, reason: str | None, before: tuple[datetime, UUID] | None, limit: int
) -> list[Row]:
    """Archived memories, the last to be archived first."""
    at, id_ = before or (None, None)
    return _rows(connection, _ARCHIVED, group=group_id, agent=agent_id, reason=reason, at=at, id=id_, limit=limit)


def archived_counts(connection: Connection, group_id: str, limit: int) -> list[Row]:
    """Agents with archived memories: how many, and why. Most first."""
    return _rows(connection, _ARCHIVED_COUNTS, group=group_id, limit=limit)


def timeline(connection: Connection, group_id: str, agent_id: str, unit: str) -> list[Row]:
    """How many memories of each type began in each ``hour``, ``day``, ``week`` or ``month`` (UTC), oldest first."""
    return _rows(connection, _TIMELINE, group=group_id, agent=agent_id, unit=unit, nodes=TIMELINE_NODES)


def span(connection: Connection, group_id: str, agent_id: str) -> tuple[datetime, datetime] | None:
    """When the first and the last of the memories happened that the timeline counts."""
    row = connection.execute(_SPAN, {"group": group_id, "agent": agent_id, "nodes": TIMELINE_NODES}).one()
    return None if row.first is None else (row.first, row.last)


def agent_names(connection: Connection, group_id: str, limit: int) -> list[str]:
    """For choosing one."""
    return list(connection.execute(_AGENT_NAMES, {"group": group_id, "limit": limit}).scalars())


_EVENTS = text("""
    SELECT e.event_id, e.position, e.type, e.agent_id, e.session_id, e.occurred_at, e.received_at, e.outcome, e.node_id,
        coalesce(left(e.payload ->> 'description', :chars), left(CAST(e.payload AS text), :chars)) AS summary,
        coalesce(e.payload ->> 'node_type', 'event') AS node_type,
        CASE WHEN e.outcome <> 'stored' THEN e.outcome WHEN n.node_id IS NULL THEN 'gone'
            WHEN n.embedding_model IS NULL THEN 'stored' ELSE 'retrievable' END AS state
    FROM events e LEFT JOIN memory_nodes n ON n.node_id = e.node_id
    WHERE e.group_id = :group AND (CAST(:agent AS text) IS NULL OR e.agent_id = :agent)
      AND (CAST(:before AS bigint) IS NULL OR e.position < :before)
      AND (CAST(:after AS bigint) IS NULL OR e.position > :after)
    ORDER BY e.position DESC LIMIT :limit
""")
# What is open, but owed no more, was given up (``models.reflection.tables.Reflection``).
_REFLECTIONS = text("""
    SELECT * FROM (
        SELECT r.reflection_id, r.agent_id, r.trigger, r.attempts, r.created_at, r.started_at, r.finished_at,
            r.focal_points, r.thoughts, r.llm, coalesce(r.error, p.last_error) AS error,
            CASE WHEN r.state IN ('done', 'nothing') OR p.kind IS NOT NULL THEN r.state ELSE 'given up' END AS state
        FROM reflections r JOIN agents a USING (group_id, agent_id)
        LEFT JOIN pending_work p
            ON p.kind = CASE WHEN r.trigger = 'conversation' THEN 'reflect_conversation' ELSE 'reflect' END
            AND p.subject_id = CASE WHEN r.trigger = 'conversation' THEN r.reflection_id ELSE a.agent_key END
        WHERE r.group_id = :group AND (CAST(:agent AS text) IS NULL OR r.agent_id = :agent)
          AND (CAST(:trigger AS text) IS NULL OR r.trigger = :trigger)
          AND (CAST(:at AS timestamptz) IS NULL OR (r.created_at, r.reflection_id) < (:at, CAST(:id AS uuid)))
    ) AS all_of_them
    WHERE CAST(:state AS text) IS NULL OR state = :state
    ORDER BY created_at DESC, reflection_id DESC LIMIT :limit
""")
_ARCHIVED = text("""
    SELECT n.node_id, n.agent_id, n.node_count, n.type, n.created_at, n.expires_at, n.archived_at, n.archived_reason,
        n.poignancy, left(n.description, 1000) AS description, a.last_accessed
    FROM memory_nodes n LEFT JOIN node_access a USING (node_id)
    WHERE n.group_id = :group AND n.archived_at IS NOT NULL AND (CAST(:agent AS text) IS NULL OR n.agent_id = :agent)
      AND (CAST(:reason AS text) IS NULL OR n.archived_reason = :reason)
      AND (CAST(:at AS timestamptz) IS NULL OR (n.archived_at, n.node_id) < (:at, CAST(:id AS uuid)))
    ORDER BY n.archived_at DESC, n.node_id DESC LIMIT :limit
""")
_ARCHIVED_COUNTS = text("""
    SELECT agent_id, count(*) AS archived, count(*) FILTER (WHERE archived_reason = 'expired') AS expired,
        count(*) FILTER (WHERE archived_reason = 'faded') AS faded
    FROM memory_nodes WHERE group_id = :group AND archived_at IS NOT NULL
    GROUP BY agent_id ORDER BY archived DESC, agent_id LIMIT :limit
""")
_NEWEST = """
    SELECT type, created_at FROM memory_nodes WHERE group_id = :group AND agent_id = :agent
    ORDER BY node_count DESC LIMIT :nodes
"""
_TIMELINE = text(f"""
    SELECT date_trunc(:unit, created_at, 'UTC') AS start, count(*) AS memories, count(*) FILTER (WHERE type = 'event') AS event,
        count(*) FILTER (WHERE type = 'thought') AS thought, count(*) FILTER (WHERE type = 'chat') AS chat
    FROM ({_NEWEST}) AS newest GROUP BY 1 ORDER BY 1
""")
_SPAN = text(f"SELECT min(created_at) AS first, max(created_at) AS last FROM ({_NEWEST}) AS newest")
_AGENT_NAMES = text("SELECT agent_id FROM agents WHERE group_id = :group ORDER BY agent_id LIMIT :limit")
