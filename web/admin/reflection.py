"""Reflections: what agents have thought about, from which evidence, and what came in the way."""

from __future__ import annotations

from typing import get_args
from uuid import UUID

from flask import Blueprint
from flask_babel import lazy_gettext
from sqlalchemy import Connection

from jiyi.protocol.reflection import State, Trigger
from models.memory.agents import reads as agent_reads
from models.reflection import reads
from web.admin import inputs
from web.admin.frame import Page, asked
from web.admin.pages import page, reads_database, split_page

blueprint = Blueprint("reflections", __name__)
PAGES = (Page("memory", lazy_gettext("Reflections"), "reflections.page"),)

PER_PAGE = 30
STATES: tuple[State, ...] = get_args(State)
TRIGGERS: tuple[Trigger, ...] = get_args(Trigger)
AGENTS_OFFERED = 500


@page(blueprint, "/reflections", "reflections.html", rows="_reflections.html", states=STATES, triggers=TRIGGERS)
@reads_database
def listed(connection: Connection, group: str) -> dict[str, object]:
    agent, state, trigger = asked("agent"), inputs.choice("state", STATES), inputs.choice("trigger", TRIGGERS)
    found = reads.reflections(connection, group, agent_id=agent, state=state, trigger=trigger, before=inputs.unpacked(), limit=PER_PAGE + 1)
    reflections, following = split_page(found, PER_PAGE, lambda last: inputs.packed(last.created_at, last.reflection_id))
    return {
        "filters": {"agent": agent, "state": state, "trigger": trigger},
        "before": asked("before"),
        "agents": agent_reads.names(connection, group, AGENTS_OFFERED),
        "reflections": reflections,
        "next": following,
    }


@page(
    blueprint,
    "/reflections/<name:group>/<uuid:reflection_id>",
    "reflection.html",
    name="reflection",
    missing=lazy_gettext("There is no reflection %(id)s in the group “%(group)s”."),
)
@reads_database
def reflection(connection: Connection, group: str, reflection_id: UUID) -> dict[str, object] | None:
    found = reads.reflection(connection, group, reflection_id)
    return None if found is None else {"reflection": found}
