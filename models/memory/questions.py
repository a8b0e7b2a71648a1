"""What can be asked about memories and agents over the broker: lists, page by page, and events' states."""

from __future__ import annotations

from pydantic import TypeAdapter

from jiyi.errors import NotFound
from jiyi.protocol.base import BY_NAME, ById, ByIdForUser, JsonObject, Number, Paged, Rows, encode_cursor
from jiyi.protocol.event_requests import EventState, EventStatesQuery, StoredEvent
from jiyi.protocol.memory import (
    AgentState,
    ExportQuery,
    KeywordsQuery,
    KeywordStrength,
    Memory,
    Related,
    RelatedQuery,
)
from jiyi.protocol.recall import ListMemories
from jiyi.protocol.wire.vectors import to_bytes, to_text
from models.db.actions import Context, action, by_worker, read
from models.db.rows import page
from models.memory import agents as stored_agents
from models.memory import events, reads
from models.memory.agents import known_agent

#: The strength, the keyword and the type that a page of keywords ends with.
KEYWORD: TypeAdapter[tuple[Number, str, str]] = TypeAdapter(tuple[Number, str, str])

build_context = by_worker("memory.context")


@action("events.states")
def event_states(context: Context, request: EventStatesQuery) -> Rows[EventState]:
    """Get the states of events, in the order given.

    unknown: not stored (yet). stored: a memory, not embedded yet. retrievable: it can be found. duplicate: it
    only repeated the memory node_id. applied: settings, or the end of a session. erased: gone for good. dead:
    refused, with the reason. id_reused: another event came under this id, with other content, and was
    refused; the first one stays.
    """
    return Rows(rows=events.states(context.connection, context.group_id, request.ids, request.digests))


@read(scope="read")
def get_event(context: Context, request: ById) -> StoredEvent:
    """Get one event.

    The event as it was stored, with what became of it. An event that was refused is not here: see the dead
    letters.
    """
    event = events.event(context.connection, StoredEvent, context.group_id, request.id)
    if event is None:
        raise NotFound(f"id: the group {context.group_id!r} has no event {request.id}")
    return event


@action("memory.get")
def get_memory(context: Context, request: ByIdForUser) -> Memory:
    """Get one memory.

    Everything that is stored of one memory, but for its vector. Reading it here does not count as an access.
    """
    memory = reads.node(context.connection, context.group_id, request.id)
    if memory is None:
        raise NotFound(f"id: the group {context.group_id!r} has no memory {request.id}")
    return memory


@action("memory.list")
def list_memories(context: Context, request: ListMemories) -> Rows[Memory]:
    """List or search memories.

    An agent's, or the whole group's, newest first, page by page; all that is given must hold. To find what
    matters for a question, retrieve instead. Descriptions are cut to 4,000 characters; memory.get has all of
    it.
    """
    result = reads.page(context.connection, context.group_id, reads.of_request(request), request)
    if not result.rows and request.agent_id is not None and not request.cursor:
        known_agent(context.connection, context.group_id, request.agent_id)
    return result


@action("memory.keywords")
def keywords(context: Context, request: KeywordsQuery) -> Rows[KeywordStrength]:
    """List an agent's keywords.

    What the agent has met, with how many memories have it, strongest first, page by page.
    """
    place = request.place(KEYWORD)
    rows = stored_agents.keywords(
        context.connection,
        context.group_id,
        request.agent_id,
        request.limit + 1,
        user_id=request.user_id,
        after=place,
    )
    if not rows and place is None:
        known_agent(context.connection, context.group_id, request.agent_id)
    return page(rows, request.limit, lambda last: (last.strength, last.keyword, last.memory_type))


@action("memory.related")
def related(context: Context, request: RelatedQuery) -> Related:
    """Find memories that share a keyword with an event.

    Events and thoughts that have the last part of a subject, predicate or object (world:house:desk → desk)
    among their keywords, newest first. Use it when something is perceived, to find what the agent knows about
    it.
    """
    parts = (request.subject, request.predicate, request.object)
    return reads.related(context.connection, context.group_id, request.agent_id, parts, request.limit)


@action("memory.export")
def export(context: Context, request: ExportQuery) -> Rows[JsonObject]:
    """List events in order of arrival, as they came, with what their memories have been given since."""
    exported = events.exported(context.connection, context.group_id, request)
    rows: list[JsonObject] = []
    for event in exported[: request.limit]:
        # A model without a vector would name nothing.
        payload = {name: value for name, value in event["payload"].items() if name != "embedding_model"}
        if event["embedding"] is not None:
            vector = to_text(to_bytes(event["embedding"].to_numpy()))
            payload |= {"vector": vector, "embedding_model": event["embedding_model"]}
        as_sent = {name: value for name, value in event.items() if name not in _NOT_SENT}
        rows.append(as_sent | {"payload": payload})
    more = len(exported) > request.limit
    return Rows(rows=rows, next=encode_cursor(exported[request.limit - 1]["position"]) if more else None)


#: Of an exported event what is not part of it.
_NOT_SENT = ("position", "embedding", "embedding_model")


@action("agents.list")
def agents(context: Context, request: Paged) -> Rows[AgentState]:
    """List agents.

    Those who have a memory, in the order of their names, page by page. Use it to find the right agent_id.
    """
    rows = stored_agents.agent_rows(
        context.connection, context.group_id, request.place(BY_NAME) or "", request.limit + 1
    )
    return page(rows, request.limit, lambda last: last.agent_id)
