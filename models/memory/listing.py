"""Lists, page by page, and counts: what the command line and the admin show."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, text

from jiyi.text.words import last_segment

Row = dict[str, Any]


def _rows(connection: Connection, statement: Any, **parameters: Any) -> list[Row]:
    return [dict(row) for row in connection.execute(statement, parameters).mappings()]


def nodes(connection: Connection, group_id: str, agent_id: str, types: Sequence[str], before: int | None, limit: int) -> list[Row]:
    """Newest first, below ``node_count`` ``before``."""
    return _rows(connection, _NODES, group=group_id, agent=agent_id, types=list(types), before=before, limit=limit)


def some_texts(connection: Connection, group_id: str, agent_id: str, limit: int) -> list[str]:
    """Texts of some of the agent's memories, always the same ones, spread over all of them."""
    return [row["embedding_key"] for row in _rows(connection, _SOME, group=group_id, agent=agent_id, limit=limit)]


def keywords(connection: Connection, group_id: str, agent_id: str, offset: int, limit: int) -> list[Row]:
    """Strongest first."""
    return _rows(connection, _KEYWORDS, group=group_id, agent=agent_id, offset=offset, limit=limit)


def agents(connection: Connection, group_id: str, after: str, limit: int) -> list[Row]:
    return _rows(connection, _AGENTS, group=group_id, after=after, limit=limit)


def related(connection: Connection, group_id: str, agent_id: str, parts: Sequence[str], limit: int) -> dict[str, list[Row]]:
    """GA-47: nodes with any of the parts (last path segment, lower case) among their keywords, newest first."""
    wanted = sorted({last_segment(part).lower() for part in parts if part.strip()})
    found = _rows(connection, _RELATED, group=group_id, agent=agent_id, keywords=wanted, limit=limit)
    return {f"{kind}s": [row for row in found if row["type"] == kind] for kind in ("event", "thought")}


def event_states(connection: Connection, group_id: str, event_ids: Sequence[UUID]) -> list[Row]:
    """One row an id, in the order given."""
    found = {row["event_id"]: row for row in _rows(connection, _STATES, group=group_id, ids=list(event_ids))}
    unknown = {"state": "unknown", "node_id": None, "reason": ""}
    return [found.get(event_id, {"event_id": event_id, **unknown}) for event_id in event_ids]


def events(connection: Connection, group_id: str, agent_id: str | None, after: int | None, with_vectors: bool, limit: int) -> list[Row]:
    """Stored events in order of arrival."""
    return _rows(connection, _EVENTS, group=group_id, agent=agent_id, after=after, vectors=with_vectors, limit=limit)


_NODE_COLUMNS = """n.node_id, n.agent_id, n.session_id, n.type, n.node_count, n.type_count, n.depth, n.created_at,
    a.last_accessed, a.access_count, n.expires_at, n.archived_at, n.subject, n.predicate, n.object, n.description,
    n.embedding_key, n.keywords, n.poignancy, n.is_idle, n.filling, n.provenance, n.embedding_model"""

_SOME = text("""
    SELECT embedding_key FROM memory_nodes
    WHERE group_id = :group AND agent_id = :agent AND NOT is_idle AND archived_at IS NULL AND embedding IS NOT NULL
    ORDER BY md5(node_id::text) LIMIT :limit
""")
_NODES = text(f"""
    SELECT {_NODE_COLUMNS} FROM memory_nodes n JOIN node_access a USING (node_id)
    WHERE n.group_id = :group AND n.agent_id = :agent AND n.type = ANY(:types)
      AND (CAST(:before AS int) IS NULL OR n.node_count < :before)
    ORDER BY n.node_count DESC LIMIT :limit
""")
_RELATED = text(f"""
    WITH found AS (
        SELECT {_NODE_COLUMNS}, row_number() OVER (PARTITION BY n.type ORDER BY n.node_count DESC) AS place
        FROM memory_nodes n JOIN node_access a USING (node_id)
        WHERE n.group_id = :group AND n.agent_id = :agent AND n.type IN ('event', 'thought')
          AND n.node_id IN (SELECT jiyi_with_keywords(:group, :agent, CAST(:keywords AS text[])))
    )
    SELECT * FROM found WHERE place <= :limit ORDER BY node_count DESC
""")
_KEYWORDS = text("""
    SELECT keyword, memory_type, strength FROM kw_strength WHERE group_id = :group AND agent_id = :agent
    ORDER BY strength DESC, keyword, memory_type OFFSET :offset LIMIT :limit
""")
_AGENTS = text("""
    SELECT agent_id, settings, node_count, type_counts, importance_trigger_curr, importance_ele_n, created_at
    FROM agents WHERE group_id = :group AND agent_id > :after ORDER BY agent_id LIMIT :limit
""")
_STATES = text("""
    SELECT e.event_id, e.node_id, '' AS reason, CASE
        WHEN e.outcome <> 'stored' THEN e.outcome WHEN n.embedding IS NULL THEN 'stored' ELSE 'retrievable' END AS state
    FROM events e LEFT JOIN memory_nodes n ON n.node_id = e.node_id
    WHERE e.group_id = :group AND e.event_id = ANY(:ids)
    UNION ALL
    SELECT DISTINCT ON (subject_id) subject_id, NULL, reason, 'dead' FROM dead_letters
    WHERE (group_id = :group OR group_id IS NULL) AND kind = 'intake' AND state = 'open' AND subject_id = ANY(:ids)
      AND NOT EXISTS (SELECT FROM events WHERE event_id = subject_id)
""")
_EVENTS = text("""
    SELECT e.position, e.event_id, e.type, e.version, e.occurred_at, e.group_id, e.agent_id, e.session_id, e.correlation_id,
        -- What was asked of an LLM comes along, so that nobody has to ask again.
        CASE WHEN n.provenance ? 'appraised' THEN
            jsonb_strip_nulls(jsonb_build_object(
                'poignancy', n.poignancy, 'subject', n.subject, 'predicate', n.predicate, 'object', n.object,
                'keywords', n.keywords
            )) || e.payload || jsonb_build_object('provenance', n.provenance)
        ELSE e.payload END AS payload,
        CASE WHEN :vectors THEN n.embedding END AS embedding, n.embedding_model
    FROM events e LEFT JOIN memory_nodes n ON n.node_id = e.node_id AND e.outcome = 'stored'
    WHERE e.group_id = :group AND e.outcome <> 'erased' AND (CAST(:agent AS text) IS NULL OR e.agent_id = :agent)
      AND (CAST(:after AS bigint) IS NULL OR e.position > :after)
    ORDER BY e.position LIMIT :limit
""")
