"""The audit log: who changed what, newest first."""

from __future__ import annotations

from flask import Blueprint
from flask_babel import lazy_gettext
from sqlalchemy import Connection

from models.accounts import audit
from web.accounts.identity import who
from web.admin import inputs
from web.admin.frame import Page, asked
from web.admin.pages import Context, listed, page

blueprint = Blueprint("audit", __name__)
PAGES = (Page("access", lazy_gettext("Audit"), "audit.page", "admin"),)

PER_PAGE = 50


@page(blueprint, "/audit", "audit.html", rows="_audit.html", across_groups=True)
def some(connection: Connection, group: str) -> Context:
    """An operator sees the whole service unless told otherwise, anybody else the chosen group."""
    everything = who().may("operator") and asked("only") != "group"
    whose = None if everything else group
    filters = {name: asked(name, 200) for name in ("actor", "action", "target")}
    entries = audit.entries(connection, whose, inputs.identifier("before"), PER_PAGE + 1, **filters)
    kept = {"group": group, "only": None if everything else "group", **filters}
    actions = audit.actions(connection, whose)
    return {"everything": everything, "filters": kept, **filters, "actions": actions, **listed("entries", entries, PER_PAGE, "audit_id")}
