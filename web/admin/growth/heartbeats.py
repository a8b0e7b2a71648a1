"""Heartbeats of agents, and the alerts that wait for somebody to acknowledge them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from flask import Blueprint, url_for
from flask.typing import ResponseReturnValue
from flask_babel import lazy_gettext
from sqlalchemy import Connection

from jiyi.growth.heartbeat.quiet import is_quiet
from jiyi.growth.schedules.next_runs import zone_of
from models.db.actions import Action
from models.growth.heartbeat import actions as heartbeat_actions
from models.growth.heartbeat import alerts, heartbeats
from web.accounts.identity import need
from web.admin.acting import chosen_ids, perform
from web.admin.frame import Page, asked, group
from web.admin.pages import page, reads_database, redirect_to, split_page

blueprint = Blueprint("heartbeats", __name__)
PAGES = (Page("growth", lazy_gettext("Heartbeats"), "heartbeats.page"),)

_CHANGES: dict[str, Action[Any, Any]] = {
    "enable": heartbeat_actions.enable_heartbeat,
    "disable": heartbeat_actions.disable_heartbeat,
    "tick": heartbeat_actions.tick_heartbeat,
}
AGENTS_PER_PAGE, ALERTS_SHOWN, TICKS_SHOWN = 50, 50, 50
NO_HEARTBEAT = lazy_gettext("The agent “%(agent)s” of the group “%(group)s” has no heartbeat.")


@page(blueprint, "/growth/heartbeats", "heartbeats.html")
@reads_database
def listed(connection: Connection, group: str) -> dict[str, object]:
    rows, following = split_page(
        heartbeats.some(connection, group, asked("after") or "", AGENTS_PER_PAGE + 1), AGENTS_PER_PAGE, lambda last: last.agent_id
    )
    now = datetime.now(UTC)
    waiting = alerts.open_ones(connection, group, None, everything=False, after=None, limit=ALERTS_SHOWN)
    return {"heartbeats": [_shown(row, now) for row in rows], "alerts": waiting, "next": following}


@page(blueprint, "/growth/heartbeats/<name:agent>", "heartbeat.html", name="one", missing=NO_HEARTBEAT)
@reads_database
def one(connection: Connection, group: str, agent: str) -> dict[str, object] | None:
    row = heartbeats.find(connection, (group, agent))
    if row is None:
        return None
    found = alerts.open_ones(connection, group, agent, everything=True, after=None, limit=ALERTS_SHOWN)
    ticks = heartbeats.history(connection, (group, agent), TICKS_SHOWN)
    return {"heartbeat": _shown(row, datetime.now(UTC)), "alerts": found, "ticks": ticks}


@blueprint.post("/growth/heartbeats/<name:agent>/<any(enable, disable, tick):change>")
def change(agent: str, change: str) -> ResponseReturnValue:
    """Switch it on or off, or have it tick now."""
    need("admin")
    perform(_CHANGES[change], agent_id=agent)
    return redirect_to(url_for("heartbeats.one", group=group(), agent=agent))


@blueprint.post("/growth/alerts/acknowledge")
def acknowledge() -> ResponseReturnValue:
    """Acknowledge what was ticked."""
    need("admin")
    perform(heartbeat_actions.acknowledge_alerts, ids=chosen_ids("alert", most=ALERTS_SHOWN))
    return redirect_to(url_for("heartbeats.page", group=group()))


def _shown(row: Any, now: datetime) -> dict[str, object]:
    config = heartbeats.config_of(row)
    return {
        "agent_id": row.agent_id,
        **config.model_dump(mode="json"),
        "last_tick_at": row.last_tick_at,
        "next_tick_at": row.next_tick_at,
        "last_interaction_at": row.last_interaction_at,
        "corrections": dict(row.corrections),
        "quiet_now": is_quiet(now, heartbeats.quiet_of(row), zone_of(row.tz)),
    }
