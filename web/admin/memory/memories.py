"""Memories: search over a group, newest first, page by page; adding one by hand."""

from __future__ import annotations

from typing import get_args

from flask import Blueprint, Response, render_template
from flask_babel import lazy_gettext
from sqlalchemy import Connection

from engine.text import marking
from jiyi.protocol.events import NodeType
from models.db.bounded_reads import attempt, from_database
from models.memory import actions, agent_reads
from models.memory.search import MAX_WORDS_CHARS, Archived, FoundMemory, MemoryFilter, search
from web.admin import frame, inputs
from web.admin.acting import door
from web.admin.frame import Page, asked
from web.admin.pages import Context, listed
from web.answers import answer

blueprint = Blueprint("memories", __name__)
blueprint.add_app_template_filter(marking.pieces, "pieces")
PAGES = (Page("memory", lazy_gettext("Memories"), "memories.index"),)

PER_PAGE = 30
NODE_TYPES: tuple[str, ...] = get_args(NodeType)
ARCHIVED: tuple[str, ...] = get_args(Archived)
FILTERS = ("q", "agent", "type", "session", "from", "to", "importance", "keyword", "archived", "vector")


@blueprint.get("/memories")
@blueprint.get("/memories.json", endpoint="index_json")
def index() -> Response:
    group, found = frame.group(), _found()
    names = attempt(lambda: from_database(lambda connection: agent_reads.names(connection, group)))
    data = {"group": group, "agents": names.value or [], "types": NODE_TYPES, **found}
    return answer("memories.html", 200 if found["nodes"] is not None else 503, data=data, archived_choices=ARCHIVED)


@blueprint.get("/memories/rows")
def rows() -> str:
    """The following memories, to be put in the place of the button that asked for them."""
    return render_template("_memories.html", group=frame.group(), **_found())


#: Sent again it adds another one, unless the agent remembers each content once.
door(blueprint, "/memories/add", actions.add_memory, "memories.node", name="add", named={"agent_id": "agent"})


def _found() -> Context:
    """One page: with an agent the next one begins behind a number, without behind a time and an id. A search may take too long."""
    group, wanted = frame.group(), _wanted()
    before = inputs.unpacked() if wanted.agent_id is None else inputs.whole("before")

    def question(connection: Connection) -> list[FoundMemory]:
        return search(connection, FoundMemory, group, wanted, before, PER_PAGE + 1)

    found = attempt(lambda: from_database(question))
    place = ("created_at", "node_id") if wanted.agent_id is None else ("node_count",)
    shown = {"nodes": None, "before": None, "next": None} if found.value is None else listed("nodes", found.value, PER_PAGE, *place)
    types = inputs.choices("type", NODE_TYPES)
    filters = {**inputs.given(FILTERS), **({"type": types} if types else {})}
    return {**shown, "why_unknown": found.reason or None, "filters": filters}


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
