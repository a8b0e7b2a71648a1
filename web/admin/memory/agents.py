"""Agents: the list, and one with its memories over time, its keywords, its settings and its next reflection."""

from __future__ import annotations

from typing import Any, get_args

from flask import Blueprint, Response, abort, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue
from flask_babel import gettext, lazy_gettext
from pydantic import ValidationError
from sqlalchemy import Connection

from jiyi.errors import problems_of
from jiyi.protocol.events import NodeType
from jiyi.protocol.memory import AgentState, ConfigureAgent
from jiyi.protocol.reflection import ReflectRequest
from models.memory import actions, agent_reads
from models.memory.search import FoundMemory, MemoryFilter, search
from models.reflection import actions as reflection
from web.accounts.identity import need
from web.admin import frame, inputs
from web.admin.acting import checked, perform
from web.admin.frame import Page, asked, storable, wants_fragment
from web.admin.memory import agent_settings
from web.admin.memory.timeline import Timeline, unit_for
from web.admin.operations.overview import with_reflection
from web.answers import answer
from web.sources import from_database

blueprint = Blueprint("agents", __name__)
PAGES = (Page("memory", lazy_gettext("Agents"), "agents.index"),)

AGENTS_PER_PAGE, NODES_PER_PAGE, KEYWORDS_PER_PAGE = 50, 20, 20
#: Keywords that can be paged to; the weakest were met once each.
MAX_KEYWORDS = 1_000_000
NODE_TYPES: tuple[str, ...] = get_args(NodeType)


@blueprint.get("/agents")
@blueprint.get("/agents.json", endpoint="index_json")
def index() -> Response:
    group, after = frame.group(), asked("after") or ""

    def question(connection: Connection) -> list[AgentState]:
        return agent_reads.agents(connection, group, after, AGENTS_PER_PAGE + 1)

    rows = from_database(question)
    found = [with_reflection(row) for row in rows[:AGENTS_PER_PAGE]]
    following = found[-1]["agent_id"] if len(rows) > AGENTS_PER_PAGE else None
    return answer("agents.html", data={"group": group, "after": after or None, "agents": found, "next": following})


@blueprint.get("/agents/<name:group>/<name:agent>")
@blueprint.get("/agents/<name:group>/<name:agent>.json", endpoint="agent_json")
def agent(group: str, agent: str) -> Response:
    storable(group, agent)
    asked_for = _asked()

    def question(connection: Connection) -> dict[str, Any] | None:
        found = agent_reads.agent(connection, group, agent)
        if found is None:
            return None
        keywords = agent_reads.keywords(connection, group, agent, KEYWORDS_PER_PAGE + 1)
        span = agent_reads.span(connection, group, agent)
        unit = unit_for(span)
        return {
            "agent": with_reflection(found),
            "keywords": keywords[:KEYWORDS_PER_PAGE],
            "keywords_next": KEYWORDS_PER_PAGE if len(keywords) > KEYWORDS_PER_PAGE else None,
            "timeline": {"unit": unit, "spans": agent_reads.timeline(connection, group, agent, unit) if span else []},
            **_nodes(connection, group, agent, asked_for),
        }

    data = from_database(question)
    if data is None:
        abort(404, gettext("There is no agent “%(agent)s” in the group “%(group)s”.", agent=agent, group=group))
    return answer(
        "agent.html",
        data={"group": group, **asked_for, **data},
        types=NODE_TYPES,
        drawing=Timeline(data["timeline"]["unit"], data["timeline"]["spans"]),
        form=agent_settings.fields(data["agent"]["settings"]),
        problems=[],
        saved=False,
    )


@blueprint.get("/agents/<name:group>/<name:agent>/memories")
def memories(group: str, agent: str) -> str:
    """The list by itself: another type, another time, the next page."""
    storable(group, agent)
    asked_for = _asked()
    data = from_database(lambda connection: _nodes(connection, group, agent, asked_for))
    row = {"agent_id": agent}
    return render_template("_agent_memories.html", group=group, agent=row, **asked_for, **data)


@blueprint.get("/agents/<name:group>/<name:agent>/keywords")
def keywords(group: str, agent: str) -> str:
    """The next keywords, weaker ones."""
    storable(group, agent)
    offset = inputs.whole("offset", MAX_KEYWORDS) or 0
    most = inputs.whole("most") or 1
    rows = from_database(lambda c: agent_reads.keywords(c, group, agent, KEYWORDS_PER_PAGE + 1, offset=offset))
    return render_template(
        "_keywords.html",
        group=group,
        agent={"agent_id": agent},
        keywords=rows[:KEYWORDS_PER_PAGE],
        strongest=most,
        keywords_next=offset + KEYWORDS_PER_PAGE if len(rows) > KEYWORDS_PER_PAGE else None,
    )


@blueprint.post("/agents/<name:group>/<name:agent>/settings")
def configure(group: str, agent: str) -> ResponseReturnValue:
    """Set what the form changes. Safe to repeat because it sets, and adds nothing."""
    need("admin")
    row, problems = _row(group, agent), []
    try:
        wanted = ConfigureAgent.model_validate({"agent_id": agent, **agent_settings.changes(row.settings, request.form)})
    except ValidationError as error:
        problems = problems_of(error)
    else:
        perform(actions.configure, wanted)
    if not wants_fragment():
        if problems:
            abort(400, "; ".join(problems))
        return redirect(url_for("agents.agent", group=group, agent=agent), 303)
    form = agent_settings.fields(_row(group, agent).settings, request.form if problems else None)
    return render_template("_agent_settings.html", group=group, agent=row, form=form, problems=problems, saved=not problems)


@blueprint.post("/agents/<name:group>/<name:agent>/reflect")
def reflect(group: str, agent: str) -> ResponseReturnValue:
    """Safe to repeat because an agent has one open reflection at most."""
    need("admin")
    storable(group, agent)
    done = perform(reflection.request_reflection, checked(ReflectRequest, agent_id=agent))
    return redirect(url_for("reflections.reflection", group=group, reflection_id=done.reflection_id), 303)


def _row(group: str, agent: str) -> AgentState:
    storable(group, agent)
    found = from_database(lambda connection: agent_reads.agent(connection, group, agent))
    if found is None:
        abort(404, gettext("There is no agent “%(agent)s” in the group “%(group)s”.", agent=agent, group=group))
    return found


def _asked() -> dict[str, Any]:
    """What of the memories is asked for; as they stand in the address, to be passed on to the next page."""
    inputs.moment("from"), inputs.moment("to")
    return {"type": inputs.choice("type", NODE_TYPES), "before": inputs.whole("before"), "begin": asked("from"), "end": asked("to")}


def _nodes(connection: Connection, group: str, agent: str, asked_for: dict[str, Any]) -> dict[str, Any]:
    wanted = MemoryFilter(
        agent_id=agent,
        types=[asked_for["type"]] if asked_for["type"] else (),
        archived="with",
        created_from=inputs.moment("from"),
        created_to=inputs.moment("to", end=True),
    )
    rows = search(connection, FoundMemory, group, wanted, asked_for["before"], NODES_PER_PAGE + 1)
    nodes = rows[:NODES_PER_PAGE]
    return {"nodes": nodes, "next": nodes[-1].node_count if len(rows) > NODES_PER_PAGE else None}
