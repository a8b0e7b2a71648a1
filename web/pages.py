"""The pages. Each has a JSON form; none changes anything."""

from __future__ import annotations

from typing import Any, get_args
from uuid import UUID

from flask import Blueprint, Response, abort, render_template, request
from sqlalchemy import Connection

from jiyi.events import NodeType
from jiyi.settings import get_settings
from models import dead, listing, overview
from models.valkey import valkey
from web import memories
from web.answers import answer, json_answer
from web.overview import gather, pick_group, with_reflection
from web.sources import attempt, from_database, reading, source

blueprint = Blueprint("pages", __name__)

NODES_PER_PAGE = 50
LETTERS_PER_PAGE = 50
#: Strongest keywords that stand beside an agent's memories.
KEYWORDS_SHOWN = 30
NODE_TYPES: tuple[str, ...] = get_args(NodeType)
#: ``node_count`` is an ``integer`` in PostgreSQL.
MAX_NODE_COUNT = 2**31 - 1


@blueprint.get("/")
@blueprint.get("/overview.json", endpoint="index_json")
def index() -> Response:
    return answer("overview.html", data=gather(_asked("group"), _asked("after") or ""))


@blueprint.get("/overview/live")
def live() -> str:
    """The part of the overview that a browser asks for again and again."""
    return render_template("_overview.html", **gather(_asked("group"), _asked("after") or ""))


@blueprint.get("/agents/<name:group>/<name:agent>")
@blueprint.get("/agents/<name:group>/<name:agent>.json", endpoint="agent_json")
def agent_page(group: str, agent: str) -> Response:
    _storable(group, agent)
    chosen = request.args.get("type", "")
    if chosen and chosen not in NODE_TYPES:
        abort(400, f"type: must be one of {', '.join(NODE_TYPES)}.")
    before = _before()

    def question(connection: Connection) -> dict[str, Any] | None:
        found = overview.agent(connection, group, agent)
        if found is None:
            return None
        types = [chosen] if chosen else list(NODE_TYPES)
        rows = listing.nodes(connection, group, agent, types, before, NODES_PER_PAGE + 1)
        nodes = rows[:NODES_PER_PAGE]
        return {
            "agent": with_reflection(found),
            "nodes": nodes,
            "next": nodes[-1]["node_count"] if len(rows) > NODES_PER_PAGE else None,
            "keywords": listing.keywords(connection, group, agent, 0, KEYWORDS_SHOWN),
            "groups": overview.groups(connection),
        }

    data = from_database(question)
    if data is None:
        abort(404, f"There is no agent “{agent}” in the group “{group}”.")
    return answer("agent.html", data={"group": group, "type": chosen or None, "before": before, **data}, types=NODE_TYPES)


@blueprint.get("/nodes/<name:group>/<uuid:node_id>")
@blueprint.get("/nodes/<name:group>/<uuid:node_id>.json", endpoint="node_json")
def node_page(group: str, node_id: UUID) -> Response:
    _storable(group)
    data = memories.one(group, node_id)
    if data is None:
        abort(404, f"There is no memory {node_id} in the group “{group}”.")
    return answer("node.html", data=data)


@blueprint.get("/dead")
@blueprint.get("/dead.json", endpoint="dead_json")
def dead_page() -> Response:
    asked, kind, before = _asked("group"), _asked("kind"), _letter()

    def question(connection: Connection) -> dict[str, Any]:
        group, groups = pick_group(connection, asked)
        rows = dead.letters(connection, group, "open", kind, before, LETTERS_PER_PAGE + 1)
        letters = rows[:LETTERS_PER_PAGE]
        return {
            "group": group,
            "groups": groups,
            "kind": kind,
            "open": overview.open_dead_letters(connection, group),
            "letters": letters,
            "before": before,
            "next": letters[-1]["letter_id"] if len(rows) > LETTERS_PER_PAGE else None,
        }

    return answer("dead.html", data=from_database(question))


@blueprint.get("/healthz")
def healthz() -> Response:
    """This process is up; nothing else is asked."""
    return json_answer({"status": "up"})


@blueprint.get("/readyz")
def readyz() -> Response:
    """Whether pages can be filled: the database and Valkey answer."""
    get_settings()
    asked = {
        "database": source("database").begin(reading(lambda connection: bool(overview.groups(connection)) or True)),
        "valkey": source("Valkey").begin(lambda: bool(valkey().ping())),
    }
    readings = {name: attempt(answer) for name, answer in asked.items()}
    ready = all(reading.value is not None for reading in readings.values())
    parts = {name: "ok" if reading.value is not None else reading.reason for name, reading in readings.items()}
    return json_answer({"status": "ready" if ready else "not ready", **parts}, 200 if ready else 503)


def _asked(name: str) -> str | None:
    value = request.args.get(name) or None
    _storable(value or "")
    return value


def _storable(*names: str) -> None:
    """PostgreSQL's text holds neither NUL nor half a surrogate pair, so nothing has such a name."""
    for name in names:
        if "\x00" in name or any("\ud800" <= character <= "\udfff" for character in name):
            abort(404)


def _before() -> int | None:
    text = request.args.get("before", "")
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 10 and 1 <= int(text) <= MAX_NODE_COUNT):
        abort(400, "before: must be the number of a memory.")
    return int(text)


def _letter() -> UUID | None:
    text = request.args.get("before", "")
    try:
        return UUID(text) if text else None
    except ValueError:
        abort(400, "before: must be the id of a dead letter.")
