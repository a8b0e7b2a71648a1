"""Memories: search over a group, newest first, page by page."""

from __future__ import annotations

from typing import get_args

from flask import Blueprint, Response, render_template
from flask_babel import lazy_gettext
from sqlalchemy import Connection

from jiyi.protocol.events import NodeType
from models.memory.agents import reads as agent_reads
from models.memory.search import MAX_WORDS_CHARS, Archived, FoundMemory, MemoryFilter, Place, search
from web.admin import frame, inputs
from web.admin.frame import Page, asked
from web.admin.memory import changing, marking
from web.admin.memory.node import add_routes
from web.answers import answer
from web.sources import Reading, attempt, from_database

blueprint = Blueprint("memories", __name__)
PAGES = (Page("memory", lazy_gettext("Memories"), "memories.index"),)

add_routes(blueprint)
changing.add_routes(blueprint)

PER_PAGE = 30
#: Agents that the form offers; others can be typed.
AGENTS_OFFERED = 500
NODE_TYPES: tuple[str, ...] = get_args(NodeType)
ARCHIVED: tuple[str, ...] = get_args(Archived)
FILTERS = ("q", "agent", "type", "session", "from", "to", "importance", "keyword", "archived", "vector")


@blueprint.get("/memories")
@blueprint.get("/memories.json", endpoint="index_json")
def index() -> Response:
    wanted, before = _wanted(), _before()
    found = _find(wanted, before)
    data = {
        "group": frame.group(),
        "filters": _filters(),
        "before": asked("before"),
        "agents": _agents(),
        "types": NODE_TYPES,
        **_page(found, wanted),
    }
    return answer("memories.html", 200 if found.value is not None else 503, data=data, archived_choices=ARCHIVED)


@blueprint.get("/memories/rows")
def rows() -> str:
    """The following memories, to be put in the place of the button that asked for them."""
    wanted = _wanted()
    found = _find(wanted, _before())
    return render_template("_memories.html", filters=_filters(), group=frame.group(), **_page(found, wanted))


def _find(wanted: MemoryFilter, before: Place | None) -> Reading[list[FoundMemory]]:
    group = frame.group()

    def question(connection: Connection) -> list[FoundMemory]:
        return search(connection, FoundMemory, group, wanted, before, PER_PAGE + 1)

    return attempt(lambda: from_database(question))


def _page(found: Reading[list[FoundMemory]], wanted: MemoryFilter) -> dict[str, object]:
    if found.value is None:
        return {"nodes": None, "why_unknown": found.reason, "next": None}
    nodes = [{**dict(node), "pieces": marking.pieces(node.description, wanted.words)} for node in found.value[:PER_PAGE]]
    more = len(found.value) > PER_PAGE
    return {"nodes": nodes, "why_unknown": None, "next": _after(found.value[PER_PAGE - 1], wanted) if more else None}


def _after(node: FoundMemory, wanted: MemoryFilter) -> str:
    """Where the next page begins: behind a number with an agent, behind a time and an id without."""
    return str(node.node_count) if wanted.agent_id is not None else inputs.packed(node.created_at, node.node_id)


def _before() -> Place | None:
    return inputs.unpacked() if asked("agent") is None else inputs.whole("before")


def _wanted() -> MemoryFilter:
    archived = inputs.choice("archived", ARCHIVED)
    return MemoryFilter(
        words=asked("q", MAX_WORDS_CHARS) or "",
        agent_id=asked("agent"),
        types=inputs.choices("type", NODE_TYPES),
        session_id=asked("session"),
        created_from=inputs.moment("from"),
        created_to=inputs.moment("to", end=True),
        importance=inputs.decimal("importance", 0, 10),
        keyword=asked("keyword") or "",
        archived=archived if archived in ("with", "only") else "without",  # type: ignore[arg-type]
        without_vector=inputs.choice("vector", ("without",)) is not None,
    )


def _filters() -> dict[str, object]:
    """As they stand in the address: to fill the form, and for the address of the next page."""
    types = inputs.choices("type", NODE_TYPES)
    return inputs.given(FILTERS) | ({"type": types} if types else {})


def _agents() -> list[str]:
    group = frame.group()
    found = attempt(lambda: from_database(lambda c: agent_reads.names(c, group, AGENTS_OFFERED)))
    return found.value or []
