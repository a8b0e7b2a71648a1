"""Experiences (a problem, what was done, how that ended): one row and current memory for each problem."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Row, and_, bindparam, select, text, tuple_

from engine.conversations.memories import (
    ExtractionSource,
    StoredExperience,
    experience_event,
    experience_of,
    merge_experience,
    pattern_hash,
    said_at,
    text_of,
)
from engine.memory import MemorySource, content_key, source_of_llm
from engine.memory import MemorySource as Origin
from jiyi.errors import InvalidRequest, NotFound
from jiyi.protocol.base import (
    BY_ID,
    NOT_OF_THIS_LIST,
    ById,
    ByIdForUser,
    Count,
    JsonMapping,
    Rows,
    Visibility,
)
from jiyi.protocol.conversations import ExtractedExperience
from jiyi.protocol.erasure import Erasure
from jiyi.protocol.events import MemoryObserved
from jiyi.protocol.experiences import Experience, ListExperiences, TellExperience, UpdateExperience
from jiyi.protocol.experiences import Experience as ExperienceState
from jiyi.protocol.origins import DEFAULT_ORIGIN, STANDING_TRUST
from jiyi.protocol.recall import UpdateMemory
from models.conversations import follow_ups, versions
from models.conversations.actions import erase
from models.conversations.follow_ups import ExtractionCounts
from models.conversations.tables import ExperienceRow
from models.conversations.versions import REPLACES
from models.db.actions import Context, action, by_worker
from models.db.rows import columns, equal_if_given, fetch, has_words, page, upsert
from models.memory.agents import AgentName, bind_name, lock_agents
from models.memory.event_types import StoredBatch, after_events
from models.memory.inbox import StoreResult, store
from models.memory.tables import MemoryNode

#: Where one comes from that nobody says more of.
DEFAULT = Origin(DEFAULT_ORIGIN)
_E = ExperienceRow
_OF_AGENT = (_E.group_id == bindparam("group"), _E.agent_id == bindparam("agent"))
_FIELDS = columns(StoredExperience, _E)
_FIND = select(_E.node_id, _E.created_at, *_FIELDS).where(*_OF_AGENT)
_BY_PROBLEM = _FIND.where(_E.pattern_hash == bindparam("hash")).with_for_update()
_BY_NODE = _FIND.where(_E.node_id == bindparam("id")).with_for_update()
_MOST_USED = (
    select(*_FIELDS)
    .join(MemoryNode, and_(MemoryNode.group_id == _E.group_id, MemoryNode.node_id == _E.node_id))
    .where(*_OF_AGENT, MemoryNode.trust >= STANDING_TRUST)
    .order_by(_E.reuse_count.desc(), _E.updated_at.desc())
    .limit(bindparam("limit"))
)
_SHOWN = select(*columns(ExperienceState, _E, id=_E.node_id)).where(_E.group_id == bindparam("group"))
_SAVE = upsert(_E, "node_id", "created_at", "updated_at", *StoredExperience.model_fields)
_MEMORY = (MemoryNode.group_id == bindparam("group"), MemoryNode.agent_id == bindparam("agent"))
_AT = (
    select(MemoryNode.node_id)
    .where(*_MEMORY, MemoryNode.uri == bindparam("uri"), MemoryNode.content_hash == bindparam("key"))
    .where(MemoryNode.superseded_at.is_(None))
    .limit(1)
)
_USER = select(MemoryNode.user_id).where(*_MEMORY, MemoryNode.node_id == bindparam("id"))
_KNOWN = select(MemoryNode.filling, MemoryNode.visibility).where(
    *_MEMORY, MemoryNode.node_id == bindparam("id")
)


def keep(
    connection: Connection,
    name: AgentName,
    incoming: ExtractedExperience | StoredExperience,
    *,
    evidence: Sequence[UUID],
    at: datetime,
    provenance: JsonMapping,
    now: datetime,
    user_id: str | None = None,
    visibility: Visibility | None = None,
    source: Origin = DEFAULT,
) -> StoreResult:
    """Store it, or merge it with what is known of the user's problem; the memory that said less is
    superseded.

    Merged, it is visible to other users only if both are. Call it under the agent's lock.
    """
    row = find(connection, name, incoming.pain_pattern, user_id)
    experience = merge_experience(None if row is None else _stored(row), incoming)
    before, shared = ([], visibility) if row is None else _known(connection, name, row.node_id)
    merged_visibility = visibility if shared == visibility else None
    event = experience_event(
        experience,
        name,
        list(dict.fromkeys([*before, *evidence])),
        at,
        provenance,
        user_id,
        merged_visibility,
    )
    there = {"uri": event.payload.uri, "key": content_key(event.payload.description, user_id, source.origin)}
    node_id = connection.execute(_AT, bind_name(name) | there).scalar_one_or_none() or event.event_id
    created_at = now if row is None else row.created_at
    # First, because it says where it came from.
    save(connection, name, node_id, experience, created_at, now, user_id)
    result = store(connection, [event], source=source)
    if row is not None:
        _supersede(connection, name, row.node_id, node_id)
    return result


def keep_extracted(
    connection: Connection,
    name: AgentName,
    experience: ExtractedExperience,
    source: ExtractionSource,
    now: datetime,
) -> StoreResult:
    turns = sorted(set(experience.turns))
    provenance = {"session": source.session_id, "llm": source.llm, "prompt": source.prompt}
    return keep(
        connection,
        name,
        experience,
        evidence=source.evidence(turns),
        at=said_at(source.messages, turns),
        provenance=provenance,
        now=now,
        user_id=source.user_id,
        source=source_of_llm(source.llm),
    )


@after_events
def keep_observed(batch: StoredBatch) -> None:
    """Give memories of experiences that did not come by :func:`keep` (observed, imported, corrected) their
    rows.
    """
    observed = [event for event in batch.of_type(MemoryObserved) if event.payload.kind == "experience"]
    new = {(group_id, node_id) for group_id, _, node_id in batch.nodes} if observed else set()
    for event in observed:
        name = (event.group_id, event.agent_id)
        is_new = (event.group_id, event.event_id) in new
        if not is_new or _of_node(batch.connection, name, event.event_id) is not None:
            continue
        _observed(batch.connection, name, event)
        counts = ExtractionCounts(name, batch.agents[name].agent_key, turns=0, memories=1, experiences=1)
        follow_ups.extracted(batch.connection, counts)


def _observed(connection: Connection, name: AgentName, event: MemoryObserved) -> None:
    """A corrected one replaces what its older version said; one of a known problem is merged with that."""
    now, older, user_id = datetime.now(UTC), event.payload.provenance.get(REPLACES), event.payload.user_id
    replaced = None if older is None else _of_node(connection, name, UUID(str(older)))
    before = None if replaced is None else _stored(replaced)
    experience = experience_of(event.payload.description, event.payload.provenance, before)
    existing = find(connection, name, experience.pain_pattern, user_id)
    if replaced is not None and (existing is None or existing.node_id == replaced.node_id):
        _remove(connection, name, replaced.node_id)
        save(connection, name, event.event_id, experience, replaced.created_at, now, user_id)
    elif existing is None:
        save(connection, name, event.event_id, experience, now, now, user_id)
    else:
        if replaced is not None:
            _remove(connection, name, replaced.node_id)
        keep(
            connection,
            name,
            experience,
            evidence=[event.event_id],
            at=event.occurred_at,
            provenance=event.payload.provenance,
            now=now,
            user_id=user_id,
            visibility=event.payload.visibility,
            source=Origin(event.payload.origin or DEFAULT.origin),
        )
        row = find(connection, name, experience.pain_pattern, user_id)
        assert row is not None, "keep() has saved it"
        _supersede(connection, name, event.event_id, row.node_id)


def save(
    connection: Connection,
    name: AgentName,
    node_id: UUID,
    experience: StoredExperience,
    created_at: datetime,
    updated_at: datetime,
    user_id: str | None = None,
) -> None:
    """Save the row of a user's problem, whose current memory is ``node_id``."""
    key = pattern_hash(experience.pain_pattern, user_id)
    whose = {"group_id": name[0], "agent_id": name[1], "pattern_hash": key, "node_id": node_id}
    dates = {"created_at": created_at, "updated_at": updated_at}
    connection.execute(_SAVE, {**whose, **experience.model_dump(), **dates})


