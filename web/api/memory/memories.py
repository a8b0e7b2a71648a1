"""Memories: lists, one, what it rests on, keywords. Straight from the database, so that it works without workers."""

from __future__ import annotations

from jiyi.protocol.memory import KeywordPage, KeywordsParameters, MemoriesQuery, MemoryPage, Related, RelatedQuery
from jiyi.protocol.recall import RecallRequest, UpdateBody
from jiyi.protocol.reflection import EvidenceQuery
from models.memory import actions, questions
from models.reflection import actions as reflection
from web.api.registry import expose

expose(
    questions.search_memories,
    "GET",
    "/nodes",
    id="list_memories",
    tag="memories",
    query=MemoriesQuery,
    answer=MemoryPage,
    flat=("agent_id", "q", "keyword", "session_id", "created_after", "created_before", "limit", "after"),
)
expose(questions.get_memory, "GET", "/nodes/<uuid:node_id>", id="get_memory", tag="memories", missing="There is no memory {node_id}.")
expose(actions.update_memory, "PATCH", "/nodes/<uuid:node_id>", id="update_memory", tag="memories", body=UpdateBody)
expose(
    questions.build_context,
    "POST",
    "/context",
    id="recall_context",
    tag="retrieval",
    body=RecallRequest,
    errors=(504,),
    flat=("agent_id", "query", "max_tokens", "session_id"),
)
expose(reflection.why, "GET", "/nodes/<uuid:node_id>/evidence", id="explain_memory", tag="memories", query=EvidenceQuery, flat=("depth",))
expose(questions.list_keywords, "GET", "/keywords", id="list_keywords", tag="memories", query=KeywordsParameters, answer=KeywordPage)
expose(questions.related_memories, "GET", "/related", id="related_memories", tag="memories", query=RelatedQuery, answer=Related)
