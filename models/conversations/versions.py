"""Newer versions of memories: a memory is not changed, another one supersedes it, and both are dated."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, text

from jiyi.errors import InvalidRequest, NotFound
from jiyi.protocol import events as wire
from jiyi.protocol.events import Event
from jiyi.protocol.recall import Updated, UpdateMemory
from models.memory.agents.agents import lock_agents
from models.memory.ingestion.inbox import Stored, store
from models.memory.reads import StoredMemory, node

#: Under this name a version tells, among its provenance, which one it replaced.
REPLACES = "replaces"
#: Fields of a memory that say the same of its next version, unless told otherwise.
KEPT = ("poignancy", "expires_at", "kind", "uri")
#: Fields that say what the description says: of another description they are found out anew.
DERIVED = ("keywords", "subject", "predicate", "object", "embedding_key")


def update(connection: Connection, group_id: str, request: UpdateMemory, now: datetime) -> tuple[Updated, Stored]:
    """Store the newer version and date the older one, under the agent's lock. Once: the same ``event_id`` changes nothing more.

    Raises:
        NotFound: there is no such memory.
        InvalidRequest: it is something that was said, or is no longer in force.
    """
    known = _memory(connection, group_id, request.node_id)
    lock_agents(connection, [(group_id, known.agent_id)])
    old = _memory(connection, group_id, request.node_id)  # as it is now that nobody else changes it
    if old.superseded_by == request.event_id and old.superseded_at is not None:
        return Updated(node_id=request.event_id, supersedes=old.node_id, superseded_at=old.superseded_at), Stored()
    if old.type == "chat" or old.kind == "session":
        raise InvalidRequest([f"node_id: {old.node_id} is what was said in a conversation, which no update changes: observe what is so"])
    if old.superseded_at is not None:
        by = "a memory that was erased" if old.superseded_by is None else old.superseded_by
        raise InvalidRequest([f"node_id: {old.node_id} is superseded by {by}: update the version in force"])
    event = _next_version(group_id, old, request, now)
    dates = {"group": group_id, "id": old.node_id, "at": event.occurred_at}
    connection.execute(_SUPERSEDE, {**dates, "by": event.event_id})  # first: it is no twin of the newer one
    stored = store(connection, [event])
    if stored.reused:
        raise InvalidRequest([f"event_id: {request.event_id} is another event's; leave it out, or choose another"])
    in_force = connection.execute(_BECAME, {"group": group_id, "id": event.event_id}).scalar_one()
    if in_force != event.event_id:  # the agent remembers each content once, and had this one
        connection.execute(_SUPERSEDE, {**dates, "by": in_force})
    return Updated(node_id=in_force, supersedes=old.node_id, superseded_at=event.occurred_at), stored


def _memory(connection: Connection, group_id: str, node_id: UUID) -> StoredMemory:
    found = node(connection, StoredMemory, group_id, node_id)
    if found is None:
        raise NotFound(f"node_id: the group {group_id!r} has no memory {node_id}")
    return found


def _next_version(group_id: str, old: StoredMemory, request: UpdateMemory, now: datetime) -> Event:
    """What the older version said, with what is given; whatever is known of its importance brings no reflection nearer again."""
    given = request.model_dump(exclude_unset=True, exclude={"node_id", "event_id", "occurred_at"})
    kept = {name: getattr(old, name) for name in (*KEPT, *(() if request.description else DERIVED))}
    if old.kind is not None:  # what is known of somebody is one thing however it is put: which one, these two say
        kept |= {"subject": old.subject, "predicate": old.predicate}
    payload: dict[str, Any] = {
        "description": old.description,
        "node_type": old.type,
        "evidence": old.filling if old.type == "thought" else [],
        "historic": old.poignancy is not None,
        **{name: value for name, value in (kept | given).items() if value is not None},
        "provenance": {**(old.provenance if request.provenance is None else request.provenance), REPLACES: str(old.node_id)},
    }
    envelope = {"event_id": request.event_id, "occurred_at": request.occurred_at or now, "session_id": old.session_id}
    return wire.build({"type": "memory.observed", "group_id": group_id, "agent_id": old.agent_id, **envelope, "payload": payload})


_SUPERSEDE = text("""
    UPDATE memory_nodes SET superseded_by = :by, superseded_at = :at, changed_xid = pg_current_xact_id()
    WHERE group_id = :group AND node_id = :id
""")
_BECAME = text("SELECT node_id FROM events WHERE group_id = :group AND event_id = :id")
