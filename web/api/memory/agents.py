"""Agents, their settings, and reflections."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote
from uuid import UUID

from sqlalchemy import Connection
from uuid6 import uuid7

from jiyi.protocol.agents import AgentSettings
from jiyi.protocol.events import AgentConfigured, Configuration
from jiyi.protocol.reflection import ReflectionState
from jiyi.protocol.rest import AgentPage, AgentState, Asked, Cursor, ReflectionPage, ReflectionsQuery
from models.accounts import audit
from models.memory import browsing, listing, overview
from models.memory.agents import key_of
from models.queue import pending_work
from models.queue.wakeups import wake
from models.reflection import reflections
from models.reflection.reflections import REFLECT
from web.api import cursors
from web.api.memory.storing import keep_with
from web.api.problems import Refused
from web.api.registry import PREFIX, operation
from web.api.running import Asker, Reply
from web.sources import from_database, to_database

_ID = "01978c00-0000-7000-8000-000000000004"
_AGENT = {
    "agent_id": "klaus",
    "settings": {"mode": "elapsed", "recency_decay": 0.99},
    "node_count": 120,
    "type_counts": {"event": 100, "thought": 18, "chat": 2},
    "importance_trigger_curr": 42.0,
    "importance_ele_n": 31,
    "created_at": "2026-03-01T08:00:00Z",
}
_REFLECTION = {
    "reflection_id": _ID,
    "agent_id": "klaus",
    "trigger": "request",
    "state": "done",
    "attempts": 1,
    "created_at": "2026-03-02T09:00:00Z",
    "started_at": "2026-03-02T09:00:01Z",
    "finished_at": "2026-03-02T09:00:02Z",
    "focal_points": ["What does Klaus care about?"],
    "llm": "rules",
    "error": None,
}


@operation(
    "GET",
    "/agents",
    id="list_agents",
    scope="read",
    tag="agents",
    query=Cursor,
    answer=AgentPage,
    examples={"The first ten": {"limit": 10}},
    answer_example={"agents": [_AGENT], "next": None},
    flat=("limit", "after"),
)
def list_agents(asker: Asker, query: Cursor) -> dict[str, Any]:
    """List agents.

    Those who have a memory, in the order of their names, page by page. Use it to find the right agent_id.
    """
    place = cursors.decode(query.after, cursors.NAME)
    after = "" if place is None else place[0]
    rows = from_database(lambda connection: listing.agents(connection, asker.group_id, after, query.limit))
    following = cursors.encode(rows[-1]["agent_id"]) if len(rows) == query.limit else None
    return {"agents": [_state(row) for row in rows], "next": following}


@operation("GET", "/agents/<anything:agent_id>", id="get_agent", scope="read", tag="agents", answer=AgentState, answer_example=_AGENT)
def get_agent(asker: Asker, agent_id: str) -> dict[str, Any]:
    """Get one agent.

    Its settings, how many memories of which type it has, and how near its next reflection is.
    """
    return _agent(asker, agent_id)


@operation(
    "PATCH",
    "/agents/<anything:agent_id>/settings",
    id="configure_agent",
    scope="publish",
    tag="agents",
    body=AgentSettings,
    answer=AgentState,
    errors=(409,),
    examples={"More by relevance, less by recency": {"relevance_w": 2.0, "recency_w": 0.5}, "Back to the default": {"mode": None}},
    answer_example=_AGENT,
)
def configure_agent(asker: Asker, agent_id: str, body: AgentSettings) -> dict[str, Any]:
    """Set an agent's settings.

    Settings that are given replace the agent's own; null takes one back to the deployment's. Stored as an
    agent.configured event, so that exports have it. An agent that is not there yet is made by posting such an event.
    """
    given = Configuration.model_construct(**{name: getattr(body, name) for name in body.model_fields_set})
    event = AgentConfigured(event_id=uuid7(), group_id=asker.group_id, agent_id=agent_id, payload=given)

    def also(connection: Connection) -> None:
        if key_of(connection, asker.group_id, agent_id) is None:
            raise _no_agent(agent_id)
        audit.record(
            connection,
            group_id=asker.group_id,
            actor=asker.actor,
            action="agent configured",
            target=agent_id,
            settings=sorted(body.model_fields_set),
            event_id=event.event_id,
        )

    keep_with([event], also)
    return _agent(asker, agent_id)


@operation(
    "POST",
    "/agents/<anything:agent_id>/reflect",
    id="reflect",
    scope="publish",
    tag="reflections",
    answer=Asked,
    status=202,
    answer_example={"reflection_id": _ID, "status_url": f"{PREFIX}/reflections/{_ID}"},
)
def reflect(asker: Asker, agent_id: str) -> Reply:
    """Let an agent reflect.

    The agent looks at its latest memories, asks itself what matters in them, and keeps its conclusions as thoughts that
    name their evidence. Answers at once with the reflection that is owed; one that is under way already is not
    begun twice. See get_reflection for what came of it.
    """

    def change(connection: Connection) -> UUID:
        agent_key = key_of(connection, asker.group_id, agent_id)
        if agent_key is None:
            raise _no_agent(agent_id)
        reflection_id = reflections.ask(connection, asker.group_id, agent_id, "request")
        pending_work.owe(connection, REFLECT, [(agent_key, asker.group_id)])
        audit.record(
            connection,
            group_id=asker.group_id,
            actor=asker.actor,
            action="reflection asked for",
            target=agent_id,
            reflection_id=reflection_id,
        )
        return reflection_id

    reflection_id = to_database(change)
    wake(REFLECT)
    url = f"{PREFIX}/reflections/{quote(str(reflection_id))}"
    return Reply(Asked(reflection_id=reflection_id, status_url=url), {"Location": url})


@operation(
    "GET",
    "/reflections",
    id="list_reflections",
    scope="read",
    tag="reflections",
    query=ReflectionsQuery,
    answer=ReflectionPage,
    examples={"An agent's": {"agent_id": "klaus"}},
    answer_example={"reflections": [{**_REFLECTION, "thoughts": 2}], "next": None},
)
def list_reflections(asker: Asker, query: ReflectionsQuery) -> dict[str, Any]:
    """List reflections.

    Newest first, page by page, with how many thoughts came of each.
    """
    before = cursors.decode(query.after, cursors.TIME_AND_ID)
    rows = from_database(
        lambda connection: browsing.reflections(
            connection, asker.group_id, agent_id=query.agent_id, state=query.state, trigger=None, before=before, limit=query.limit
        )
    )
    last = rows[-1] if len(rows) == query.limit else None
    return {"reflections": rows, "next": last and cursors.encode(last["created_at"], last["reflection_id"])}


@operation(
    "GET",
    "/reflections/<uuid:reflection_id>",
    id="get_reflection",
    scope="read",
    tag="reflections",
    answer=ReflectionState,
    answer_example={**_REFLECTION, "thoughts": []},
)
def get_reflection(asker: Asker, reflection_id: UUID) -> dict[str, Any]:
    """Get one reflection.

    How far it is (owed, running, waiting, done, nothing, given up), and its thoughts, each with its evidence.
    """
    found = from_database(lambda connection: reflections.found(connection, asker.group_id, reflection_id))
    if found is None:
        raise Refused(404, f"There is no reflection {reflection_id}.")
    return found


def _agent(asker: Asker, agent_id: str) -> dict[str, Any]:
    row = from_database(lambda connection: overview.agent(connection, asker.group_id, agent_id))
    if row is None:
        raise _no_agent(agent_id)
    return _state(row)


def _state(row: dict[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in AgentState.model_fields}


def _no_agent(agent_id: str) -> Refused:
    return Refused(404, f"There is no agent {agent_id!r}.")
