"""Reflections: what agents have thought about, from which evidence, and what came in the way."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from flask import Blueprint, Response, abort, render_template
from flask_babel import gettext, lazy_gettext
from sqlalchemy import Connection

from models.memory import agent_reads
from models.reflection import reads
from web.admin import frame, inputs
from web.admin.frame import Page, asked
from web.answers import answer
from web.sources import from_database

blueprint = Blueprint("reflections", __name__)
PAGES = (Page("memory", lazy_gettext("Reflections"), "reflections.page"),)

PER_PAGE = 30
STATES = ("owed", "running", "waiting", "done", "nothing", "given up")
TRIGGERS = ("importance", "schedule", "request", "conversation")
AGENTS_OFFERED = 500


@blueprint.get("/reflections")
@blueprint.get("/reflections.json", endpoint="page_json")
def page() -> Response:
    return answer("reflections.html", data=_data(), states=STATES, triggers=TRIGGERS)


@blueprint.get("/reflections/rows")
def rows() -> str:
    """The following ones, to be put in the place of the button that asked for them."""
    return render_template("_reflections.html", **_data())


def _data() -> dict[str, Any]:
    group, before = frame.group(), inputs.unpacked()
    filters = {"agent": asked("agent"), "state": inputs.choice("state", STATES), "trigger": inputs.choice("trigger", TRIGGERS)}

    def question(connection: Connection) -> dict[str, Any]:
        found = reads.reflections(
            connection,
            group,
            agent_id=filters["agent"],
            state=filters["state"],
            trigger=filters["trigger"],
            before=before,
            limit=PER_PAGE + 1,
        )
        return {
            "agents": agent_reads.names(connection, group, AGENTS_OFFERED),
            "reflections": found[:PER_PAGE],
            "next": None if len(found) <= PER_PAGE else inputs.packed(found[PER_PAGE - 1].created_at, found[PER_PAGE - 1].reflection_id),
        }

    return {"group": group, "filters": filters, "before": asked("before"), **from_database(question)}


@blueprint.get("/reflections/<name:group>/<uuid:reflection_id>")
@blueprint.get("/reflections/<name:group>/<uuid:reflection_id>.json", endpoint="reflection_json")
def reflection(group: str, reflection_id: UUID) -> Response:
    found = from_database(lambda connection: reads.reflection(connection, group, reflection_id))
    if found is None:
        abort(404, gettext("There is no reflection %(id)s in the group “%(group)s”.", id=reflection_id, group=group))
    return answer("reflection.html", data={"group": group, "reflection": found})
