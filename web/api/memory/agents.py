"""Agents, their settings, and reflections."""

from __future__ import annotations

from jiyi.protocol.agents import AgentSettings
from jiyi.protocol.memory import AgentPage
from jiyi.protocol.openapi.operations import PREFIX
from jiyi.protocol.reflection import Asked, ReflectionAsked, ReflectionPage, ReflectionsQuery
from jiyi.protocol.rest import Cursor
from models.memory import actions, questions
from models.reflection import actions as reflection
from web.api.registry import expose
from web.api.running import Asker, Reply

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
