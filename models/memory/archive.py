"""The archive: memories that only a retrieval finds that asks for them; actions on memories and agents.

An agent may live in simulated time, so its memories are measured by its own clock: the time of its newest
memory, or now if that is earlier. A recently stored memory does not fade, however old the time of its
content: else an imported diary would be gone the next night.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal
from uuid import UUID

import redis
from sqlalchemy import (
    ARRAY,
    Connection,
    Select,
    Update,
    Uuid,
    and_,
    any_,
    bindparam,
    case,
    cast,
    column,
    func,
    or_,
    select,
    text,
    update,
)
from sqlalchemy.dialects.postgresql import JSONB
from uuid6 import uuid7

from engine.memory import MemorySource
from jiyi.errors import InvalidRequest, NotFound
from jiyi.protocol import events as wire
from jiyi.protocol.base import ByIds, Count, Made, OfAgents, Rows
from jiyi.protocol.events import AgentConfigured, Configuration
from jiyi.protocol.memory import MAX_RESTORED, AgentState, ConfigureAgent, RateMemories, RestoreRequest
from jiyi.protocol.recall import AddMemory, Mistake, ReinstateMemory, Updated, UpdateMemory
from models.accounts import audit
from models.conversations import versions
from models.db.actions import Context, action
from models.memory import inbox
from models.memory.access import RECENT
from models.memory.agents import AgentName, agent_row, bind_name, no_agent
from models.memory.reads import nodes_of
from models.memory.tables import MemoryNode
from models.retrieval import records

Reason = Literal["expired", "faded", "chosen"]


@dataclass(frozen=True, slots=True)
class ArchiveRules:
    #: The agent's own time.
    clock: datetime
    #: Not accessed, in the agent's time, since …
    accessed_before: datetime
    #: … and here, in real time, since before …
    stored_before: datetime
    #: … and of less importance than this. Without importance: 0.
    below: float

    @classmethod
    def of(cls, clock: datetime, now: datetime, after_days: float, below: float) -> ArchiveRules:
        age = timedelta(days=after_days)
        return cls(clock, clock - age, now - age, below)


def clock(connection: Connection, agent: AgentName, now: datetime) -> datetime | None:
    """The agent's own time, or None without memories. Accesses do not move it."""
    newest: datetime | None = connection.execute(_NEWEST, bind_name(agent)).scalar_one()
    return None if newest is None else min(newest, now)


def with_expired(connection: Connection, group_id: str | None, now: datetime) -> list[AgentName]:
    """Agents with memories whose expiry has passed, at least in real time."""
    return [
        (row.group_id, row.agent_id)
        for row in connection.execute(_WITH_EXPIRED, {"group": group_id, "now": now})
    ]


def archive_expired(connection: Connection, agent: AgentName, at: datetime, limit: int, actor: str) -> int:
    """Archive up to ``limit`` memories that expired before ``at``; returns how many."""
    node_ids = connection.execute(_EXPIRE, {**bind_name(agent), "at": at, "limit": limit}).scalars()
    return _record(connection, agent, list(node_ids), "expired", actor, clock=at)


def archive_faded(
    connection: Connection, agent: AgentName, rules: ArchiveRules, limit: int, actor: str
) -> int:
    """Archive up to ``limit`` memories that have faded, the oldest first; returns how many."""
    node_ids = connection.execute(_FADE, {**bind_name(agent), **asdict(rules), "limit": limit}).scalars()
    return _record(connection, agent, list(node_ids), "faded", actor, clock=rules.clock, below=rules.below)


def archive_chosen(connection: Connection, group_id: str, node_ids: Sequence[UUID]) -> dict[str, list[UUID]]:
    """Archive these memories because somebody said so; returns, by agent, those that were not yet."""
    return _by_agent(connection.execute(_ARCHIVE_CHOSEN, {"group": group_id, "ids": list(node_ids)}))


def restore_nodes(
    connection: Connection,
    group_id: str,
    agent_id: str | None,
    node_ids: Sequence[UUID],
    now: datetime,
    limit: int,
) -> dict[str, tuple[datetime, list[UUID]]]:
    """Restore archived memories: those named, or up to ``limit`` of an agent.

    Returns, by agent, when they count as accessed (in the agent's own time), and their ids. An expiry that
    has passed is taken away: they would be gone again the next day.
    """
    parameters = {"group": group_id, "agent": agent_id, "ids": list(node_ids), "now": now, "limit": limit}
    agents = _by_agent(connection.execute(_RESTORE, parameters))
    restored = {name: (clock(connection, (group_id, name), now) or now, ids) for name, ids in agents.items()}
    for at, ids in restored.values():
        connection.execute(_ACCESSED, {"group": group_id, "ids": ids, "at": at, "kept": RECENT})
    return restored


def _by_agent(rows: Iterable[Any]) -> dict[str, list[UUID]]:
    by_agent: dict[str, list[UUID]] = {}
    for row in rows:
        by_agent.setdefault(row.agent_id, []).append(row.node_id)
    return by_agent


