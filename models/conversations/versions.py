"""Newer versions of memories: a memory is not changed, another one supersedes it, and both are dated."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, bindparam, text
from sqlalchemy.dialects.postgresql import JSONB

from engine.conversations.marks import ENDS, MARKS, marks_of
from engine.heads.judgements import said_of
from engine.memory import MemorySource
from engine.text.keywords import keywords_of
from jiyi.errors import Conflict, InvalidRequest, NotFound
from jiyi.protocol import events as wire
from jiyi.protocol.base import BY_ID, OfAgents, Rows
from jiyi.protocol.events import Event
from jiyi.protocol.memory import Memory
from jiyi.protocol.recall import Mistake, ReinstateMemory, Updated, UpdateMemory
from jiyi.text.words import language_of
from models.conversations import standing
from models.db.rows import page
from models.memory.agents import lock_agents
from models.memory.inbox import store
from models.memory.reads import node

#: Key of a version's provenance: the version that it replaced.
REPLACES = "replaces"
#: Under this name a memory lists the earlier versions of its evidence, which it was derived from.
RESTED_ON = "rested_on"
#: Under this name a memory lists the supersessions of it that were mistakes.
REINSTATED = "reinstated"
#: Fields of a memory that its next version keeps unless the request gives others.
KEPT = ("poignancy", "expires_at", "kind", "uri", "user_id", "visibility")
#: Parts of the triple: each is kept unless the new description no longer has the words that the old one had.
TRIPLE = ("subject", "predicate", "object")
#: Fields that are made from the description: made again when it changes.
DERIVED = ("embedding_key", "abstract", "overview")


def update(connection: Connection, group_id: str, request: UpdateMemory, now: datetime) -> Updated:
    """Store the newer version and date the older one, under the agent's lock. The same ``event_id`` again
    changes nothing.

    Raises:
        NotFound: there is no such memory.
        InvalidRequest: it was said in a conversation, is no longer current, or does not come from the user
        for whom it is updated.
    """
    memory = _memory(connection, group_id, request.id)
    lock_agents(connection, [(group_id, memory.agent_id)])
    old = _memory(connection, group_id, request.id)  # read again, now that nobody else changes it
    if old.superseded_by == request.event_id and old.superseded_at is not None:
        return Updated(node_id=request.event_id, supersedes=old.node_id, superseded_at=old.superseded_at)
    if request.user_id not in (None, old.user_id):
        why = f"{old.node_id} does not come from {request.user_id!r}, who may only read it"
        raise InvalidRequest([f"user_id: {why}"])
    if old.type == "chat" or old.kind == "session":
        why = f"{old.node_id} is what was said in a conversation, which no update changes: observe what is so"
        raise InvalidRequest([f"id: {why}"])
    if old.superseded_at is not None:
        by = "a memory that was erased" if old.superseded_by is None else old.superseded_by
        raise InvalidRequest([f"id: {old.node_id} is superseded by {by}: update the current version"])
    event = _next_version(group_id, old, request)
    dates = {"group": group_id, "id": old.node_id, "at": request.occurred_at or now}
    connection.execute(_SUPERSEDE, {**dates, "by": event.event_id})  # first: it is no twin of the newer one
    # A correction makes nothing more trusted.
    if store(connection, [event], source=MemorySource(old.origin, old.trust)).reused:
        why = f"{request.event_id} is another event's; leave it out, or choose another"
        raise InvalidRequest([f"event_id: {why}"])
    current_id = connection.execute(_BECAME, {"group": group_id, "id": event.event_id}).scalar_one()
    pair = {"group": group_id, "agent": old.agent_id, "old": str(old.node_id), "new": str(current_id)}
    if current_id == event.event_id:
        connection.execute(_KEEP_ACCESSES, pair)
    else:  # the agent remembers each content once, and had this one
        connection.execute(_SUPERSEDE, {**dates, "by": current_id})
    connection.execute(_REST_ON_NEWER, pair)
    return Updated(node_id=current_id, supersedes=old.node_id, superseded_at=dates["at"])


def reinstate(connection: Connection, group_id: str, request: ReinstateMemory, now: datetime) -> Updated:
    """Reinstate a superseded memory, under its agent's lock.

    Raises:
        NotFound: there is no such memory; says so if it was erased.
        InvalidRequest: it does not come from the user of the request.
        Conflict: it is current, or being erased, or another current one says the same.
    """
    memory = _memory(connection, group_id, request.id)
    lock_agents(connection, [(group_id, memory.agent_id)])
    old = _memory(connection, group_id, request.id)
    if request.user_id not in (None, old.user_id):
        raise InvalidRequest([f"user_id: {old.node_id} does not come from {request.user_id!r}"])
    whose = {"group": group_id, "id": old.node_id}
    if connection.execute(_ERASING, whose | {"listed": [str(old.node_id)]}).scalar_one():
        raise Conflict(f"id: {old.node_id} is being erased and cannot be reinstated")
    twin = connection.execute(_TWIN, whose).scalar_one_or_none()
    if twin is not None:
        raise Conflict(f"id: {twin} says the same and is current: {old.node_id} is not needed beside it")
    marks = [mark for mark in marks_of(old.provenance) if mark.why in ENDS]
    if old.superseded_at is None and not marks:
        raise Conflict(f"id: {old.node_id} is current: there is nothing to reinstate")
    by = old.superseded_by or next((UUID(mark.by) for mark in marks if mark.by is not None), None)
    mistake = {"by": None if by is None else str(by), "at": now.isoformat(), "reason": request.reason}
    note = {
        REINSTATED: [*old.provenance.get(REINSTATED, []), mistake],
        MARKS: [mark.json() for mark in marks_of(old.provenance) if mark not in marks],
    }
    connection.execute(_REINSTATE, whose | {"note": note})
    if old.kind != "session":
        standing.reinstate(connection, (group_id, old.agent_id), old.node_id)
    return Updated(node_id=old.node_id, superseded_by=by)


def mistakes(connection: Connection, group_id: str, request: OfAgents) -> Rows[Mistake]:
    """Memories that were superseded by mistake, each with what had superseded it, as rows to train on."""
    whose = {"group": group_id, "agent": request.agent_id, "user": request.user_id}
    place = {"after": request.place(BY_ID), "limit": request.limit + 1}
    pairs = connection.execute(_MISTAKES, {**whose, **place}).all()
    rows = [
        Mistake(
            id=row.node_id,
            language=language_of(row.older),
            older=said_of(row.older),
            newer=said_of(row.newer),
            label="adds" if row.same_attribute else "unrelated",
        )
        for row in pairs
    ]
    return page(rows, request.limit, lambda last: last.id)


def _memory(connection: Connection, group_id: str, node_id: UUID) -> Memory:
    memory = node(connection, group_id, node_id)
    if memory is None:
        if connection.execute(_ERASED, {"group": group_id, "id": node_id}).first() is not None:
            raise NotFound(f"id: {node_id} was erased for good and cannot be reinstated")
        raise NotFound(f"id: the group {group_id!r} has no memory {node_id}")
    return memory


def _next_version(group_id: str, old: Memory, request: UpdateMemory) -> Event:
    """The older version with the changes that are given; when it happened and what it rests on stay.

    A known importance does not count towards the next reflection a second time.
    """
    changes = request.model_dump(
        exclude_unset=True, exclude={"node_id", "user_id", "event_id", "occurred_at"}
    )
    old_values = {name: getattr(old, name) for name in KEPT}
    old_values |= _still_true(old, request.description or old.description)
    if old.kind is not None:  # its subject and attribute do not depend on the words
        old_values |= {"subject": old.subject, "predicate": old.predicate}
    payload: dict[str, Any] = {
        "description": old.description,
        "node_type": old.type,
        "evidence": old.filling,  # of a conversation it would be pairs, but those are not updated
        "historic": old.poignancy is not None,
        **{name: value for name, value in (old_values | changes).items() if value is not None},
        "provenance": _provenance(old, request),
    }
    envelope = {"event_id": request.event_id, "session_id": old.session_id}
    at = request.occurred_at or old.created_at
    return wire.made("memory.observed", (group_id, old.agent_id), at, payload, **envelope)


def _still_true(old: Memory, description: str) -> dict[str, Any]:
    """What of the older version holds of the new description; keywords None: to be made again."""
    if description == old.description:
        return {name: getattr(old, name) for name in (*TRIPLE, *DERIVED, "keywords")}
    before, after = old.description.casefold(), description.casefold()

    def holds(words: str) -> bool:
        return words.casefold() in after or words.casefold() not in before

    triple = {name: part for name in TRIPLE if (part := getattr(old, name)) is not None and holds(part)}
    derived = set(old.keywords) == set(keywords_of(old.description, old.subject, old.object))
    keywords = [] if derived else [keyword for keyword in old.keywords if holds(keyword)]
    return {**triple, "keywords": keywords or None}


def _provenance(old: Memory, request: UpdateMemory) -> dict[str, Any]:
    """Where it comes from, with the version that it replaces and what its evidence was before that."""
    provenance = old.provenance if request.provenance is None else request.provenance
    if request.description not in (None, old.description):  # marks are of the older words
        provenance = {name: value for name, value in provenance.items() if name != MARKS}
    rested = {RESTED_ON: old.provenance[RESTED_ON]} if RESTED_ON in old.provenance else {}
    return {**provenance, **rested, REPLACES: str(old.node_id)}


_ERASED = text("SELECT FROM events WHERE group_id = :group AND event_id = :id AND outcome = 'erased'")
_ERASING = text("""
    SELECT EXISTS (SELECT FROM erasing_ids WHERE group_id = :group AND subject_id = :id) OR EXISTS (
        SELECT FROM erasures
        WHERE group_id = :group AND state <> 'done' AND what #> '{asked,node_ids}' ?| :listed
    )