def rename(
    connection: Connection, name: AgentName, node_id: UUID, experience: StoredExperience, now: datetime
) -> None:
    """What the experience of a memory says from now on, its problem too."""
    row = _of_node(connection, name, node_id)
    assert row is not None, "under the agent's lock it stays"
    _remove(connection, name, node_id)
    save(connection, name, node_id, experience, row.created_at, now, user_of(connection, name, node_id))


def user_of(connection: Connection, name: AgentName, node_id: UUID) -> str | None:
    user_id: str | None = connection.execute(_USER, bind_name(name) | {"id": node_id}).scalar_one_or_none()
    return user_id


def find(
    connection: Connection, name: AgentName, problem: str, user_id: str | None = None
) -> Row[Any] | None:
    """The experience of a user's problem, locked."""
    key = pattern_hash(problem, user_id)
    return connection.execute(_BY_PROBLEM, bind_name(name) | {"hash": key}).one_or_none()


def most_used(connection: Connection, name: AgentName, limit: int) -> list[StoredExperience]:
    """The agent's experiences that are trusted enough for advice, the most used first."""
    return [_stored(row) for row in connection.execute(_MOST_USED, bind_name(name) | {"limit": limit})]


def shown(connection: Connection, group_id: str, node_ids: Sequence[UUID]) -> list[ExperienceState]:
    """The experiences of these memories, in the order given."""
    rows = fetch(connection, ExperienceState, _SHOWN.where(_E.node_id.in_(node_ids)), group=group_id)
    by_id = {row.id: row for row in rows}
    return [by_id[node_id] for node_id in node_ids if node_id in by_id]


