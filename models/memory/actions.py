"""What can be done with memories and agents: configure an agent, archive memories and bring them back."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import redis
from uuid6 import uuid7

from jiyi.errors import InvalidRequest, NotFound
from jiyi.protocol import events as wire
from jiyi.protocol.events import AgentConfigured, Configuration
from jiyi.protocol.memory import MAX_RESTORED, AgentState, Archived, ArchiveRequest, ConfigureAgent, Restored, RestoreRequest
from jiyi.protocol.recall import AddedMemory, AddMemory, Updated, UpdateMemory
from models.conversations import versions
from models.db.actions import Context, action
from models.memory import archive as archiving
from models.memory import inbox
from models.memory.agent_reads import agent
from models.memory.agents import no_agent
from models.memory.reads import brief_nodes
from models.retrieval import touches


@action("agents.configure")
def configure(context: Context, request: ConfigureAgent) -> AgentState:
    """Set an agent's settings.

    Settings that are given replace the agent's own; null takes one back to the deployment's. Stored as an
    agent.configured event, so that exports have it. An agent that is not there yet is made by posting such an event.
    """
    connection, group_id, agent_id = context.connection, context.group_id, request.agent_id
    before = agent(connection, group_id, agent_id)
    if before is None:
        raise no_agent(group_id, agent_id)
    given = request.settings().model_dump(mode="json", exclude_unset=True)
    if not given:
        return before
    payload = Configuration.model_validate(given)
    event = AgentConfigured(event_id=uuid7(), group_id=group_id, agent_id=agent_id, payload=payload)
    stored = inbox.store(connection, [event])
    context.wake(*stored.owed)
    context.audit(agent_id, settings=given, event_id=event.event_id)
    context.after_commit(lambda: inbox.announce(stored))
    after = agent(connection, group_id, agent_id)
    assert after is not None  # locked by this transaction
    return after


@action("memory.add")
def add_memory(context: Context, request: AddMemory) -> AddedMemory:
    """Add a memory.

    One statement, by hand; programs publish events instead. An agent that is not there yet begins with it.
    """
    payload = request.model_dump(include={"description", "poignancy"}, exclude_none=True)
    envelope = {"event_id": request.event_id, "group_id": context.group_id, "agent_id": request.agent_id}
    stored = inbox.store(context.connection, [wire.build({"type": "memory.observed", **envelope, "payload": payload})])
    if stored.reused:
        raise InvalidRequest([f"event_id: {request.event_id} is another event's; leave it out, or choose another"])
    context.wake(*stored.owed)
    context.audit(request.agent_id, node_id=str(request.event_id))
    context.after_commit(lambda: inbox.announce(stored))
    return AddedMemory(node_id=request.event_id)


@action("memory.update")
def update_memory(context: Context, request: UpdateMemory) -> Updated:
    """Correct a memory.

    A new version supersedes it: from now on that one is found, and the older one, with the date at which it ended, only when
    superseded memories are asked for. What is not given stays as it was. What was said in a conversation cannot be changed.
    """
    done, stored = versions.update(context.connection, context.group_id, request, datetime.now(UTC))
    context.wake(*stored.owed)
    context.audit(str(done.supersedes), node_id=done.node_id, fields=sorted(request.model_fields_set - {"node_id"}))
    context.after_commit(lambda: inbox.announce(stored))
    return done


@action("archive.archive")
def archive(context: Context, request: ArchiveRequest) -> Archived:
    """Archive memories: they are found only when they are asked for.

    All or nothing. What is archived already stays as it is.
    """
    known = {row.node_id for row in brief_nodes(context.connection, context.group_id, request.node_ids)}
    missing = [str(node_id) for node_id in request.node_ids if node_id not in known]
    if missing:
        raise NotFound(f"node_ids: the group {context.group_id!r} has no memory {', '.join(missing[:3])}")
    archived = archiving.archive_chosen(context.connection, context.group_id, request.node_ids)
    _audit(context, archived, reason="chosen")
    return Archived(archived=sum(map(len, archived.values())))


@action("archive.restore")
def restore(context: Context, request: RestoreRequest) -> Restored:
    """Bring archived memories back: those named, or up to a thousand of an agent.

    It counts as an access, and takes an expiry that has passed away. What is not archived stays as it is.
    """
    group_id, now = context.group_id, datetime.now(UTC)
    restored = archiving.restore(context.connection, group_id, request.agent_id, request.node_ids, now, MAX_RESTORED)
    _audit(context, {agent_id: ids for agent_id, (_, ids) in restored.items()})

    def tell() -> None:
        with suppress(redis.RedisError):  # Valkey is away: the retrieval workers find it in the database, later
            for agent_id, (at, ids) in restored.items():
                touches.tell(group_id, agent_id, ids, at.timestamp())

    context.after_commit(tell)
    counts = {agent_id: len(ids) for agent_id, (_, ids) in restored.items()}
    return Restored(restored=sum(counts.values()), agents=counts)


def _audit(context: Context, found: Mapping[str, list[UUID]], **details: Any) -> None:
    """One row for the memories of all agents."""
    if found:
        ids = [node_id for of_agent in found.values() for node_id in of_agent]
        context.audit(", ".join(sorted(found)), count=len(ids), node_ids=ids, **details)
