"""What can be done and asked about reflections: let an agent reflect, see how far it is, and why it thinks so."""

from __future__ import annotations

from jiyi.errors import NotFound
from jiyi.protocol.base import Rows
from jiyi.protocol.reflection import (
    Reasons,
    ReflectionAsked,
    ReflectionBrief,
    ReflectionQuery,
    ReflectionState,
    ReflectionsWanted,
    ReflectRequest,
    WhyQuery,
)
from models.db.actions import Context, action, read
from models.db.rows import page
from models.memory.agents import key_of, no_agent
from models.reflection import reads, reflections
from models.reflection.reflections import REFLECT


@action("reflection.request")
def request_reflection(context: Context, request: ReflectRequest) -> ReflectionAsked:
    """Let an agent reflect.

    The agent looks at its latest memories, asks itself what matters in them, and keeps its conclusions as thoughts that
    name their evidence. Answers at once with the reflection that is owed; one that is under way already is not
    begun twice. See get_reflection for what came of it.
    """
    agent_key = key_of(context.connection, context.group_id, request.agent_id)
    if agent_key is None:
        raise no_agent(context.group_id, request.agent_id)
    reflection_id = reflections.ask(context.connection, context.group_id, request.agent_id, "request")
    context.enqueue(REFLECT, [(agent_key, context.group_id)])
    context.audit(request.agent_id, reflection_id=reflection_id)
    return ReflectionAsked(reflection_id=reflection_id)


@action("reflection.get")
def get(context: Context, request: ReflectionQuery) -> ReflectionState:
    """Get one reflection.

    How far it is (owed, running, waiting, done, nothing, given up), and its thoughts, each with its evidence.
    """
    reflection = reads.reflection(context.connection, context.group_id, request.reflection_id)
    if reflection is None:
        raise NotFound(f"reflection_id: no reflection {request.reflection_id} in the group {context.group_id!r}")
    return reflection


@read(scope="read")
def list_reflections(context: Context, request: ReflectionsWanted) -> Rows[ReflectionBrief]:
    """List reflections.

    Newest first, page by page, with how many thoughts came of each.
    """
    wanted = {"agent_id": request.agent_id, "state": request.state, "trigger": None}
    rows = reads.reflections(context.connection, context.group_id, **wanted, before=request.before, limit=request.limit)
    return page(rows, request.limit, lambda last: (last.created_at, last.reflection_id))


@action("memory.why")
def why(context: Context, request: WhyQuery) -> Reasons:
    """Explain what a memory rests on.

    The memories that a thought was concluded from, and what those rest on, level by level, each once. Use it to check
    where a belief comes from before relying on it.
    """
    reasons = reads.why(context.connection, context.group_id, request.node_id, request.depth, request.limit)
    if request.node_id not in reasons.nodes:
        raise NotFound(f"node_id: no memory {request.node_id} in the group {context.group_id!r}")
    return reasons