def versions_of(connection: Connection, group_id: str, node_id: UUID) -> list[UUID]:
    """The current memory with those that it superseded, and those that these superseded in turn."""
    return list(connection.execute(_VERSIONS, {"group": group_id, "id": node_id}).scalars())


def current_of(connection: Connection, group_id: str, node_id: UUID) -> UUID:
    """The current version of the experience of which a memory is a version; itself if there is none."""
    current_id: UUID | None = connection.execute(
        _CURRENT, {"group": group_id, "id": node_id}
    ).scalar_one_or_none()
    return current_id or node_id


def _stored(row: Row[Any]) -> StoredExperience:
    return StoredExperience.model_validate(row, from_attributes=True)


def _of_node(connection: Connection, name: AgentName, node_id: UUID) -> Row[Any] | None:
    return connection.execute(_BY_NODE, bind_name(name) | {"id": node_id}).one_or_none()


def _known(connection: Connection, name: AgentName, node_id: UUID) -> tuple[list[UUID], Visibility | None]:
    """What a memory rests on (the turns it was extracted from, else itself), and its visibility."""
    row = connection.execute(_KNOWN, bind_name(name) | {"id": node_id}).one_or_none()
    return ([], None) if row is None else ([UUID(turn) for turn in row.filling] or [node_id], row.visibility)


def _supersede(connection: Connection, name: AgentName, older: UUID, newer: UUID) -> None:
    if older != newer:
        connection.execute(_SUPERSEDE, bind_name(name) | {"older": older, "newer": newer})


def _remove(connection: Connection, name: AgentName, node_id: UUID) -> None:
    connection.execute(_REMOVE, bind_name(name) | {"id": node_id})


_SUPERSEDE = text("""
    UPDATE memory_nodes o
    SET superseded_by = n.node_id, superseded_at = n.created_at, changed_xid = pg_current_xact_id()
    FROM memory_nodes n WHERE o.group_id = :group AND o.agent_id = :agent AND o.node_id = :older
      AND o.superseded_at IS NULL AND n.group_id = o.group_id AND n.node_id = :newer
""")
_VERSIONS = text("""
    WITH RECURSIVE versions AS (
        SELECT CAST(:id AS uuid) AS node_id
        UNION SELECT n.node_id FROM versions v JOIN memory_nodes n
            ON n.group_id = :group AND n.superseded_by = v.node_id AND n.kind = 'experience'
    ) SELECT node_id FROM versions LIMIT 1000
""")
_CURRENT = text("""
    WITH RECURSIVE later AS (
        SELECT node_id, superseded_by FROM memory_nodes
        WHERE group_id = :group AND node_id = :id AND kind = 'experience'
        UNION SELECT n.node_id, n.superseded_by FROM later l JOIN memory_nodes n
            ON n.group_id = :group AND n.node_id = l.superseded_by AND n.kind = 'experience'
    ) SELECT node_id FROM later WHERE superseded_by IS NULL LIMIT 1
""")
_REMOVE = text("DELETE FROM experiences WHERE group_id = :group AND agent_id = :agent AND node_id = :id")


find_experiences = by_worker("experiences.find")


