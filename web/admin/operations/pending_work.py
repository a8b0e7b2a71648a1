"""Pending work: what events have set off and workers have not done yet, by kind and one by one."""

from __future__ import annotations

from flask import Blueprint
from flask_babel import lazy_gettext
from sqlalchemy import Connection

from models.queue import actions, pending_work
from web.accounts.identity import who
from web.admin.acting import Part, action_form_route
from web.admin.frame import Page
from web.admin.inputs import unpacked
from web.admin.pages import Context, listed, page

blueprint = Blueprint("work", __name__)
PAGES = (Page("running", lazy_gettext("Pending work"), "work.page"),)

PER_PAGE = 50


@page(blueprint, "/work", "work.html", live="_work.html", across_groups=True)
def kinds(connection: Connection, group: str) -> Context:
    return {"all_groups": _only(group) is None, "kinds": pending_work.by_kind(connection)}


@page(blueprint, "/work/<name:kind>", "work_kind.html", name="kind", rows="_work_rows.html", across_groups=True)
def of_kind(connection: Connection, group: str, kind: str) -> Context:
    """One kind, row by row, the longest pending first."""
    only = _only(group)
    rows = pending_work.pending_rows(connection, kind, only, unpacked("after"), PER_PAGE + 1)
    return {"all_groups": only is None, "kind": kind, **listed("rows", rows, PER_PAGE, "created_at", "subject_id")}


action_form_route(
    blueprint,
    "/work/<name:kind>/retry",
    actions.retry_work,
    Part("_work_rows.html", of_kind),
    name="retry",
    field_names={"subject_ids": "subject"},
    make_fields=lambda fields, _parts: {**fields, "all_groups": who().may("operator")},
)


def _only(group: str) -> str | None:
    """None: an operator sees the work of all groups."""
    return None if who().may("operator") else group
