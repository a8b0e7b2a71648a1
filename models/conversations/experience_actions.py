"""Actions on experiences: store, list, get, find, update and delete them."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

from engine.conversations.memories import StoredExperience, text_of
from engine.memory import MemorySource
from jiyi.errors import InvalidRequest, NotFound
from jiyi.protocol.base import ById, ByIdForUser, Count, Rows
from jiyi.protocol.erasure import Erasure
from jiyi.protocol.experiences import Experience, ListExperiences, TellExperience, UpdateExperience
from jiyi.protocol.recall import UpdateMemory
from models.conversations import experiences, follow_ups, versions
from models.conversations.actions import erase
from models.conversations.follow_ups import ExtractionCounts
from models.db.actions import Context, action, by_worker
from models.db.rows import page
from models.memory.agents import lock_agents

find_experiences = by_worker("experiences.find")


@action("experiences.list")
def list_experiences(context: Context, request: ListExperiences) -> Rows[Experience]:
    """List an agent's experiences.

    The newest first, each with the problem, what was done, how it ended and how often it was used since.
    """
    rows = experiences.page(context.connection, context.group_id, request)
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
    result = experiences.keep(
        context.connection,
        name,
        experience,
        evidence=[],
        at=now,
        provenance={"told_by": context.actor.name},
        now=now,
        user_id=request.user_id,
        source=MemorySource("operator") if context.actor.is_person else experiences.DEFAULT,
    )
    row = experiences.find(context.connection, name, experience.pain_pattern, request.user_id)
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
    user_id = experiences.user_of(connection, name, old.id)
    other = experiences.find(connection, name, new.pain_pattern, user_id)
    if other is not None and other.node_id != old.id:
        why = f"is the problem of the experience {other.node_id}; update that one, or delete it first"
        raise InvalidRequest([f"pain_pattern: {why}"])
    node_id = old.id
    if (description := text_of(new)) != text_of(previous):
        changed = UpdateMemory(id=old.id, description=description)
        node_id = versions.update(connection, context.group_id, changed, now).node_id
    experiences.rename(connection, name, node_id, new, now)
    context.audit(str(old.id), node_id=node_id, fields=sorted(request.changes))
    return _existing(context, node_id)


@action("experiences.delete")
def delete_experience(context: Context, request: ById) -> Count:
    """Erase an experience with all its versions, whichever of them the id is of.

    For good, with what was concluded from it; a job does it. The turns that say it stay. Nothing happens if
    there is none of that id.
    """
    current = experiences.current_of(context.connection, context.group_id, request.id)
    existing = experiences.shown(context.connection, context.group_id, [current])
    ids = experiences.versions_of(context.connection, context.group_id, current) if existing else []
    return erase(context, Erasure(node_ids=ids) if ids else None, len(ids), str(request.id))


def _existing(context: Context, node_id: UUID) -> Experience:
    existing = experiences.shown(context.connection, context.group_id, [node_id])
    if not existing:
        current = experiences.current_of(context.connection, context.group_id, node_id)
        gone = current == node_id
        newer = "experiences.list has those there are" if gone else f"{current} has taken its place"
        raise NotFound(f"id: the group {context.group_id!r} has no current experience {node_id}; {newer}")
    return existing[0]