@action("experiences.list")
def list_experiences(context: Context, request: ListExperiences) -> Rows[Experience]:
    """List an agent's experiences.

    The newest first, each with the problem, what was done, how it ended and how often it was used since.
    """
    connection, group_id = context.connection, context.group_id
    statement = _SHOWN.where(
        _E.agent_id == request.agent_id, *has_words(_E.pain_pattern, request.words or "")
    )
    statement = statement.where(*equal_if_given((_E.outcome, request.outcome)))
    if (after := request.place(BY_ID)) is not None:
        last = next(iter(shown(connection, group_id, [after])), None)
        if last is None:
            raise InvalidRequest([NOT_OF_THIS_LIST])
        statement = statement.where(tuple_(_E.created_at, _E.node_id) < (last.created_at, last.id))
    newest = statement.order_by(_E.created_at.desc(), _E.node_id.desc()).limit(request.limit + 1)
    rows = fetch(connection, ExperienceState, newest, group=group_id)
    return page(rows, request.limit, lambda last: last.id)


@action("experiences.get")
def get_experience(context: Context, request: ByIdForUser) -> Experience:
    """Get an experience.

    By the id of its current memory.
    """
    return _existing(context, request.id)


@action("experiences.store")
def store_experience(context: Context, request: TellExperience) -> Experience:
    """Store an experience: a problem, what was done about it, how that ended.

    Of a problem that is known it is merged with what is known: all steps of both, the better outcome; and it
    counts as used again.
    """
    name, now = (context.group_id, request.agent_id), datetime.now(UTC)
    agent = lock_agents(context.connection, [name])[name]
    experience = StoredExperience(**request.model_dump(exclude={"agent_id", "user_id"}))
    result = keep(
        context.connection,
        name,
        experience,
        evidence=[],
        at=now,
        provenance={"told_by": context.actor.name},
        now=now,
        user_id=request.user_id,
        source=MemorySource("operator") if context.actor.is_person else DEFAULT,
    )
    row = find(context.connection, name, experience.pain_pattern, request.user_id)
    assert row is not None, "it was stored in this transaction"
    context.audit(str(row.node_id), agent=request.agent_id, uses=row.reuse_count)
    grown = ExtractionCounts(name, agent.agent_key, turns=0, memories=len(result.nodes), experiences=1)
    follow_ups.extracted(context.connection, grown)
    return _existing(context, row.node_id)


@action("experiences.update")
def update_experience(context: Context, request: UpdateExperience) -> Experience:
    """Change what an experience says.

    Its memory gets a newer version, as by memory.update; its number of uses stays. A problem that another
    experience has is refused.
    """
    connection, now = context.connection, datetime.now(UTC)
    name = (context.group_id, _existing(context, request.id).agent_id)
    lock_agents(connection, [name])
    old = _existing(context, request.id)
    previous = StoredExperience(**old.model_dump(include=set(StoredExperience.model_fields)))
    new = StoredExperience(**previous.model_dump() | request.changes)
    user_id = user_of(connection, name, old.id)
    other = find(connection, name, new.pain_pattern, user_id)
    if other is not None and other.node_id != old.id:
        why = f"is the problem of the experience {other.node_id}; update that one, or delete it first"
        raise InvalidRequest([f"pain_pattern: {why}"])
    node_id = old.id
    if (description := text_of(new)) != text_of(previous):
        changed = UpdateMemory(id=old.id, description=description)
        node_id = versions.update(connection, context.group_id, changed, now).node_id
    rename(connection, name, node_id, new, now)
    context.audit(str(old.id), node_id=node_id, fields=sorted(request.changes))
    return _existing(context, node_id)


@action("experiences.delete")
def delete_experience(context: Context, request: ById) -> Count:
    """Erase an experience with all its versions, whichever of them the id is of.

    For good, with what was concluded from it; a job does it. The turns that say it stay. Nothing happens if
    there is none of that id.
    """
    current = current_of(context.connection, context.group_id, request.id)
    existing = shown(context.connection, context.group_id, [current])
    ids = versions_of(context.connection, context.group_id, current) if existing else []
    return erase(context, Erasure(node_ids=ids) if ids else None, len(ids), str(request.id))


def _existing(context: Context, node_id: UUID) -> Experience:
    existing = shown(context.connection, context.group_id, [node_id])
    if not existing:
        current = current_of(context.connection, context.group_id, node_id)
        gone = current == node_id
        newer = "experiences.list has those there are" if gone else f"{current} has taken its place"
        raise NotFound(f"id: the group {context.group_id!r} has no current experience {node_id}; {newer}")
    return existing[0]
