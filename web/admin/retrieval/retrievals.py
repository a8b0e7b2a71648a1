"""Retrievals of late: what was asked, by whom, and what was returned, newest first."""

from __future__ import annotations

from typing import Any

from flask import Blueprint
from flask_babel import lazy_gettext
from sqlalchemy import Connection

from jiyi.settings import get_settings
from models.memory.agents import reads as agent_reads
from models.retrieval import records
from web.admin import inputs
from web.admin.frame import Page, asked
from web.admin.pages import page, reads_database, split_page

blueprint = Blueprint("retrievals", __name__)
PAGES = (Page("memory", lazy_gettext("Past retrievals"), "retrievals.page"),)

PER_PAGE, AGENTS_OFFERED = 30, 500


@page(blueprint, "/retrievals", "retrievals.html", rows="_retrievals.html")
@reads_database
def listed(connection: Connection, group: str) -> dict[str, Any]:
    agent, settings = asked("agent"), get_settings()
    rows, following = split_page(
        records.listed(connection, group, agent, inputs.identifier("before"), PER_PAGE + 1), PER_PAGE, lambda last: last.retrieval_id
    )
    kept = {"retrievals": settings.retrievals_kept, "days": settings.retrievals_days}
    return {"agent": agent, "agents": agent_reads.names(connection, group, AGENTS_OFFERED), "rows": rows, "next": following, "kept": kept}
