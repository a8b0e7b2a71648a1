"""The audit log: who changed what, newest first."""

from __future__ import annotations

from typing import Any

from flask import Blueprint, Response, render_template
from flask_babel import lazy_gettext
from sqlalchemy import Connection

from models.accounts import audit
from web.accounts.identity import who
from web.admin import frame, inputs
from web.admin.frame import Page, across_groups, asked
from web.answers import answer
from web.sources import from_database

blueprint = Blueprint("audit", __name__)
PAGES = (Page("access", lazy_gettext("Audit"), "audit.page", "admin"),)

PER_PAGE = 50


@blueprint.get("/audit")
@blueprint.get("/audit.json", endpoint="json")
def page() -> Response:
    return answer("audit.html", data=_found())


@blueprint.get("/audit/rows")
def rows() -> str:
    return render_template("_audit.html", **_found())


def _found() -> dict[str, Any]:
    """An operator sees the whole service unless told otherwise, anybody else the chosen group."""
    everything = who().may("operator") and asked("only") != "group"
    group = None if everything else frame.group()
    filters = {name: asked(name, 200) for name in ("actor", "action", "target")}
    before = inputs.identifier("before")

    def question(connection: Connection) -> dict[str, Any]:
        found = audit.entries(connection, group, before, PER_PAGE + 1, **filters)
        shown = found[:PER_PAGE]
        return {
            "entries": shown,
            "actions": audit.actions(connection, group),
            "next": shown[-1].audit_id if len(found) > PER_PAGE else None,
        }

    with across_groups():
        found = from_database(question)
    kept = {"group": frame.group(), "only": None if everything else "group", **filters}
    return {"group": frame.group(), "everything": everything, "filters": kept, **filters, **found}
