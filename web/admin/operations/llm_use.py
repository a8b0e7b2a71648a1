"""What the group's questions to LLMs have used and cost, by prompt and model."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from flask import Blueprint
from flask_babel import lazy_gettext
from sqlalchemy import Connection

from jiyi.settings import get_settings
from models.operations import numbers
from web.admin import inputs
from web.admin.frame import Page
from web.admin.pages import Context, page

blueprint = Blueprint("llm_use", __name__)
PAGES = (Page("running", lazy_gettext("LLM use"), "llm_use.page"),)

DAYS, DEFAULT_DAYS = ("1", "7", "30", "365"), 30
SUMMED = ("calls", "failures", "prompt_tokens", "completion_tokens", "cost")


@page(blueprint, "/llm-use", "llm_use.html", choices=DAYS)
def used(connection: Connection, group: str) -> Context:
    days = int(inputs.choice("days", DAYS) or DEFAULT_DAYS)
    rows = numbers.usage_since(connection, group, datetime.now(UTC).date() - timedelta(days=days - 1))
    total = {name: sum(getattr(row, name) for row in rows) for name in SUMMED}
    return {"days": days, "llm": get_settings().llm, "rows": rows, "total": total}