def _record(
    connection: Connection, agent: AgentName, ids: list[UUID], reason: Reason, actor: str, **details: Any
) -> int:
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


def _locked(*which: Any) -> Select[Any]:
    """In the order of ``models.memory.nodes.lock``, so that none waits in a circle."""
    ordered = select(MemoryNode.node_id).where(_OF_GROUP, *which).order_by(MemoryNode.node_id)
    return ordered.with_for_update(key_share=True)


def _change(picked: Select[Any], *which: Any, **values: Any) -> Update:
    """With ``changed_xid``, so that the indexes in the retrieval workers notice."""
    chosen = picked.cte("picked")
    changed = update(MemoryNode).values(changed_xid=func.pg_current_xact_id(), **values)
    return changed.where(_OF_GROUP, MemoryNode.node_id == chosen.c.node_id, *which).returning(
        MemoryNode.node_id, MemoryNode.agent_id
    )


def _archive(reason: Reason, picked: Select[Any]) -> Update:
    return _change(picked, MemoryNode.archived_at.is_(None), archived_at=func.now(), archived_reason=reason)


@action("agents.configure")
def configure(context: Context, request: ConfigureAgent) -> AgentState:
    """Set an agent's settings.

    Settings that are given replace the agent's own; null takes one back to the deployment's. Stored as an
    agent.configured event, so that exports have it. An agent that is not there yet is made by posting such an
    event.
    """
    connection, group_id, agent_id = context.connection, context.group_id, request.agent_id
    before = agent_row(connection, group_id, agent_id)
    if before is None:
        raise no_agent(group_id, agent_id)
    settings = request.settings().model_dump(mode="json", exclude_unset=True)
    if not settings:
        return before
    payload = Configuration.model_validate(settings)
    event = AgentConfigured(event_id=uuid7(), group_id=group_id, agent_id=agent_id, payload=payload)
    inbox.store(connection, [event])
    context.audit(agent_id, settings=settings, event_id=event.event_id)
    after = agent_row(connection, group_id, agent_id)
    assert after is not None  # locked by this transaction
    return after


@action("memory.add")
def add_memory(context: Context, request: AddMemory) -> Made:
    """Add a memory.

    One statement, by hand; programs publish events instead. An agent that is not there yet begins with it.
    """
    payload = request.model_dump(include={"description", "poignancy"}, exclude_none=True)
    envelope = {"event_id": request.event_id, "group_id": context.group_id, "agent_id": request.agent_id}
    source = MemorySource("operator") if context.actor.is_person else None
    result = inbox.store(
        context.connection,
        [wire.build({"type": "memory.observed", **envelope, "payload": payload})],
        source=source,
    )
    if result.reused:
        raise InvalidRequest(
            [f"event_id: {request.event_id} is another event's; leave it out, or choose another"]
        )
    context.audit(request.agent_id, node_id=str(request.event_id))
    return Made(id=request.event_id, new=True)


@action("memory.update")
def update_memory(context: Context, request: UpdateMemory) -> Updated:
    """Correct a memory.

    A new version supersedes it: from now on that one is found, and the older one, with the date at which it
    ended, only when superseded memories are asked for. What is not given stays as it was. What was said in a
    conversation cannot be changed.
    """
    result = versions.update(context.connection, context.group_id, request, datetime.now(UTC))
    context.audit(
        str(result.supersedes), node_id=result.node_id, fields=sorted(request.model_fields_set - {"node_id"})
    )
    return result


@action("memory.reinstate")
def reinstate_memory(context: Context, request: ReinstateMemory) -> Updated:
    """Make a superseded memory current again.

    For a supersession that was a mistake. What had superseded it stays current as well; the mistake is noted
    with the memory, and parts of turns that were marked as ended with it are current again.
    """
    result = versions.reinstate(context.connection, context.group_id, request, datetime.now(UTC))
    context.audit(str(result.node_id), superseded_by=result.superseded_by, reason=request.reason)
    return result


@action("memory.mistakes")
def list_mistakes(context: Context, request: OfAgents) -> Rows[Mistake]:
    """List the supersessions that were mistakes, as rows to train on.

    Of each reinstated memory (`memory.reinstate`) the last one, with what had wrongly superseded it.
    """
    return versions.mistakes(context.connection, context.group_id, request)


@action("memory.rate")
def rate(context: Context, request: RateMemories) -> Count:
    """Say how much memories matter.

    All or nothing; no new version is made. What an agent's reflection has counted stays counted.
    """
    _must_exist(context, request.ids)
    rated = _by_agent(
        context.connection.execute(
            _RATE, {"group": context.group_id, "ids": request.ids, "importance": request.importance}
        )
    )
    _audit(context, rated, importance=request.importance)
    return Count(count=sum(map(len, rated.values())))


@action("archive.archive")
def archive(context: Context, request: ByIds) -> Count:
    """Archive memories: they are found only when they are asked for.

    All or nothing. Memories that are archived already stay unchanged.
    """
    _must_exist(context, request.ids)
    archived = archive_chosen(context.connection, context.group_id, request.ids)
    _audit(context, archived, reason="chosen")
    return Count(count=sum(map(len, archived.values())))


