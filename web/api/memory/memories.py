"""Memories: lists, one, what it rests on, keywords. Straight from the database, so that it works without workers."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from sqlalchemy import Connection

from jiyi.protocol.memory import (
    KeywordPage,
    KeywordsParameters,
    MemoriesQuery,
    Memory,
    MemoryDetail,
    MemoryPage,
    Related,
    RelatedMemory,
    RelatedQuery,
)
from jiyi.protocol.recall import RecallRequest, UpdateBody
from jiyi.protocol.reflection import EvidenceQuery
from models.memory import actions, questions, reads
from models.memory.agents import reads as agent_reads
from models.memory.search import MemoryFilter, search
from models.reflection import actions as reflection
from web import cursors
from web.api.problems import Refused
from web.api.registry import expose, operation
from web.api.running import Asker
from web.sources import from_database


@operation(
    "GET",
    "/nodes",
    id="list_memories",
    scope="read",
    tag="memories",
    query=MemoriesQuery,
    answer=MemoryPage,
    flat=("agent_id", "q", "keyword", "session_id", "created_after", "created_before", "limit", "after"),
)
def list_memories(asker: Asker, query: MemoriesQuery) -> MemoryPage:
    """List or search memories.

    Lists an agent's memories, or the whole group's, newest first, page by page; all filters given must hold.
    Use it to look something up by its words, its time, its session or its keyword. To find what matters for a question,
    use retrieve_memories instead. Descriptions are cut to 4,000 characters; get_memory has all of it.
    """
    wanted = MemoryFilter(
        words=query.q,
        agent_id=query.agent_id,
        types=query.type,
        session_id=query.session_id,
        created_from=query.created_after,
        created_to=query.created_before,
        keyword=query.keyword or "",
        archived=query.archived,
    )
    if query.agent_id is None:
        before: Any = cursors.decode(query.after, cursors.TIME_AND_ID)
    else:
        before = cursors.only(query.after, cursors.NUMBER)
    rows = from_database(lambda connection: search(connection, Memory, asker.group_id, wanted, before, query.limit))
    by_number = query.agent_id is not None
    following = cursors.following(rows, query.limit, lambda last: (last.node_count,) if by_number else (last.created_at, last.node_id))
    return MemoryPage.model_construct(nodes=rows, next=following)


@operation("GET", "/nodes/<uuid:node_id>", id="get_memory", scope="read", tag="memories", answer=MemoryDetail, flat=())
def get_memory(asker: Asker, node_id: UUID) -> MemoryDetail:
    """Get one memory.

    Everything that is stored of one memory, but for its vector. Reading it here does not count as an access.
    """
    row = from_database(lambda connection: reads.node(connection, MemoryDetail, asker.group_id, node_id))
    if row is None:
        raise Refused(404, f"There is no memory {node_id}.")
    return row


expose(actions.update_memory, "PATCH", "/nodes/<uuid:node_id>", id="update_memory", tag="memories", body=UpdateBody)
expose(questions.build_context, "POST", "/context", id="recall_context", tag="retrieval", body=RecallRequest, errors=(504,))
expose(reflection.why, "GET", "/nodes/<uuid:node_id>/evidence", id="explain_memory", tag="memories", query=EvidenceQuery, flat=("depth",))


@operation("GET", "/keywords", id="list_keywords", scope="read", tag="memories", query=KeywordsParameters, answer=KeywordPage)
def list_keywords(asker: Asker, query: KeywordsParameters) -> KeywordPage:
    """List an agent's keywords.

    What the agent has met, with how many memories have it, strongest first, page by page. An agent that is not there has
    none.
    """
    after = cursors.decode(query.after, cursors.KEYWORD)
    rows = from_database(lambda connection: agent_reads.keywords(connection, asker.group_id, query.agent_id, query.limit, after=after))
    following = cursors.following(rows, query.limit, lambda last: (last.strength, last.keyword, last.memory_type))
    return KeywordPage(keywords=rows, next=following)


@operation("GET", "/related", id="related_memories", scope="read", tag="memories", query=RelatedQuery, answer=Related)
def related_memories(asker: Asker, query: RelatedQuery) -> dict[str, list[RelatedMemory]]:
    """Find memories that share a keyword with an event.

    Events and thoughts that have the last part of a subject, predicate or object (world:house:desk → desk) among
    their keywords, newest first. Use it when something is perceived, to find what the agent knows about it.
    """
    parts = (query.subject, query.predicate, query.object)

    def question(connection: Connection) -> dict[str, list[RelatedMemory]]:
        return reads.related(connection, RelatedMemory, asker.group_id, query.agent_id, parts, query.limit)

    return from_database(question)
