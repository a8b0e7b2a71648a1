"""Appointments of agents, with a box to try how a sentence is read; heartbeats and their alerts."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from typing import Any

from flask import request, url_for
from flask_babel import lazy_gettext
from sqlalchemy import Connection

from jiyi.protocol.appointments import MAX_TEXT_CHARS, ScheduleState
from jiyi.protocol.base import BY_ID, BY_NAME, composed
from models.appointments import heartbeat_actions, heartbeats, schedule_actions, schedules
from models.memory import agents
from web.admin import inputs
from web.admin.acting import form, perform
from web.admin.frame import MenuPage, group, parameter
from web.admin.pages import Context, Pages, listed, reads_database

appointment_pages = Pages(
    "appointments",
    __name__,
    MenuPage("appointments", lazy_gettext("Appointments"), "appointments.page", table="schedules"),
)

SCHEDULES_PER_PAGE, NEXT_RUNS = 50, 3
RUNS_SHOWN = 50
NO_SCHEDULE = lazy_gettext("There is no schedule %(id)s in the group “%(group)s”.")


@appointment_pages.page("/growth/schedules", "appointments.html")
def schedules_page() -> Context:
    agent, text, tz = parameter("agent"), parameter("text", MAX_TEXT_CHARS), parameter("tz")
    user = parameter("user")
    trial = perform(schedule_actions.parse_schedule, text=text, tz=tz or "UTC") if text else None
    return {
        "agent": agent,
        "user": user,
        **_schedules(agent, user and composed(user)),
        "text": text,
        "tz": tz,
        "tried": trial,
    }


@appointment_pages.page("/growth/schedules/<uuid:schedule_id>", "appointment.html", "one", NO_SCHEDULE)
def schedule_page(connection: Connection, group: str, schedule_id: Any) -> Context | None:
    schedule = schedules.find(connection, group, schedule_id)
    if schedule is None:
        return None
    runs = schedules.runs_of(connection, group, schedule_id, RUNS_SHOWN)
    return {"schedule": _with_next_runs(schedule), "runs": runs}


def _created(values: Context) -> str:
    """To the appointment; to what was read and why, if it was not clear."""
    if values["schedule"] is not None:
        return url_for("appointments.one", group=group(), schedule_id=values["schedule"].id)
    typed = {name: values.get(name) for name in ("agent", "text", "tz")}
    return url_for("appointments.page", group=group(), **typed)


SCHEDULES = "/growth/schedules"
SCHEDULE, UPDATE = f"{SCHEDULES}/<uuid:schedule_id>", schedule_actions.update_schedule
_form = partial(form, appointment_pages, scope="admin")
_form(SCHEDULES, schedule_actions.create_schedule, _created, name="create")
_form(SCHEDULE, UPDATE, "appointments.one", name="update")
_form(f"{SCHEDULE}/pause", UPDATE, "appointments.page", also={"paused": True})
_form(f"{SCHEDULE}/resume", UPDATE, "appointments.page", also={"paused": False})
_form(f"{SCHEDULE}/delete", schedule_actions.delete_schedule, "appointments.page")


@reads_database
def _schedules(connection: Connection, agent: str | None, user: str | None) -> Context:
    state, after = inputs.choice("state", ("active", "paused", "ended")), inputs.place(BY_ID)
    rows = schedules.schedule_page(connection, group(), agent, user, state, after, SCHEDULES_PER_PAGE + 1)
    listing = listed("schedules", rows, SCHEDULES_PER_PAGE, "id")
    names = agents.agent_names(connection, group())
    return {**listing, "agents": names, "schedules": [_with_next_runs(row) for row in listing["schedules"]]}


def _with_next_runs(row: ScheduleState) -> Context:
    return {**dict(row), "next_runs": schedules.upcoming(row, datetime.now(UTC), NEXT_RUNS)}


def _with_quiet_hours(fields: Context) -> Context:
    hours = {"start": request.form.get("quiet_start", ""), "end": request.form.get("quiet_end", "")}
    return {**fields, "quiet_hours": hours if any(hours.values()) else None}


heartbeat_pages = Pages(
    "heartbeats",
    __name__,
    MenuPage("appointments", lazy_gettext("Heartbeats"), "heartbeats.page", table="heartbeats"),
)

AGENTS_PER_PAGE, ALERTS_SHOWN, TICKS_SHOWN = 50, 50, 50
NO_HEARTBEAT = lazy_gettext("The agent “%(agent)s” of the group “%(group)s” has no heartbeat.")


@heartbeat_pages.page("/growth/heartbeats", "heartbeats.html")
def heartbeats_page(connection: Connection, group: str) -> Context:
    rows = heartbeats.heartbeat_page(connection, group, inputs.place(BY_NAME) or "", AGENTS_PER_PAGE + 1)
    listing, now = listed("heartbeats", rows, AGENTS_PER_PAGE, "agent_id"), datetime.now(UTC)
    latest: Context = {"after": None, "limit": ALERTS_SHOWN}
    waiting = heartbeats.alert_page(connection, group, None, everything=False, channel="ui", **latest)
    states = [_heartbeat(row, now) for row in listing["heartbeats"]]
    names = agents.agent_names(connection, group)
    return {**listing, "heartbeats": states, "alerts": waiting, "agents": names}


@heartbeat_pages.page("/growth/heartbeats/<name:agent>", "heartbeat.html", "one", NO_HEARTBEAT)
def heartbeat_page(connection: Connection, group: str, agent: str) -> Context | None:
    row = heartbeats.find(connection, (group, agent))
    if row is None:
        return None
    alert_rows = heartbeats.alert_page(
        connection, group, agent, everything=True, after=None, limit=ALERTS_SHOWN
    )
    ticks = heartbeats.history(connection, (group, agent), TICKS_SHOWN)
    return {"heartbeat": _heartbeat(row, datetime.now(UTC)), "alerts": alert_rows, "ticks": ticks}


def _configured(values: Context) -> str:
    return url_for("heartbeats.one", group=group(), agent=values["agent"])


HEARTBEATS = "/growth/heartbeats"
HEARTBEAT, CONFIGURE = f"{HEARTBEATS}/<name:agent>", heartbeat_actions.configure_heartbeat
_form = partial(form, heartbeat_pages, scope="admin")
_form(HEARTBEATS, CONFIGURE, _configured, name="configure", check=_with_quiet_hours)
_form(f"{HEARTBEAT}/on", CONFIGURE, "heartbeats.one", also={"enabled": True})
_form(f"{HEARTBEAT}/off", CONFIGURE, "heartbeats.one", also={"enabled": False})
_form(f"{HEARTBEAT}/tick", heartbeat_actions.tick_heartbeat, "heartbeats.one")
ACKNOWLEDGE = heartbeat_actions.acknowledge_alerts
_form("/growth/alerts/acknowledge", ACKNOWLEDGE, "heartbeats.page", names={"ids": "alert"})


def _heartbeat(row: Any, now: datetime) -> Context:
    state = heartbeats.state_of(row, now)
    return {**state.config.model_dump(mode="json"), **state.model_dump(exclude={"config", "open_alerts"})}


BLUEPRINTS = (appointment_pages, heartbeat_pages)
