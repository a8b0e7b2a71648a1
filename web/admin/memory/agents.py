"""Agents: the list, and one with its memories over time, its keywords, its settings and its next reflection."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

from flask import Blueprint, abort, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue
from flask_babel import lazy_gettext
from sqlalchemy import Connection

from engine.reflection.reflect import with_progress
from jiyi.protocol.events import NodeType
from jiyi.protocol.memory import AgentState, KeywordStrength
from jiyi.settings import get_settings
from models.db.bounded_reads import from_database
from models.memory import actions, agent_reads
from models.memory.search import FoundMemory, MemoryFilter, search
from models.reflection import actions as reflection
from models.retrieval import records
from web.accounts.identity import need
from web.admin import inputs
from web.admin.acting import checked, door, perform
from web.admin.frame import Page, asked, storable, wants_fragment
from web.admin.memory import agent_settings
from web.admin.memory.timeline import Timeline, unit_for
from web.admin.pages import NO_AGENT, Context, listed, page, reads_database

blueprint = Blueprint("agents", __name__)
PAGES = (Page("memory", lazy_gettext("Agents"), "agents.index"),)

AGENTS_PER_PAGE, NODES_PER_PAGE, KEYWORDS_PER_PAGE, QUESTIONS_SHOWN, THOUGHTS_SHOWN = 50, 20, 20, 10, 5
#: Keywords that can be paged to; the weakest were met once each.
MAX_KEYWORDS = 1_000_000
NODE_TYPES: tuple[str, ...] = get_args(NodeType)


@page(blueprint, "/agents", "agents.html", name="index")
def index(connection: Connection, group: str) -> Context:
    after = asked("after") or ""
    found = listed("agents", agent_reads.agents(connection, group, after, AGENTS_PER_PAGE + 1), AGENTS_PER_PAGE, "agent_id")
    return {"after": after or None, **found, "agents": [with_progress(one, get_settings()) for one in found["agents"]]}


@page(
    blueprint,
    "/agents/<name:group>/<name:agent>",
    "agent.html",
    name="agent",
    missing=NO_AGENT,
    types=NODE_TYPES,
    drawing=lambda data: Timeline(data["timeline"]["unit"], data["timeline"]["spans"]),
    form=lambda data: agent_settings.fields(data["agent"].settings),
    saved=False,
)
def one(connection: Connection, group: str, agent: str) -> Context | None:
    memories = _nodes(connection, group, agent)  # first, so that wrong parameters are named whatever the agent
    found = agent_reads.agent(connection, group, agent)
    if found is None:
        return None
    keywords = agent_reads.keywords(connection, group, agent, KEYWORDS_PER_PAGE + 1)
    questions = listed("questions", records.listed(connection, group, agent, None, QUESTIONS_SHOWN + 1), QUESTIONS_SHOWN, "retrieval_id")
    span = agent_reads.span(connection, group, agent)
    unit = unit_for(span)
    return {
        **memories,
        "agent": with_progress(found, get_settings()),
        **_keywords(keywords, 0),
        "questions": questions["questions"],
        "questions_next": questions["next"],
        "thoughts": search(connection, FoundMemory, group, MemoryFilter(agent_id=agent, types=["thought"]), None, THOUGHTS_SHOWN),
        "has": agent_reads.belongings(connection, group, agent),
        "timeline": {"unit": unit, "spans": agent_reads.timeline(connection, group, agent, unit) if span else []},
    }


@blueprint.get("/agents/<name:group>/<name:agent>/memories")
def memories(group: str, agent: str) -> str:
    """The list by itself: another type, another time, the next page."""
    storable(group, agent)
    data = reads_database(_nodes)(group, agent)
    return render_template("_agent_memories.html", group=group, agent={"agent_id": agent}, **data)


@blueprint.get("/agents/<name:group>/<name:agent>/keywords")
def keywords(group: str, agent: str) -> str:
    """The next keywords, weaker ones."""
    storable(group, agent)
    offset, most = inputs.whole("offset", MAX_KEYWORDS) or 0, inputs.whole("most") or 1
    found = from_database(lambda c: agent_reads.keywords(c, group, agent, KEYWORDS_PER_PAGE + 1, offset=offset))
    return render_template("_keywords.html", group=group, agent={"agent_id": agent}, strongest=most, **_keywords(found, offset))


@blueprint.post("/agents/<name:group>/<name:agent>/settings")
def configure(group: str, agent: str) -> ResponseReturnValue:
    """Set what the form changes. Safe to repeat because it sets, and adds nothing."""
    need("admin")
    changes = agent_settings.changes(_row(group, agent).settings, request.form)
    perform(actions.configure, checked(actions.configure.request, **{"agent_id": agent, **changes}))
    if not wants_fragment():
        return redirect(url_for("agents.agent", group=group, agent=agent), 303)
    row = _row(group, agent)
    return render_template("_agent_settings.html", group=group, agent=row, form=agent_settings.fields(row.settings), saved=True)


door(
    blueprint,
    "/agents/<name:group>/<name:agent>/reflect",
    reflection.request_reflection,
    "reflections.reflection",
    name="reflect",
    named={"agent_id": "agent"},
    scope="admin",
)


def _keywords(found: Sequence[KeywordStrength], offset: int) -> Context:
    following = offset + KEYWORDS_PER_PAGE if len(found) > KEYWORDS_PER_PAGE else None
    return {"keywords": found[:KEYWORDS_PER_PAGE], "keywords_next": following}


def _row(group: str, agent: str) -> AgentState:
    storable(group, agent)
    found = from_database(lambda connection: agent_reads.agent(connection, group, agent))
    if found is None:
        abort(404, str(NO_AGENT) % {"agent": agent, "group": group})
    return found


def _nodes(connection: Connection, group: str, agent: str) -> Context:
    """The agent's memories as the address asks for them, and what it asks for, to be passed on to the next page."""
    type_, before = inputs.choice("type", NODE_TYPES), inputs.whole("before")
    begin, end = inputs.moment("from"), inputs.moment("to", end=True)
    wanted = MemoryFilter(agent_id=agent, types=[type_] if type_ else (), archived="with", created_from=begin, created_to=end)
    found = search(connection, FoundMemory, group, wanted, before, NODES_PER_PAGE + 1)
    nodes = listed("nodes", found, NODES_PER_PAGE, "node_count")
    return {"type": type_, "before": before, "begin": asked("from"), "end": asked("to"), **nodes}