@action("archive.restore")
def restore(context: Context, request: RestoreRequest) -> Count:
    """Restore archived memories: those named, or up to a thousand of an agent.

    It counts as an access, and removes an expiry that has passed. Memories that are not archived stay
    unchanged.
    """
    group_id, now = context.group_id, datetime.now(UTC)
    restored = restore_nodes(context.connection, group_id, request.agent_id, request.ids, now, MAX_RESTORED)
    _audit(context, {agent_id: ids for agent_id, (_, ids) in restored.items()})

    def publish() -> None:
        # Valkey is away: the retrieval workers find it in the database, later.
        with suppress(redis.RedisError):
            for agent_id, (at, ids) in restored.items():
                records.publish_accesses(group_id, agent_id, ids, at.timestamp())

    context.after_commit(publish)
    return Count(count=sum(len(ids) for _, ids in restored.values()))


def _must_exist(context: Context, node_ids: Sequence[UUID]) -> None:
    existing = {row.node_id for row in nodes_of(context.connection, context.group_id, node_ids)}
    missing = [str(node_id) for node_id in node_ids if node_id not in existing]
    if missing:
        raise NotFound(f"ids: the group {context.group_id!r} has no memory {', '.join(missing[:3])}")


def _audit(context: Context, by_agent: Mapping[str, list[UUID]], **details: Any) -> None:
    """One row for the memories of all agents."""
    if by_agent:
        ids = [node_id for of_agent in by_agent.values() for node_id in of_agent]
        context.audit(", ".join(sorted(by_agent)), count=len(ids), node_ids=ids, **details)


_NEWEST = text("SELECT max(created_at) FROM memory_nodes WHERE group_id = :group AND agent_id = :agent")
_WITH_EXPIRED = text("""
    SELECT DISTINCT group_id, agent_id FROM memory_nodes
    WHERE archived_at IS NULL AND expires_at IS NOT NULL AND expires_at <= :now
      AND (CAST(:group AS text) IS NULL OR group_id = :group)
    ORDER BY group_id, agent_id
""")
_OF_GROUP = MemoryNode.group_id == bindparam("group")
_IDS = bindparam("ids", type_=ARRAY(Uuid))
_EXPIRED = and_(
    _OF_GROUP,
    MemoryNode.agent_id == bindparam("agent"),
    MemoryNode.archived_at.is_(None),
    MemoryNode.expires_at.is_not(None),
    MemoryNode.expires_at <= bindparam("at"),
)
_SOONEST = (
    select(MemoryNode.node_id).where(_EXPIRED).order_by(MemoryNode.expires_at).limit(bindparam("limit"))
)
_EXPIRE = _archive("expired", _SOONEST.with_for_update(skip_locked=True))
# A conversation's filling holds no ids, so only thoughts' are read.
_FADING = (
    text("""
    WITH evidence AS MATERIALIZED (
        SELECT DISTINCT e.id FROM memory_nodes t CROSS JOIN LATERAL jsonb_array_elements_text(t.filling) AS
        e(id)
        WHERE t.group_id = :group AND t.agent_id = :agent AND t.type = 'thought' AND t.archived_at IS NULL
          AND (t.expires_at IS NULL OR t.expires_at > :clock)
    )
    SELECT n.node_id, n.node_count FROM memory_nodes n JOIN node_access a USING (node_id, group_id)
    WHERE n.group_id = :group AND n.agent_id = :agent AND n.archived_at IS NULL
      AND a.last_accessed < :accessed_before AND n.stored_at < :stored_before
      AND coalesce(n.poignancy, 0) < :below
      AND NOT EXISTS (SELECT FROM evidence e WHERE e.id = CAST(n.node_id AS text))
    """)
    .columns(column("node_id"), column("node_count"))
    .cte("fading")
)
_OLDEST_FADING = select(_FADING.c.node_id).order_by(_FADING.c.node_count).limit(bindparam("limit"))
_FADE = _archive("faded", _locked(MemoryNode.node_id.in_(_OLDEST_FADING)))
_ARCHIVE_CHOSEN = _archive(
    "chosen", _locked(MemoryNode.node_id == any_(_IDS), MemoryNode.archived_at.is_(None))
)
_OTHERWISE = MemoryNode.poignancy.is_distinct_from(bindparam("importance"))
_RATE = _change(
    _locked(MemoryNode.node_id == any_(_IDS), _OTHERWISE),
    poignancy=bindparam("importance"),
    provenance=MemoryNode.provenance.op("||")(cast({"rated": True}, JSONB)),  # so that an export has it
)
_ARCHIVED = select(MemoryNode.node_id).where(
    _OF_GROUP,
    MemoryNode.archived_at.is_not(None),
    or_(
        MemoryNode.node_id == any_(_IDS),
        and_(func.cardinality(_IDS) == 0, MemoryNode.agent_id == bindparam("agent")),
    ),
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
