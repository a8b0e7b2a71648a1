"""Heartbeats of agents, and the alerts that wait for somebody to acknowledge them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from flask import Blueprint
from flask_babel import lazy_gettext
from sqlalchemy import Connection

from models.appointments import heartbeat_actions, heartbeats
from web.admin.acting import action_form_route
from web.admin.frame import Page, asked
from web.admin.pages import Context, listed, page

blueprint = Blueprint("heartbeats", __name__)
PAGES = (Page("growth", lazy_gettext("Heartbeats"), "heartbeats.page"),)

AGENTS_PER_PAGE, ALERTS_SHOWN, TICKS_SHOWN = 50, 50, 50
NO_HEARTBEAT = lazy_gettext("The agent “%(agent)s” of the group “%(group)s” has no heartbeat.")


@page(blueprint, "/growth/heartbeats", "heartbeats.html")
def heartbeats_page(connection: Connection, group: str) -> Context:
    rows = heartbeats.heartbeat_page(connection, group, asked("after") or "", AGENTS_PER_PAGE + 1)
    listing, now = listed("heartbeats", rows, AGENTS_PER_PAGE, "agent_id"), datetime.now(UTC)
    waiting = heartbeats.alert_page(connection, group, None, everything=False, after=None, limit=ALERTS_SHOWN)
    return {**listing, "heartbeats": [_shown(row, now) for row in listing["heartbeats"]], "alerts": waiting}


@page(blueprint, "/growth/heartbeats/<name:agent>", "heartbeat.html", name="one", missing=NO_HEARTBEAT)
def heartbeat_page(connection: Connection, group: str, agent: str) -> Context | None:
    row = heartbeats.find(connection, (group, agent))
    if row is None:
        return None
    alert_rows = heartbeats.alert_page(connection, group, agent, everything=True, after=None, limit=ALERTS_SHOWN)
    ticks = heartbeats.history(connection, (group, agent), TICKS_SHOWN)
    return {"heartbeat": _shown(row, datetime.now(UTC)), "alerts": alert_rows, "ticks": ticks}


action_form_route(
    blueprint,
    "/growth/heartbeats/<name:agent>/<any(enable, disable, tick):verb>",
    {
        "enable": heartbeat_actions.enable_heartbeat,
        "disable": heartbeat_actions.disable_heartbeat,
        "tick": heartbeat_actions.tick_heartbeat,
    },
    "heartbeats.one",
    name="change",
    field_names={"agent_id": "agent"},
    scope="admin",
)
action_form_route(
    blueprint,
    "/growth/alerts/acknowledge",
    heartbeat_actions.acknowledge_alerts,
    "heartbeats.page",
    name="acknowledge",
    field_names={"ids": "alert"},
    scope="admin",
)


def _shown(row: Any, now: datetime) -> Context:
    state = heartbeats.state_of(row, now)
    return {**state.config.model_dump(mode="json"), **state.model_dump(exclude={"config", "open_alerts"})}