""")
_MISTAKES = text("""
    SELECT n.node_id, n.description AS older, m.description AS newer,
        coalesce(n.predicate = m.predicate, false) AS same_attribute
    FROM memory_nodes n
    JOIN memory_nodes m ON m.group_id = n.group_id AND m.node_id::text = n.provenance #>> '{reinstated,-1,by}'
    WHERE n.group_id = :group AND n.provenance ? 'reinstated'
      AND (CAST(:agent AS text) IS NULL OR n.agent_id = :agent)
      AND (CAST(:user AS text) IS NULL OR n.user_id = :user)
      AND (CAST(:after AS uuid) IS NULL OR n.node_id > :after)
    ORDER BY n.node_id LIMIT :limit
""")
_TWIN = text("""
    SELECT o.node_id FROM memory_nodes n JOIN memory_nodes o USING (group_id, agent_id, uri, content_hash)
    WHERE n.group_id = :group AND n.node_id = :id AND n.kind <> 'session' AND o.kind <> 'session'
      AND o.node_id <> n.node_id AND o.superseded_at IS NULL LIMIT 1
""")
_REINSTATE = text("""
    UPDATE memory_nodes SET superseded_by = NULL, superseded_at = NULL, provenance = provenance || :note,
        changed_xid = pg_current_xact_id()
    WHERE group_id = :group AND node_id = :id
