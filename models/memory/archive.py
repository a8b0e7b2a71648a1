"""The archive: memories that no retrieval finds unless it asks for them (GA-11, K-20). Nothing in it is deleted.

An agent may live in simulated time, so its memories are measured by its own clock: the time of its newest memory, or
now if that is earlier. What was stored only lately has not had its chance to be accessed and does not fade, however
old the time it tells of: else an imported diary would be gone the next night.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal
from uuid import UUID

from sqlalchemy import Connection, text

from models.accounts import audit
from models.memory.access import RECENT
from models.memory.agents import AgentName

Reason = Literal["expired", "faded", "chosen"]


@dataclass(frozen=True, slots=True)
class Rules:
    """When a memory fades, for one agent."""

    #: The agent's own time.
    clock: datetime
    #: Not accessed, in the agent's time, since …
    accessed_before: datetime
    #: … and here, in real time, since before …
    stored_before: datetime
    #: … and of less importance than this. Without importance: 0.
    below_poignancy: float

    @classmethod
    def of(cls, clock: datetime, now: datetime, after_days: float, below_poignancy: float) -> Rules:
        age = timedelta(days=after_days)
        return cls(clock, clock - age, now - age, below_poignancy)


def clock(connection: Connection, agent: AgentName, now: datetime) -> datetime | None:
    """The agent's own time, or None without memories.

    Accesses do not move it: whoever asks an agent that lives in simulated time may forget to say which.
    """
    newest: datetime | None = connection.execute(_NEWEST, _named(agent)).scalar_one()
    return None if newest is None else min(newest, now)


def with_expired(connection: Connection, group_id: str | None, now: datetime) -> list[AgentName]:
    """Agents with memories whose expiry has passed, at least in real time."""
    return [(row.group_id, row.agent_id) for row in connection.execute(_WITH_EXPIRED, {"group": group_id, "now": now})]


def count_expired(connection: Connection, agent: AgentName, at: datetime) -> int:
    return int(connection.execute(_COUNT_EXPIRED, {**_named(agent), "at": at}).scalar_one())


def archive_expired(connection: Connection, agent: AgentName, at: datetime, limit: int, actor: str) -> int:
    """Archive up to ``limit`` memories that expired before ``at``; returns how many.

    Safe to repeat because what is archived is not found again.
    """
    found = connection.execute(_EXPIRE, {**_named(agent), "at": at, "limit": limit}).scalars()
    return _record(connection, agent, list(found), "expired", actor, clock=at)


def judge(connection: Connection, agent: AgentName, rules: Rules) -> dict[str, int]:
    """How many memories fade, and how many stay for which reason; each is counted once."""
    return dict(connection.execute(_JUDGE, _bound(agent, rules)).mappings().one())


def archive_faded(connection: Connection, agent: AgentName, rules: Rules, limit: int, actor: str) -> int:
    """Archive up to ``limit`` memories that have faded, the oldest first; returns how many.

    Safe to repeat because what is archived is not found again.
    """
    found = connection.execute(_FADE, {**_bound(agent, rules), "limit": limit}).scalars()
    return _record(connection, agent, list(found), "faded", actor, clock=rules.clock, below=rules.below_poignancy)


def archive_chosen(connection: Connection, group_id: str, node_ids: Sequence[UUID]) -> dict[str, list[UUID]]:
    """Archive these memories because somebody said so; returns, by agent, those that were not archived yet.

    Safe to repeat because what is archived is not found again.
    """
    return _by_agent(connection.execute(_ARCHIVE_CHOSEN, {"group": group_id, "ids": list(node_ids)}))


def restore(
    connection: Connection, group_id: str, agent_id: str | None, node_ids: Sequence[UUID], now: datetime, limit: int
) -> dict[str, tuple[datetime, list[UUID]]]:
    """Bring archived memories back: those named, or up to ``limit`` of an agent.

    Returns, by agent, when they count as accessed (in the agent's own time), and their ids.

    That counts as an access, and an expiry that has passed is taken away: they would be gone again the next day.
    Safe to repeat because only what is archived is restored.
    """
    parameters = {"group": group_id, "agent": agent_id, "ids": list(node_ids), "now": now, "limit": limit}
    found = _by_agent(connection.execute(_RESTORE, parameters))
    restored = {name: (clock(connection, (group_id, name), now) or now, ids) for name, ids in found.items()}
    for at, ids in restored.values():
        connection.execute(_ACCESSED, {"group": group_id, "ids": ids, "at": at})
    return restored


def _by_agent(rows: Iterable[Any]) -> dict[str, list[UUID]]:
    found: dict[str, list[UUID]] = {}
    for row in rows:
        found.setdefault(row.agent_id, []).append(row.node_id)
    return found


def _record(connection: Connection, agent: AgentName, ids: list[UUID], reason: Reason, actor: str, **details: Any) -> int:
    if ids:
        audit.record(
            connection,
            group_id=agent[0],
            actor=actor,
            action="archive.archive",
            target=agent[1],
            reason=reason,
            count=len(ids),
            node_ids=ids,
            **details,
        )
    return len(ids)


def _named(agent: AgentName) -> dict[str, Any]:
    return {"group": agent[0], "agent": agent[1]}


def _bound(agent: AgentName, rules: Rules) -> dict[str, Any]:
    return {
        **_named(agent),
        "clock": rules.clock,
        "accessed_before": rules.accessed_before,
        "stored_before": rules.stored_before,
        "below": rules.below_poignancy,
    }


_NEWEST = text("SELECT max(created_at) FROM memory_nodes WHERE group_id = :group AND agent_id = :agent")
_WITH_EXPIRED = text("""
    SELECT DISTINCT group_id, agent_id FROM memory_nodes
    WHERE archived_at IS NULL AND expires_at IS NOT NULL AND expires_at <= :now
      AND (CAST(:group AS text) IS NULL OR group_id = :group)
    ORDER BY group_id, agent_id
""")
_EXPIRED = "group_id = :group AND agent_id = :agent AND archived_at IS NULL AND expires_at IS NOT NULL AND expires_at <= :at"
_COUNT_EXPIRED = text(f"SELECT count(*) FROM memory_nodes WHERE {_EXPIRED}")  # noqa: S608 – our own names; values are parameters
# Whoever locks many nodes does it in this order (``models.memory.nodes.lock``): nobody waits for somebody who waits for him.
_IN_ORDER = "ORDER BY node_id FOR NO KEY UPDATE"
# changed_xid: so that the indexes in the retrieval workers notice.
_ARCHIVE = "UPDATE memory_nodes n SET archived_at = now(), archived_reason = {reason}, changed_xid = pg_current_xact_id()"
_EXPIRE = text(f"""
    WITH picked AS (
        SELECT node_id FROM memory_nodes WHERE {_EXPIRED} ORDER BY expires_at LIMIT :limit FOR UPDATE SKIP LOCKED
    )
    {_ARCHIVE.format(reason="'expired'")}
    FROM picked WHERE n.group_id = :group AND n.node_id = picked.node_id AND n.archived_at IS NULL RETURNING n.node_id
""")  # noqa: S608 – our own names; values are parameters
# The first reason that holds is the one that counts. A conversation's filling holds no ids, so only thoughts' are read.
_JUDGED = """
    evidence AS MATERIALIZED (
        SELECT DISTINCT e.id FROM memory_nodes t CROSS JOIN LATERAL jsonb_array_elements_text(t.filling) AS e(id)
        WHERE t.group_id = :group AND t.agent_id = :agent AND t.type = 'thought' AND t.archived_at IS NULL
          AND (t.expires_at IS NULL OR t.expires_at > :clock)
    ), judged AS (
        SELECT n.node_id, n.node_count, CASE
            WHEN a.last_accessed >= :accessed_before OR n.stored_at >= :stored_before THEN 'recent'
            WHEN coalesce(n.poignancy, 0) >= :below THEN 'important'
            WHEN CAST(n.node_id AS text) IN (SELECT id FROM evidence) THEN 'evidence'
            ELSE 'fades' END AS verdict
        FROM memory_nodes n JOIN node_access a USING (node_id, group_id)
        WHERE n.group_id = :group AND n.agent_id = :agent AND n.archived_at IS NULL
    )
"""
_JUDGE = text(f"""
    WITH {_JUDGED}
    SELECT count(*) FILTER (WHERE verdict = 'fades') AS fades, count(*) FILTER (WHERE verdict = 'recent') AS recent,
        count(*) FILTER (WHERE verdict = 'important') AS important,
        count(*) FILTER (WHERE verdict = 'evidence') AS evidence
    FROM judged
""")  # noqa: S608 – our own names; values are parameters
_FADE = text(f"""
    WITH {_JUDGED}, picked AS (
        SELECT node_id FROM memory_nodes
        WHERE group_id = :group AND node_id IN (SELECT node_id FROM judged WHERE verdict = 'fades' ORDER BY node_count LIMIT :limit)
        {_IN_ORDER}
    )
    {_ARCHIVE.format(reason="'faded'")}
    FROM picked WHERE n.group_id = :group AND n.node_id = picked.node_id AND n.archived_at IS NULL RETURNING n.node_id
""")  # noqa: S608 – our own names; values are parameters
_ARCHIVE_CHOSEN = text(f"""
    WITH picked AS (
        SELECT node_id FROM memory_nodes WHERE group_id = :group AND node_id = ANY(:ids) AND archived_at IS NULL {_IN_ORDER}
    )
    {_ARCHIVE.format(reason="'chosen'")}
    FROM picked WHERE n.group_id = :group AND n.node_id = picked.node_id AND n.archived_at IS NULL RETURNING n.node_id, n.agent_id
""")  # noqa: S608 – our own names; values are parameters
_RESTORE = text(f"""
    WITH picked AS (
        SELECT node_id FROM memory_nodes WHERE group_id = :group AND node_id IN (
            SELECT node_id FROM memory_nodes
            WHERE group_id = :group AND archived_at IS NOT NULL
              AND (node_id = ANY(:ids) OR (cardinality(CAST(:ids AS uuid[])) = 0 AND agent_id = :agent))
            ORDER BY node_count LIMIT :limit
        )
        {_IN_ORDER}
    )
    UPDATE memory_nodes n SET archived_at = NULL, archived_reason = NULL, changed_xid = pg_current_xact_id(),
        expires_at = CASE WHEN n.expires_at > :now THEN n.expires_at END
    FROM picked WHERE n.group_id = :group AND n.node_id = picked.node_id AND n.archived_at IS NOT NULL RETURNING n.node_id, n.agent_id
""")  # noqa: S608 – our own names; values are parameters
_ACCESSED = text(f"""
    UPDATE node_access SET last_accessed = greatest(last_accessed, :at),
        recent = (recent || CAST(:at AS timestamptz))[greatest(cardinality(recent) + 2 - {RECENT}, 1):]
    WHERE group_id = :group AND node_id = ANY(:ids)
""")  # noqa: S608 – our own names; values are parameters
