"""Reflections: what agents have thought about, from which evidence, and what came in the way."""

from __future__ import annotations

from typing import get_args
from uuid import UUID

from flask import Blueprint
from flask_babel import lazy_gettext
from sqlalchemy import Connection

from jiyi.protocol.reflection import State, Trigger
from models.memory import agents
from models.reflection import actions
from web.admin import inputs
from web.admin.frame import Page, asked
from web.admin.pages import Context, listed, page

blueprint = Blueprint("reflections", __name__)
PAGES = (Page("memory", lazy_gettext("Reflections"), "reflections.page"),)

PER_PAGE = 30
STATES: tuple[State, ...] = get_args(State)
TRIGGERS: tuple[Trigger, ...] = get_args(Trigger)
NONE = lazy_gettext("There is no reflection %(id)s in the group “%(group)s”.")


@page(blueprint, "/reflections", "reflections.html", rows="_reflections.html", states=STATES, triggers=TRIGGERS)
def some(connection: Connection, group: str) -> Context:
    agent, state, trigger = asked("agent"), inputs.choice("state", STATES), inputs.choice("trigger", TRIGGERS)
    reflections = actions.reflection_page(
        connection, group, agent_id=agent, state=state, trigger=trigger, before=inputs.unpacked(), limit=PER_PAGE + 1
    )
    return {
        "filters": {"agent": agent, "state": state, "trigger": trigger},
        "agents": agents.agent_names(connection, group),
        **listed("reflections", reflections, PER_PAGE, "created_at", "reflection_id"),
    }


@page(blueprint, "/reflections/<name:group>/<uuid:reflection_id>", "reflection.html", name="reflection", missing=NONE)
def reflection(connection: Connection, group: str, reflection_id: UUID) -> Context | None:
    reflection_ = actions.find_reflection(connection, group, reflection_id)
    return None if reflection_ is None else {"reflection": reflection_}
