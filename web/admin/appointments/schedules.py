"""Schedules of agents: what is to be done when, the next runs, and a box to try how a sentence is read."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from flask import Blueprint
from flask_babel import lazy_gettext
from sqlalchemy import Connection

from jiyi.protocol.appointments import MAX_TEXT_CHARS, ScheduleState
from models.appointments import schedule_actions, schedules
from web.admin import inputs
from web.admin.acting import action_form_route, perform
from web.admin.frame import Page, asked, group
from web.admin.pages import Context, listed, page, reads_database

blueprint = Blueprint("appointments", __name__)
PAGES = (Page("growth", lazy_gettext("Appointments"), "appointments.page"),)

PER_PAGE, NEXT_RUNS = 50, 3
RUNS_SHOWN = 50
NO_SCHEDULE = lazy_gettext("There is no schedule %(id)s in the group “%(group)s”.")


@page(blueprint, "/growth/schedules", "appointments.html")
def schedules_page() -> Context:
    agent, text, tz = asked("agent"), asked("text", MAX_TEXT_CHARS), asked("tz")
    tried = perform(schedule_actions.parse_schedule, text=text, tz=tz or "UTC") if text else None
    return {"agent": agent, **_rows(agent), "text": text, "tz": tz, "tried": tried}


@page(blueprint, "/growth/schedules/<uuid:schedule_id>", "appointment.html", name="one", missing=NO_SCHEDULE)
def schedule_page(connection: Connection, group: str, schedule_id: Any) -> Context | None:
    schedule = schedules.find(connection, group, schedule_id)
    if schedule is None:
        return None
    return {"schedule": _shown(schedule), "runs": schedules.runs_of(connection, group, schedule_id, RUNS_SHOWN)}


action_form_route(
    blueprint,
    "/growth/schedules/<uuid:schedule_id>/<any(pause, resume, delete):verb>",
    {"pause": schedule_actions.pause_schedule, "resume": schedule_actions.resume_schedule, "delete": schedule_actions.delete_schedule},
    "appointments.page",
    name="change",
    field_names={"id": "schedule_id"},
    scope="admin",
)


@reads_database
def _rows(connection: Connection, agent: str | None) -> Context:
    state, after = inputs.choice("state", ("active", "paused", "ended")), inputs.identifier("after")
    listing = listed("schedules", schedules.schedule_page(connection, group(), agent, state, after, PER_PAGE + 1), PER_PAGE, "id")
    return {**listing, "schedules": [_shown(row) for row in listing["schedules"]]}


def _shown(row: ScheduleState) -> Context:
    return {**dict(row), "next_runs": schedules.upcoming(row, datetime.now(UTC), NEXT_RUNS)}
