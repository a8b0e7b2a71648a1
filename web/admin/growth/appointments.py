"""Schedules of agents: what is to be done when, the next runs, and a box to try how a sentence is read."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from flask import Blueprint, url_for
from flask.typing import ResponseReturnValue
from flask_babel import lazy_gettext
from sqlalchemy import Connection

from jiyi.growth.schedules.next_runs import next_runs
from jiyi.protocol.growth.schedules import MAX_TEXT_CHARS, ScheduleState
from models.db.actions import Action
from models.growth.schedules import actions as schedule_actions
from models.growth.schedules import schedules
from web.accounts.identity import need
from web.admin import inputs
from web.admin.acting import perform
from web.admin.frame import Page, asked, group
from web.admin.pages import page, reads_database, redirect_to, split_page

blueprint = Blueprint("appointments", __name__)
PAGES = (Page("growth", lazy_gettext("Appointments"), "appointments.page"),)

PER_PAGE, NEXT_RUNS = 50, 3
RUNS_SHOWN = 50
NO_SCHEDULE = lazy_gettext("There is no schedule %(id)s in the group “%(group)s”.")
_CHANGES: dict[str, Action[Any, Any]] = {
    "pause": schedule_actions.pause_schedule,
    "resume": schedule_actions.resume_schedule,
    "delete": schedule_actions.delete_schedule,
}


@page(blueprint, "/growth/schedules", "appointments.html")
def listed(**_: Any) -> dict[str, object]:
    agent, said, tz = asked("agent"), asked("text", MAX_TEXT_CHARS), asked("tz")
    rows, following = _rows(agent)
    tried = perform(schedule_actions.parse_schedule, text=said, tz=tz or "UTC") if said else None
    return {"agent": agent, "schedules": rows, "next": following, "text": said, "tz": tz, "tried": tried}


@page(blueprint, "/growth/schedules/<uuid:schedule_id>", "appointment.html", name="one", missing=NO_SCHEDULE)
@reads_database
def one(connection: Connection, group: str, schedule_id: Any) -> dict[str, object] | None:
    found = schedules.find(connection, group, schedule_id)
    if found is None:
        return None
    return {"schedule": _shown(found), "runs": schedules.runs(connection, group, schedule_id, RUNS_SHOWN)}


@blueprint.post("/growth/schedules/<uuid:schedule_id>/<any(pause, resume, delete):change>")
def change(schedule_id: Any, change: str) -> ResponseReturnValue:
    """Pause, resume or delete one."""
    need("admin")
    perform(_CHANGES[change], id=schedule_id)
    return redirect_to(url_for("appointments.page", group=group()))


@reads_database
def _rows(connection: Connection, agent: str | None) -> tuple[list[dict[str, object]], Any]:
    found = schedules.some(
        connection, group(), agent, inputs.choice("state", ("active", "paused", "ended")), inputs.identifier("after"), PER_PAGE + 1
    )
    shown, following = split_page(found, PER_PAGE, lambda last: last.id)
    return [_shown(row) for row in shown], following


def _shown(row: ScheduleState) -> dict[str, object]:
    """With its next runs, in its own time zone for people."""
    timing = {"kind": row.kind, "cron": row.cron, "at": row.at, "every_seconds": row.every_seconds, "tz": row.tz}
    times = next_runs(**timing, after=datetime.now(UTC), count=NEXT_RUNS) if row.state == "active" else ()  # type: ignore[arg-type]
    return {**dict(row), "next_runs": list(times)}
