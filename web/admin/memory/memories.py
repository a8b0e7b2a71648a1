"""Memories: search over a group, newest first, page by page; adding one by hand."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, get_args

from flask import Blueprint, Response, render_template, stream_with_context
from flask_babel import lazy_gettext
from sqlalchemy import Connection

from engine.text import marking
from jiyi.protocol.base import NodeType
from jiyi.protocol.memory import ExportQuery
from models.db.bounded_reads import attempt, from_database
from models.memory import actions, agent_reads, questions
from models.memory.search import MAX_WORDS_CHARS, Archived, FoundMemory, MemoryFilter, search
from web.admin import frame, inputs
from web.admin.acting import action_form_route, perform
from web.admin.frame import Page, asked
from web.admin.pages import Context, listed, page
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
    group, gathered = frame.group(), _found()
    names = attempt(lambda: from_database(lambda connection: agent_reads.names(connection, group)))
    data = {"group": group, "agents": names.value or [], "types": NODE_TYPES, **gathered}
    return answer("memories.html", 200 if gathered["nodes"] is not None else 503, data=data, archived_choices=ARCHIVED)


@blueprint.get("/memories/rows")
def rows() -> str:
    """The following memories, to be put in the place of the button that asked for them."""
    return render_template("_memories.html", group=frame.group(), **_found())


#: Sent again it adds another one, unless the agent remembers each content once.
action_form_route(blueprint, "/memories/add", actions.add_memory, "memories.node", name="add", field_names={"agent_id": "agent"})


def _found() -> Context:
    """One page: with an agent the next one begins behind a number, without behind a time and an id. A search may take too long."""
    group, wanted = frame.group(), _wanted()
    before = inputs.unpacked() if wanted.agent_id is None else inputs.whole("before")

    def question(connection: Connection) -> list[FoundMemory]:
        return search(connection, FoundMemory, group, wanted, before, PER_PAGE + 1)

    reading = attempt(lambda: from_database(question))
    place = ("created_at", "node_id") if wanted.agent_id is None else ("node_count",)
    shown = {"nodes": None, "before": None, "next": None} if reading.value is None else listed("nodes", reading.value, PER_PAGE, *place)
    types = inputs.choices("type", NODE_TYPES)
    filters = {**inputs.given(FILTERS), **({"type": types} if types else {})}
    return {**shown, "why_unknown": reading.reason or None, "filters": filters}


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


#: Events of one transaction of an export.
EXPORTED_AT_ONCE = 200


@blueprint.get("/memories/export.jsonl")
def export() -> Response:
    """The events of the group, or of an agent, one a line, as ``jiyi import jsonl`` takes them back."""
    agent = asked("agent")
    name = "".join(character if character.isalnum() else "-" for character in agent or frame.group())[:80]
    headers = {"Content-Disposition": f'attachment; filename="jiyi-{name.encode("ascii", "replace").decode().replace("?", "-")}.jsonl"'}
    first = _page(agent, None)  # what is wrong is said before the file begins
    return Response(stream_with_context(_lines(agent, first)), mimetype="application/x-ndjson", headers=headers)


def _lines(agent: str | None, page: Any) -> Iterator[str]:
    while True:
        for row in page.rows:
            yield json.dumps(row, ensure_ascii=False, default=str) + "\n"
        if page.next is None:
            return
        page = _page(agent, page.next)


def _page(agent: str | None, after: int | None) -> Any:
    return perform(questions.export, ExportQuery(agent_id=agent, after=after, limit=EXPORTED_AT_ONCE))


TURNS_PER_PAGE = 200


class Turn(FoundMemory):
    """A memory of a session, and who it is about: of what was said, who said it."""

    subject: str | None


NO_SESSION = lazy_gettext("The agent “%(agent)s” has no session “%(session)s” in the group “%(group)s”.")


@page(blueprint, "/sessions/<name:group>/<name:agent>/<name:session>", "session.html", name="session", missing=NO_SESSION)
def one(connection: Connection, group: str, agent: str, session: str) -> Context | None:
    wanted = MemoryFilter(agent_id=agent, session_id=session, archived="with")
    before = inputs.whole("before")
    nodes = search(connection, Turn, group, wanted, before, TURNS_PER_PAGE + 1)
    if not nodes and before is None:
        return None
    turns = listed("turns", nodes, TURNS_PER_PAGE, "node_count")
    return {"agent_id": agent, "session_id": session, "turns": [_turn(turn) for turn in reversed(turns["turns"])], "older": turns["next"]}


def _turn(memory: Turn) -> Context:
    """A memory, and who speaks if it is something that was said."""
    return {**memory.model_dump(), "speaker": memory.subject if memory.kind == "session" else None}