""").bindparams(bindparam("note", type_=JSONB))
_SUPERSEDE = text("""
    UPDATE memory_nodes SET superseded_by = :by, superseded_at = :at, changed_xid = pg_current_xact_id()
    WHERE group_id = :group AND node_id = :id
""")
# That it was derived from the older version is kept, for an erasure of that.
_REST_ON_NEWER = text("""
    UPDATE memory_nodes SET changed_xid = pg_current_xact_id(),
        filling = (
            SELECT jsonb_agg(id ORDER BY place) FROM (
                SELECT CASE f.id WHEN :old THEN CAST(:new AS text) ELSE f.id END AS id, min(f.place) AS place
                FROM jsonb_array_elements_text(filling) WITH ORDINALITY AS f(id, place) GROUP BY 1
            ) AS evidence
        ),
        provenance = jsonb_set(provenance, '{rested_on}',
            coalesce(provenance -> 'rested_on', '[]') || to_jsonb(CAST(:old AS text)))
    WHERE group_id = :group AND agent_id = :agent AND type <> 'chat'
      AND filling @> to_jsonb(CAST(:old AS text)) AND node_id <> CAST(:new AS uuid)
""")
# Recency goes by accesses: a corrected memory is as near as it was.
_KEEP_ACCESSES = text("""
    UPDATE node_access n SET last_accessed = o.last_accessed, access_count = o.access_count, recent = o.recent
    FROM node_access o WHERE o.group_id = :group AND o.node_id = CAST(:old AS uuid)
      AND n.group_id = :group AND n.node_id = CAST(:new AS uuid)
""")
_BECAME = text("SELECT node_id FROM events WHERE group_id = :group AND event_id = :id")
