"""Agents, their settings, and reflections."""

from __future__ import annotations

from jiyi.protocol.agents import AgentSettings
from jiyi.protocol.memory import AgentPage, AgentState
from jiyi.protocol.reflection import Asked, ReflectionAsked, ReflectionPage, ReflectionsQuery
from jiyi.protocol.rest import Cursor
from models.memory import actions
from models.memory.agents import reads as agent_reads
from models.reflection import actions as reflection
from models.reflection import reads
from web import cursors
from web.api.problems import Refused
from web.api.registry import PREFIX, expose, operation
from web.api.running import Asker, Reply
from web.sources import from_database


@operation("GET", "/agents", id="list_agents", scope="read", tag="agents", query=Cursor, answer=AgentPage, flat=("limit", "after"))
def list_agents(asker: Asker, query: Cursor) -> AgentPage:
    """List agents.

    Those who have a memory, in the order of their names, page by page. Use it to find the right agent_id.
    """
    after = cursors.only(query.after, cursors.NAME) or ""
    rows = from_database(lambda connection: agent_reads.agents(connection, asker.group_id, after, query.limit))
    return AgentPage(agents=rows, next=cursors.following(rows, query.limit, lambda last: (last.agent_id,)))


@operation("GET", "/agents/<anything:agent_id>", id="get_agent", scope="read", tag="agents", answer=AgentState)
def get_agent(asker: Asker, agent_id: str) -> AgentState:
    """Get one agent.

    Its settings, how many memories of which type it has, and how near its next reflection is.
    """
    row = from_database(lambda connection: agent_reads.agent(connection, asker.group_id, agent_id))
    if row is None:
        raise Refused(404, f"There is no agent {agent_id!r}.")
    return row


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


@operation("GET", "/reflections", id="list_reflections", scope="read", tag="reflections", query=ReflectionsQuery, answer=ReflectionPage)
def list_reflections(asker: Asker, query: ReflectionsQuery) -> ReflectionPage:
    """List reflections.

    Newest first, page by page, with how many thoughts came of each.
    """
    before = cursors.decode(query.after, cursors.TIME_AND_ID)
    rows = from_database(
        lambda connection: reads.reflections(
            connection, asker.group_id, agent_id=query.agent_id, state=query.state, trigger=None, before=before, limit=query.limit
        )
    )
    following = cursors.following(rows, query.limit, lambda last: (last.created_at, last.reflection_id))
    return ReflectionPage(reflections=rows, next=following)


expose(reflection.get, "GET", "/reflections/<uuid:reflection_id>", id="get_reflection", tag="reflections")
