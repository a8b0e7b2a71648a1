"""What can be asked about memories and agents over the broker: lists, page by page, and what became of events."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel

from jiyi.errors import NotFound
from jiyi.protocol.base import JsonObject, Page, Rows
from jiyi.protocol.event_requests import EventRequest, EventState, EventStates, EventStatesQuery, StatesBody, StoredEvent
from jiyi.protocol.memory import (
    AgentRequest,
    AgentsQuery,
    AgentState,
    ArchivedQuery,
    ExportQuery,
    KeywordsQuery,
    KeywordStrength,
    KeywordsWanted,
    MemoriesWanted,
    Memory,
    NodesQuery,
    RelatedQuery,
)
from jiyi.protocol.recall import ListMemories, ListMemoriesFrom, MemoryRequest, MemoryRows
from jiyi.protocol.wire.vectors import to_bytes, to_text
from models.db.actions import Context, action, by_worker, read
from models.db.rows import page
from models.memory import agents as stored_agents
from models.memory import events, reads
from models.memory.agents import key_of, no_agent

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


@read(scope="read")
def search_memories(context: Context, request: MemoriesWanted) -> Rows[Memory]:
    """List or search memories.

    Lists an agent's memories, or the whole group's, newest first, page by page; all filters given must hold.
    Use it to look something up by its words, its time, its session or its keyword. To find what matters for a question,
    use retrieve_memories instead. Descriptions are cut to 4,000 characters; get_memory has all of it.
    """
    wanted = reads.of_request(request, words=request.q, types=request.type)
    memories = reads.search(context.connection, context.group_id, wanted, request.before, request.limit)
    by_number = request.agent_id is not None
    return page(memories, request.limit, lambda last: last.node_count if by_number else (last.created_at, last.node_id))


@action("memory.list")
def list_memories(context: Context, request: ListMemories) -> MemoryRows:
    """List or search memories.

    An agent's, or the whole group's, newest first, page by page; all that is given must hold. To find what matters for a
    question, retrieve instead. Descriptions are cut to 4,000 characters; memory.get has all of it.
    """
    return _listed(context, request)


@read(scope="read")
def list_memories_from(context: Context, request: ListMemoriesFrom) -> MemoryRows:
    """The same, of what comes from one user."""
    return _listed(context, request, request.from_user)


def _listed(context: Context, request: ListMemories, user_id: str | None = None) -> MemoryRows:
    rows, following = reads.page(context.connection, context.group_id, request, user_id)
    if not rows and request.agent_id is not None and not request.after:
        _must_exist(context, request.agent_id)
    return MemoryRows(rows=rows, next=following)


@action("memory.nodes")
def nodes(context: Context, request: NodesQuery) -> Page:
    """List an agent's memories, newest first."""
    rows = reads.nodes(context.connection, context.group_id, request)
    if not rows and request.before is None:
        _must_exist(context, request.agent_id)
    return _page(rows, request.limit, "node_count")


@action("memory.keywords")
def keywords(context: Context, request: KeywordsQuery) -> Page:
    """List an agent's keywords, strongest first."""
    rows = stored_agents.keywords(
        context.connection, context.group_id, request.agent_id, request.limit, user_id=request.user_id, offset=request.offset
    )
    if not rows and not request.offset:
        _must_exist(context, request.agent_id)
    return Page(rows=_dicts(rows), next=request.offset + request.limit if len(rows) == request.limit else None)


@read(scope="read")
def list_keywords(context: Context, request: KeywordsWanted) -> Rows[KeywordStrength]:
    """List an agent's keywords.

    What the agent has met, with how many memories have it, strongest first, page by page. An agent that is not there has
    none.
    """
    keywords = stored_agents.keywords(
        context.connection, context.group_id, request.agent_id, request.limit, user_id=request.user_id, after=request.before
    )
    return page(keywords, request.limit, lambda last: (last.strength, last.keyword, last.memory_type))


@read(scope="read")
def related_memories(context: Context, request: RelatedQuery) -> dict[str, list[Memory]]:
    """Find memories that share a keyword with an event.

    Events and thoughts that have the last part of a subject, predicate or object (world:house:desk → desk) among
    their keywords, newest first. Use it when something is perceived, to find what the agent knows about it.
    """
    parts = (request.subject, request.predicate, request.object)
    return reads.related(context.connection, context.group_id, request.agent_id, parts, request.limit)


@action("memory.related")
def related(context: Context, request: RelatedQuery) -> dict[str, list[Memory]]:
    """Find events and thoughts that share a keyword with a statement, newest first."""
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
def agents(context: Context, request: AgentsQuery) -> Page:
    """List agents.

    Those who have a memory, in the order of their names, page by page. Use it to find the right agent_id.
    """
    return _page(stored_agents.agent_rows(context.connection, context.group_id, request.after, request.limit), request.limit, "agent_id")


@read(scope="read")
def get_agent(context: Context, request: AgentRequest) -> AgentState:
    """Get one agent.

    Its settings, how many memories of which type it has, and how near its next reflection is.
    """
    agent = stored_agents.agent_row(context.connection, context.group_id, request.agent_id)
    if agent is None:
        raise no_agent(context.group_id, request.agent_id)
    return agent


@action("archive.list")
def archived(context: Context, request: ArchivedQuery) -> Page:
    """List an agent's archived memories, newest first."""
    wanted = reads.MemoryFilter(agent_id=request.agent_id, archived="only")
    rows = reads.search(context.connection, context.group_id, wanted, request.before, request.limit, most_chars=None)
    return _page(rows, request.limit, "node_count")


def _page(rows: Sequence[BaseModel], limit: int, cursor: str) -> Page:
    return Page(rows=_dicts(rows), next=getattr(rows[-1], cursor) if len(rows) == limit else None)


def _dicts(rows: Sequence[BaseModel]) -> list[JsonObject]:
    return [row.model_dump() for row in rows]


def _must_exist(context: Context, agent_id: str) -> None:
    if key_of(context.connection, context.group_id, agent_id) is None:
        raise no_agent(context.group_id, agent_id)
