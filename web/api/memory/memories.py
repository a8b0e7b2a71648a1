"""Memories: lists, one, what it rests on, keywords. Straight from the database, so that it works without workers."""

from __future__ import annotations

from jiyi.protocol.agents import AgentSettings
from jiyi.protocol.memory import AgentPage, KeywordPage, KeywordsParameters, MemoriesQuery, MemoryPage, Related, RelatedQuery
from jiyi.protocol.openapi.document import PREFIX
from jiyi.protocol.recall import RecallRequest, UpdateBody
from jiyi.protocol.reflection import Asked, EvidenceQuery, ReflectionAsked, ReflectionPage, ReflectionsQuery
from jiyi.protocol.rest import Cursor
from models.memory import actions, questions
from models.reflection import actions as reflection
from web.api.registry import expose
from web.api.running import Asker, Reply

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


expose(questions.agents, "GET", "/agents", id="list_agents", tag="agents", query=Cursor, answer=AgentPage, flat=("limit", "after"))
expose(questions.get_agent, "GET", "/agents/<anything:agent_id>", id="get_agent", tag="agents", missing="There is no agent {agent_id!r}.")
expose(
    actions.configure,
    "PATCH",
    "/agents/<anything:agent_id>/settings",
    id="configure_agent",
    tag="agents",
    body=AgentSettings,
    errors=(409,),
)


def _asked(_asker: Asker, done: ReflectionAsked) -> Reply:
    url = f"{PREFIX}/reflections/{done.reflection_id}"
    return Reply(Asked(reflection_id=done.reflection_id, status_url=url), {"Location": url})


expose(
    reflection.request_reflection,
    "POST",
    "/agents/<anything:agent_id>/reflect",
    id="reflect",
    tag="reflections",
    present=_asked,
    answer=Asked,
    status=202,
)


expose(
    reflection.list_reflections,
    "GET",
    "/reflections",
    id="list_reflections",
    tag="reflections",
    query=ReflectionsQuery,
    answer=ReflectionPage,
)
expose(reflection.get, "GET", "/reflections/<uuid:reflection_id>", id="get_reflection", tag="reflections")
