"""What can be asked about memories and agents over the broker: lists, page by page, and what became of events."""

from __future__ import annotations

from pydantic import TypeAdapter

from jiyi.errors import NotFound
from jiyi.protocol.base import Number, Page, Rows
from jiyi.protocol.event_requests import EventRequest, EventState, EventStates, EventStatesQuery, StatesBody, StoredEvent
from jiyi.protocol.memory import (
    AgentRequest,
    AgentsQuery,
    AgentState,
    ExportQuery,
    KeywordsQuery,
    KeywordStrength,
    Memory,
    Related,
    RelatedQuery,
)
from jiyi.protocol.recall import ListMemories, MemoryRequest
from jiyi.protocol.rest import decode_cursor, encode_cursor
from jiyi.protocol.wire.vectors import to_bytes, to_text
from models.db.actions import Context, action, by_worker, read
from models.db.rows import page
from models.memory import agents as stored_agents
from models.memory import events, reads
from models.memory.agents import key_of, no_agent

#: The strength, the keyword and the type that a page of keywords ends with.
KEYWORD: TypeAdapter[tuple[Number, str, str]] = TypeAdapter(tuple[Number, str, str])

build_context = by_worker("memory.context")


@action("events.states")
def event_states(context: Context, request: EventStatesQuery) -> list[EventState]:
    """Tell what became of events, in their order; also of those whose group could not be read."""
    return events.states(context.connection, context.group_id, request.event_ids, request.digests)


@read(scope="read")
def states_of_events(context: Context, request: StatesBody) -> EventStates:
    """Tell what became of events.

    unknown: not stored (yet). stored: a memory, not embedded yet. retrievable: it can be found. duplicate: it only
    repeated the memory node_id. applied: settings, or the end of a session. erased: gone for good. dead: refused, with the
    reason. id_reused: another event came under this id, with other content, and was refused; the first one stays.
    """
    return EventStates(events=events.states(context.connection, context.group_id, request.ids))


@read(scope="read")
def get_event(context: Context, request: EventRequest) -> StoredEvent:
    """Get one event.

    The event as it was stored, with what became of it. An event that was refused is not here: see the dead letters.
    """
    event = events.event(context.connection, StoredEvent, context.group_id, request.event_id)
    if event is None:
        raise NotFound(f"event_id: the group {context.group_id!r} has no event {request.event_id}")
    return event


@action("memory.get")
def get_memory(context: Context, request: MemoryRequest) -> Memory:
    """Get one memory.

    Everything that is stored of one memory, but for its vector. Reading it here does not count as an access.
    """
    memory = reads.node(context.connection, context.group_id, request.node_id)
    if memory is None:
        raise NotFound(f"node_id: the group {context.group_id!r} has no memory {request.node_id}")
    return memory


@action("memory.list")
def list_memories(context: Context, request: ListMemories) -> Rows[Memory]:
    """List or search memories.

    An agent's, or the whole group's, newest first, page by page; all that is given must hold. To find what matters for a
    question, retrieve instead. Descriptions are cut to 4,000 characters; memory.get has all of it.
    """
    listed = reads.page(context.connection, context.group_id, reads.of_request(request), request.after, request.limit)
    if not listed.rows and request.agent_id is not None and not request.after:
        _must_exist(context, request.agent_id)
    return listed


@action("memory.keywords")
def keywords(context: Context, request: KeywordsQuery) -> Rows[KeywordStrength]:
    """List an agent's keywords.

    What the agent has met, with how many memories have it, strongest first, page by page.
    """
    place = decode_cursor(request.after, KEYWORD)
    rows = stored_agents.keywords(
        context.connection, context.group_id, request.agent_id, request.limit, user_id=request.user_id, after=place
    )
    if not rows and place is None:
        _must_exist(context, request.agent_id)
    return page(rows, request.limit, lambda last: encode_cursor(last.strength, last.keyword, last.memory_type))


@action("memory.related")
def related(context: Context, request: RelatedQuery) -> Related:
    """Find memories that share a keyword with an event.

    Events and thoughts that have the last part of a subject, predicate or object (world:house:desk → desk) among
    their keywords, newest first. Use it when something is perceived, to find what the agent knows about it.
    """
    parts = (request.subject, request.predicate, request.object)
    return reads.related(context.connection, context.group_id, request.agent_id, parts, request.limit)


@action("memory.export")
def export(context: Context, request: ExportQuery) -> Page:
    """List events in order of arrival, as they came, with what their memories have been given since."""
    exported = events.exported(context.connection, context.group_id, request)
    rows = []
    for row in exported:
        payload = {name: value for name, value in row.payload.items() if name != "embedding_model"}  # it would name nothing
        if row.embedding is not None:
            payload |= {"vector": to_text(to_bytes(row.embedding.to_numpy())), "embedding_model": row.embedding_model}
        rows.append(row.model_dump(exclude={"position", "embedding", "embedding_model"}) | {"payload": payload})
    return Page(rows=rows, next=exported[-1].position if len(exported) == request.limit else None)


@action("agents.list")
def agents(context: Context, request: AgentsQuery) -> Rows[AgentState]:
    """List agents.

    Those who have a memory, in the order of their names, page by page. Use it to find the right agent_id.
    """
    rows = stored_agents.agent_rows(context.connection, context.group_id, request.after, request.limit)
    return page(rows, request.limit, lambda last: last.agent_id)


@read(scope="read")
def get_agent(context: Context, request: AgentRequest) -> AgentState:
    """Get one agent.

    Its settings, how many memories of which type it has, and how near its next reflection is.
    """
    agent = stored_agents.agent_row(context.connection, context.group_id, request.agent_id)
    if agent is None:
        raise no_agent(context.group_id, request.agent_id)
    return agent


def _must_exist(context: Context, agent_id: str) -> None:
    if key_of(context.connection, context.group_id, agent_id) is None:
        raise no_agent(context.group_id, agent_id)
