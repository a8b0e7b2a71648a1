"""The users of a group's agents: who they are, and what is remembered of each of them."""

from __future__ import annotations

from sqlalchemy import Connection, text

from jiyi.protocol.memory import Memory
from models.db.rows import Record, records
from models.memory.agents import AgentName, bind_name
from models.memory.reads import fetch_memories, memories
from models.memory.tables import MemoryNode

_N = MemoryNode


def users(connection: Connection, group_id: str, part: str, after: str, limit: int) -> list[Record]:
    """The group's users in the order of their names; ``part``: those whose names have it.

    Each with the number of agents they talk with, of current memories without turns, of open reminders.
    """
    return records(connection, _USERS, group=group_id, part=part.lower(), after=after, limit=limit)


def agents_of(connection: Connection, group_id: str, user_id: str) -> list[str]:
    rows = connection.execute(_AGENTS, {"group": group_id, "user": user_id})
    return list(rows.scalars())


def users_of(connection: Connection, name: AgentName, limit: int) -> list[str]:
    return list(connection.execute(_OF_AGENT, {**bind_name(name), "limit": limit}).scalars())


def sessions_of(connection: Connection, group_id: str, user_id: str, limit: int) -> list[Record]:
    """A user's conversations, the latest first."""
    return records(connection, _SESSIONS, group=group_id, user=user_id, limit=limit)


def reminders_of(connection: Connection, group_id: str, user_id: str, limit: int) -> list[Record]:
    """A user's active appointments, the soonest first."""
    return records(connection, _REMINDERS, group=group_id, user=user_id, limit=limit)


def statements_of(
    connection: Connection, group_id: str, user_id: str, agents: list[str], *, superseded: bool, limit: int
) -> list[Memory]:
    """What is known of a user but turns, newest first: what is current, or what was superseded."""
    once_so = _N.superseded_at.is_not(None) if superseded else _N.superseded_at.is_(None)
    of_user = (_N.agent_id.in_(agents), _N.user_id == user_id, _N.kind.is_distinct_from("session"))
    latest = (_N.superseded_at.desc(), _N.created_at.desc(), _N.node_id.desc())
    selection = memories(group_id).where(*of_user, once_so, _N.archived_at.is_(None))
    return fetch_memories(connection, group_id, selection.order_by(*latest).limit(limit))


# The names and each agent's latest memory of them are read from an index; counted are a page's users only.
_USERS = text("""
    WITH pairs AS MATERIALIZED (
        SELECT user_id, agent_id, max(node_count) AS latest FROM memory_nodes
        WHERE group_id = :group AND user_id IS NOT NULL AND user_id > :after
          AND strpos(lower(user_id), :part) > 0
        GROUP BY user_id, agent_id
    ), these AS (
        SELECT user_id, count(*) AS agents FROM pairs GROUP BY user_id ORDER BY user_id LIMIT :limit
    )
    SELECT these.user_id, these.agents, of_user.memories, of_user.last_seen, (
        SELECT count(*) FROM schedules s
        WHERE s.group_id = :group AND s.user_id = these.user_id AND s.state = 'active'
    ) AS reminders
    FROM these CROSS JOIN LATERAL (
        SELECT sum(counted.memories)::int AS memories, max(n.created_at) AS last_seen
        FROM pairs p
        JOIN memory_nodes n
          ON n.group_id = :group AND n.agent_id = p.agent_id AND n.node_count = p.latest
        CROSS JOIN LATERAL (
            SELECT count(*) AS memories FROM memory_nodes m
            WHERE m.group_id = :group AND m.agent_id = p.agent_id AND m.user_id = p.user_id
              AND m.kind IS DISTINCT FROM 'session' AND m.superseded_at IS NULL AND m.archived_at IS NULL
        ) counted
        WHERE p.user_id = these.user_id
    ) of_user
    ORDER BY these.user_id
""")
_AGENTS = text("""
    SELECT DISTINCT agent_id FROM memory_nodes WHERE group_id = :group AND user_id = :user ORDER BY agent_id
""")
_OF_AGENT = text("""
    SELECT DISTINCT user_id FROM memory_nodes
    WHERE group_id = :group AND agent_id = :agent AND user_id IS NOT NULL ORDER BY user_id LIMIT :limit
""")
_REMINDERS = text("""
    SELECT schedule_id AS id, coalesce(nullif(task_description, ''), natural_description) AS task, next_run_at
    FROM schedules WHERE group_id = :group AND user_id = :user AND state = 'active'
    ORDER BY next_run_at NULLS LAST, schedule_id LIMIT :limit
""")
_SESSIONS = text("""
    SELECT agent_id, session_id, count(*) FILTER (WHERE kind = 'session') AS turns,
        min(created_at) AS began, max(created_at) AS latest
    FROM memory_nodes WHERE group_id = :group AND user_id = :user AND session_id IS NOT NULL
    GROUP BY agent_id, session_id HAVING count(*) FILTER (WHERE kind = 'session') > 0
    ORDER BY latest DESC LIMIT :limit
""")
