"""Pending work: what events have set off and workers have not done yet, by kind and one by one."""

from __future__ import annotations

from typing import Any

from flask import Blueprint, Response, render_template
from flask_babel import lazy_gettext, ngettext
from sqlalchemy import Connection

from jiyi.protocol.operations import PendingRow, RetryWork
from models.queue import actions, reads
from web.accounts.identity import need, who
from web.admin import frame
from web.admin.acting import checked, chosen_ids, perform
from web.admin.frame import Page, across_groups
from web.admin.inputs import packed, unpacked
from web.answers import answer
from web.show import number
from web.sources import from_database

blueprint = Blueprint("work", __name__)
PAGES = (Page("running", lazy_gettext("Pending work"), "work.page"),)

PER_PAGE = 50


@blueprint.get("/work")
@blueprint.get("/work.json", endpoint="json")
def page() -> Response:
    return answer("work.html", data=_kinds())


@blueprint.get("/work/live")
def live() -> str:
    return render_template("_work.html", **_kinds())


@blueprint.get("/work/<name:kind>")
@blueprint.get("/work/<name:kind>.json", endpoint="kind_json")
def kind(kind: str) -> Response:
    """One kind, row by row, the longest pending first."""
    frame.storable(kind)
    return answer("work_kind.html", data=_rows(kind))


@blueprint.get("/work/<name:kind>/rows")
def rows(kind: str) -> str:
    frame.storable(kind)
    return render_template("_work_rows.html", **_rows(kind))


@blueprint.post("/work/<name:kind>/retry")
def retry(kind: str) -> str:
    """Due now: those chosen, or all of the kind. Safe to repeat because work is done once, however often it is due."""
    need(actions.retry_work.scope)
    wanted = checked(RetryWork, kind=kind, subject_ids=chosen_ids("subject"), all_groups=_only() is None)
    count = perform(actions.retry_work, wanted).retried
    said = ngettext("%(count)s is due now.", "%(count)s are due now.", count, count=number(count))
    return render_template("_work_rows.html", said=said, **_rows(kind))


def _kinds() -> dict[str, Any]:
    with across_groups():
        found = from_database(reads.by_kind)
    return {"group": frame.group(), "all_groups": _only() is None, "kinds": found}


def _rows(kind: str) -> dict[str, Any]:
    after, only = unpacked("after"), _only()

    def question(connection: Connection) -> list[PendingRow]:
        return reads.rows(connection, kind, only, after, PER_PAGE + 1)

    with across_groups():
        found = from_database(question)
    shown = found[:PER_PAGE]
    following = packed(shown[-1].created_at, shown[-1].subject_id) if len(found) > PER_PAGE else None
    return {"group": frame.group(), "all_groups": only is None, "kind": kind, "rows": shown, "next": following}


def _only() -> str | None:
    """None: an operator sees the work of all groups."""
    return None if who().may("operator") else frame.group()
