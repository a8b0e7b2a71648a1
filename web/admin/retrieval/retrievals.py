"""Retrievals of late: what was asked, by whom, and what was returned, newest first."""

from __future__ import annotations

from flask import Blueprint
from flask_babel import lazy_gettext
from sqlalchemy import Connection

from jiyi.settings import get_settings
from models.memory import agents
from models.retrieval import records
from web.admin import inputs
from web.admin.frame import Page, asked
from web.admin.pages import Context, listed, page

blueprint = Blueprint("retrievals", __name__)
PAGES = (Page("memory", lazy_gettext("Past retrievals"), "retrievals.page"),)

PER_PAGE = 30


@page(blueprint, "/retrievals", "retrievals.html", rows="_retrievals.html")
def some(connection: Connection, group: str) -> Context:
    agent, settings = asked("agent"), get_settings()
    rows = records.listed(connection, group, agent, inputs.identifier("before"), PER_PAGE + 1)
    kept = {"retrievals": settings.retrievals_kept, "days": records.KEPT_DAYS}
    return {"agent": agent, "agents": agents.agent_names(connection, group), "kept": kept, **listed("rows", rows, PER_PAGE, "retrieval_id")}
