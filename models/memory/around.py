"""What stands around one memory: what is like it, what was said before and after, how it came, what it owes."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from sqlalchemy import Connection, text

from models.memory.overview import brief_nodes

Row = dict[str, Any]

#: Memories of the agent, the newest ones, among which the nearest are looked for, exactly: half a second on a busy machine.
LOOKED_AT = 10_000
#: Numbers before and after a memory among which its session's others are looked for.
SESSION_REACH = 5_000
#: Work that a memory may owe (``models.memory.inbox``), as the primary key of ``pending_work`` begins with the kind.
KINDS = ("embed", "strengthen", "accumulate", "depth", "appraise", "tokenize", "reflect_conversation")
#: Dead letters about one thing that a page tells.
MAX_LETTERS = 5


def nearest(connection: Connection, group_id: str, node_id: UUID, limit: int) -> list[Row]:
    """The agent's memories whose vectors, by the same model, are nearest; none if it has no vector yet.

    ``similarity`` is the cosine, 1 for the same direction. Looks at the agent's ``LOOKED_AT`` newest.
    """
    parameters = {"group": group_id, "id": node_id, "limit": limit, "looked_at": LOOKED_AT}
    found = {row.node_id: row.similarity for row in connection.execute(_NEAREST, parameters)}
    return [{**row, "similarity": found[row["node_id"]]} for row in brief_nodes(connection, group_id, list(found))]


def in_session(connection: Connection, group_id: str, node_id: UUID, limit: int) -> dict[str, list[Row]]:
    """Up to ``limit`` memories right ``before`` and right ``after`` it in its session, in their order."""
    parameters = {"group": group_id, "id": node_id, "limit": limit, "reach": SESSION_REACH}
    sides: dict[str, list[Row]] = {"before": [], "after": []}
    for row in connection.execute(_IN_SESSION, parameters).mappings():
        sides[row["side"]].append({name: value for name, value in row.items() if name != "side"})
    return sides


def event(connection: Connection, group_id: str, event_id: UUID) -> Row | None:
    """An event as it came, with what became of it; None if there is none, or it was pruned."""
    row = connection.execute(_EVENT, {"group": group_id, "id": event_id}).mappings().one_or_none()
    return None if row is None else dict(row)


def owed(connection: Connection, group_id: str, subject_id: UUID) -> list[Row]:
    """The work that a memory, or a conversation's end, still owes."""
    parameters = {"group": group_id, "id": subject_id, "kinds": list(KINDS)}
    return [dict(row) for row in connection.execute(_OWED, parameters).mappings()]


def letters(connection: Connection, group_id: str, subject_id: UUID) -> list[Row]:
    """Dead letters about it, newest first."""
    parameters = {"group": group_id, "id": subject_id, "limit": MAX_LETTERS}
    return [dict(row) for row in connection.execute(_LETTERS, parameters).mappings()]


_NEAREST = text("""
    WITH me AS (
        SELECT agent_id, embedding, embedding_model FROM memory_nodes
        WHERE group_id = :group AND node_id = :id AND embedding IS NOT NULL
    ), newest AS MATERIALIZED (
        SELECT n.node_id, n.embedding FROM memory_nodes n JOIN me ON n.agent_id = me.agent_id
        WHERE n.group_id = :group AND n.embedding_model = me.embedding_model AND n.archived_at IS NULL AND n.node_id <> :id
        ORDER BY n.node_count DESC LIMIT :looked_at
    )
    SELECT newest.node_id, 1 - (newest.embedding <=> me.embedding) AS similarity FROM newest CROSS JOIN me
    WHERE vector_dims(newest.embedding) = vector_dims(me.embedding)
    ORDER BY newest.embedding <=> me.embedding LIMIT :limit
""")
_SESSION_COLUMNS = "n.node_id, n.agent_id, n.type, n.created_at, n.description, n.poignancy, n.depth, n.node_count"
_IN_SESSION = text(f"""
    WITH me AS (
        SELECT group_id, agent_id, session_id, node_count FROM memory_nodes
        WHERE group_id = :group AND node_id = :id AND session_id IS NOT NULL
    ), sides AS (
        (SELECT 'before' AS side, {_SESSION_COLUMNS} FROM memory_nodes n JOIN me USING (group_id, agent_id, session_id)
         WHERE n.node_count < me.node_count AND n.node_count >= me.node_count - :reach
         ORDER BY n.node_count DESC LIMIT :limit)
        UNION ALL
        (SELECT 'after', {_SESSION_COLUMNS} FROM memory_nodes n JOIN me USING (group_id, agent_id, session_id)
         WHERE n.node_count > me.node_count AND n.node_count <= me.node_count + :reach
         ORDER BY n.node_count LIMIT :limit)
    )
    SELECT * FROM sides ORDER BY node_count
""")
_EVENT = text("""
    SELECT e.event_id, e.type, e.version, e.group_id, e.agent_id, e.session_id, e.correlation_id, e.occurred_at,
        e.received_at, e.payload, e.outcome, e.node_id, e.position, n.embedding_model, n.node_id IS NOT NULL AS node_exists
    FROM events e LEFT JOIN memory_nodes n ON n.node_id = e.node_id
    WHERE e.group_id = :group AND e.event_id = :id
""")
_OWED = text("""
    SELECT kind, due_at, attempts, last_error, created_at FROM pending_work
    WHERE kind = ANY(:kinds) AND subject_id = :id AND group_id = :group ORDER BY kind
""")
_LETTERS = text("""
    SELECT letter_id, kind, reason, state, created_at FROM dead_letters
    WHERE subject_id = :id AND group_id = :group ORDER BY letter_id DESC LIMIT :limit
""")
