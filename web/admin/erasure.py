"""Erasing an agent or a person for good: first what would go, then the name typed once more, in the end the proof."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from flask import Blueprint, Response, abort, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue
from flask_babel import gettext as _
from flask_babel import lazy_gettext
from pydantic import ValidationError
from sqlalchemy import Connection

from jiyi.erasure.names import DryRun, EraseQuery, Erasure
from jiyi.errors import problems_of
from models.erasure import erasures
from models.queue.wakeups import wake
from web.accounts.identity import who
from web.admin import frame, inputs
from web.admin.acting import ask_worker, change
from web.admin.frame import Page
from web.answers import answer
from web.sources import from_database

blueprint = Blueprint("erasure", __name__)
PAGES = (Page("access", lazy_gettext("Erasure"), "erasure.page", "admin"),)

PER_PAGE = 30
#: Seconds that a dry run may take while the page waits: it looks through everything.
DRY_RUN_TIMEOUT = 30.0
MAX_NAMES_CHARS = 4_000


@blueprint.get("/erasure")
@blueprint.get("/erasure.json", endpoint="json")
def page() -> Response:
    return answer("erasure.html", data=_listed())


@blueprint.get("/erasure/rows")
def rows() -> str:
    return render_template("_erasures.html", **_listed())


@blueprint.post("/erasure/rehearse")
def rehearse() -> str:
    """What would go. Changes nothing."""
    what = _asked()
    query = EraseQuery(group_id=frame.group(), what=what, dry_run=True)
    found = DryRun.model_validate(ask_worker("erase", query, DRY_RUN_TIMEOUT))
    return render_template("_rehearsal.html", what=what, found=found)


@blueprint.post("/erasure")
def begin() -> ResponseReturnValue:
    """A job does it. Safe to repeat because a second erasure of the same finds nothing."""
    what, group, actor = _asked(), frame.group(), who().actor
    if request.form.get("again", "").strip() != what.names[0]:
        abort(400, _("Type the name exactly as it stands above. Nothing was erased."))
    erasure_id = change(lambda connection: erasures.request(connection, group, what, actor))
    wake(erasures.ERASE)
    address = url_for("erasure.one", erasure_id=erasure_id, group=group)
    if frame.wants_fragment():
        return Response("", 204, {"HX-Redirect": address})
    return redirect(address, 303)


@blueprint.get("/erasure/<uuid:erasure_id>")
@blueprint.get("/erasure/<uuid:erasure_id>.json", endpoint="one_json")
def one(erasure_id: UUID) -> Response:
    """How far it is, and the report that proves it."""
    return answer("erasure_one.html", data=_one(erasure_id))


@blueprint.get("/erasure/<uuid:erasure_id>/live")
def one_live(erasure_id: UUID) -> str:
    return render_template("_erasure.html", **_one(erasure_id))


def _asked() -> Erasure:
    names = [name.strip() for name in request.form.get("names", "")[:MAX_NAMES_CHARS].splitlines() if name.strip()]
    if not names:
        abort(400, _("Whom? Give a name."))
    backups = request.form.get("delete_backups") == "yes"
    try:
        if request.form.get("kind") == "agent":
            if len(names) > 1:
                abort(400, _("One agent at a time."))
            return Erasure(agent_id=names[0], delete_backups=backups)
        return Erasure(person=names[0], aliases=names[1:], delete_backups=backups)
    except ValidationError as error:
        abort(400, "; ".join(problems_of(error)))


def _listed() -> dict[str, Any]:
    group, before = frame.group(), inputs.identifier("before")

    def question(connection: Connection) -> list[dict[str, Any]]:
        return erasures.listed(connection, group, before, PER_PAGE + 1)

    found = from_database(question)
    shown = found[:PER_PAGE]
    following = shown[-1]["erasure_id"] if len(found) > PER_PAGE else None
    return {"group": group, "erasures": [_known(row) for row in shown], "next": following}


def _one(erasure_id: UUID) -> dict[str, Any]:
    group = frame.group()
    found = from_database(lambda connection: erasures.state(connection, group, erasure_id))
    if found is None:
        abort(404, _("There is no erasure %(id)s in the group “%(group)s”.", id=erasure_id, group=group))
    return {"group": group, "erasure": _known(found)}


def _known(row: dict[str, Any]) -> dict[str, Any]:
    """Without the names, which are kept only until they are erased."""
    return {**row, "what": {name: value for name, value in row.get("what", {}).items() if name != "asked"}}
