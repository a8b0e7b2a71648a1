"""The archive: memories that no retrieval finds unless it asks for them. Nothing in it is deleted.

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

from sqlalchemy import ARRAY, Connection, Select, Update, Uuid, and_, any_, bindparam, case, column, func, or_, select, text, update

from models.accounts import audit
from models.memory.access import RECENT
from models.memory.agents import AgentName, bind_name
from models.memory.tables import MemoryNode

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
    newest: datetime | None = connection.execute(_NEWEST, bind_name(agent)).scalar_one()
    return None if newest is None else min(newest, now)


def with_expired(connection: Connection, group_id: str | None, now: datetime) -> list[AgentName]:
    """Agents with memories whose expiry has passed, at least in real time."""
    return [(row.group_id, row.agent_id) for row in connection.execute(_WITH_EXPIRED, {"group": group_id, "now": now})]


def count_expired(connection: Connection, agent: AgentName, at: datetime) -> int:
    return int(connection.execute(_COUNT_EXPIRED, {**bind_name(agent), "at": at}).scalar_one())


def archive_expired(connection: Connection, agent: AgentName, at: datetime, limit: int, actor: str) -> int:
    """Archive up to ``limit`` memories that expired before ``at``; returns how many.

    Safe to repeat because what is archived is not found again.
    """
    node_ids = connection.execute(_EXPIRE, {**bind_name(agent), "at": at, "limit": limit}).scalars()
    return _record(connection, agent, list(node_ids), "expired", actor, clock=at)


def judge(connection: Connection, agent: AgentName, rules: Rules) -> dict[str, int]:
    """How many memories fade, and how many stay for which reason; each is counted once."""
    return dict(connection.execute(_JUDGE, _bound(agent, rules)).mappings().one())


def archive_faded(connection: Connection, agent: AgentName, rules: Rules, limit: int, actor: str) -> int:
    """Archive up to ``limit`` memories that have faded, the oldest first; returns how many.

    Safe to repeat because what is archived is not found again.
    """
    node_ids = connection.execute(_FADE, {**_bound(agent, rules), "limit": limit}).scalars()
    return _record(connection, agent, list(node_ids), "faded", actor, clock=rules.clock, below=rules.below_poignancy)


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
        connection.execute(_ACCESSED, {"group": group_id, "ids": ids, "at": at, "kept": RECENT})
    return restored


def _by_agent(rows: Iterable[Any]) -> dict[str, list[UUID]]:
    by_agent: dict[str, list[UUID]] = {}
    for row in rows:
        by_agent.setdefault(row.agent_id, []).append(row.node_id)
    return by_agent


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


def _bound(agent: AgentName, rules: Rules) -> dict[str, str | float | datetime | None]:
    return {
        **bind_name(agent),
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
_OF_GROUP = MemoryNode.group_id == bindparam("group")
_IDS = bindparam("ids", type_=ARRAY(Uuid))


def _locked(*which: Any) -> Select[Any]:
    """Whoever locks many nodes does it in this order (``models.memory.nodes.lock``): nobody waits for somebody who waits for him."""
    return select(MemoryNode.node_id).where(_OF_GROUP, *which).order_by(MemoryNode.node_id).with_for_update(key_share=True)


def _change(picked: Select[Any], *which: Any, **values: Any) -> Update:
    """With ``changed_xid``, so that the indexes in the retrieval workers notice."""
    chosen = picked.cte("picked")
    changed = update(MemoryNode).values(changed_xid=func.pg_current_xact_id(), **values)
    return changed.where(_OF_GROUP, MemoryNode.node_id == chosen.c.node_id, *which).returning(MemoryNode.node_id, MemoryNode.agent_id)


def _archive(reason: Reason, picked: Select[Any]) -> Update:
    return _change(picked, MemoryNode.archived_at.is_(None), archived_at=func.now(), archived_reason=reason)


_EXPIRED = and_(
    _OF_GROUP,
    MemoryNode.agent_id == bindparam("agent"),
    MemoryNode.archived_at.is_(None),
    MemoryNode.expires_at.is_not(None),
    MemoryNode.expires_at <= bindparam("at"),
)
_COUNT_EXPIRED = select(func.count()).select_from(MemoryNode).where(_EXPIRED)
_SOONEST = select(MemoryNode.node_id).where(_EXPIRED).order_by(MemoryNode.expires_at).limit(bindparam("limit"))
_EXPIRE = _archive("expired", _SOONEST.with_for_update(skip_locked=True))
# The first reason that holds is the one that counts. A conversation's filling holds no ids, so only thoughts' are read.
_JUDGED = (
    text("""
    WITH evidence AS MATERIALIZED (
        SELECT DISTINCT e.id FROM memory_nodes t CROSS JOIN LATERAL jsonb_array_elements_text(t.filling) AS e(id)
        WHERE t.group_id = :group AND t.agent_id = :agent AND t.type = 'thought' AND t.archived_at IS NULL
          AND (t.expires_at IS NULL OR t.expires_at > :clock)
    )
    SELECT n.node_id, n.node_count, CASE
        WHEN a.last_accessed >= :accessed_before OR n.stored_at >= :stored_before THEN 'recent'
        WHEN coalesce(n.poignancy, 0) >= :below THEN 'important'
        WHEN CAST(n.node_id AS text) IN (SELECT id FROM evidence) THEN 'evidence'
        ELSE 'fades' END AS verdict
    FROM memory_nodes n JOIN node_access a USING (node_id, group_id)
    WHERE n.group_id = :group AND n.agent_id = :agent AND n.archived_at IS NULL
    """)
    .columns(column("node_id"), column("node_count"), column("verdict"))
    .cte("judged")
)
_VERDICTS = ("fades", "recent", "important", "evidence")
_JUDGE = select(*(func.count().filter(_JUDGED.c.verdict == verdict).label(verdict) for verdict in _VERDICTS)).select_from(_JUDGED)
_OLDEST_FADING = select(_JUDGED.c.node_id).where(_JUDGED.c.verdict == "fades").order_by(_JUDGED.c.node_count).limit(bindparam("limit"))
_FADE = _archive("faded", _locked(MemoryNode.node_id.in_(_OLDEST_FADING)))
_ARCHIVE_CHOSEN = _archive("chosen", _locked(MemoryNode.node_id == any_(_IDS), MemoryNode.archived_at.is_(None)))
_ARCHIVED = select(MemoryNode.node_id).where(
    _OF_GROUP,
    MemoryNode.archived_at.is_not(None),
    or_(MemoryNode.node_id == any_(_IDS), and_(func.cardinality(_IDS) == 0, MemoryNode.agent_id == bindparam("agent"))),
)
_RESTORE = _change(
    _locked(MemoryNode.node_id.in_(_ARCHIVED.order_by(MemoryNode.node_count).limit(bindparam("limit")))),
    MemoryNode.archived_at.is_not(None),
    archived_at=None,
    archived_reason=None,
    expires_at=case((MemoryNode.expires_at > bindparam("now"), MemoryNode.expires_at)),
)
_ACCESSED = text("""
    UPDATE node_access SET last_accessed = greatest(last_accessed, :at),
        recent = (recent || CAST(:at AS timestamptz))[greatest(cardinality(recent) + 2 - :kept, 1):]
    WHERE group_id = :group AND node_id = ANY(:ids)
""")
