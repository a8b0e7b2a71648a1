"""Erasing an agent or a person for good: first what would go, then the name typed once more, in the end the proof."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from flask import Blueprint, Response, abort, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue
from flask_babel import gettext as _
from flask_babel import lazy_gettext

from jiyi.protocol.erasure import Erasure
from models.erasure import actions, reads
from web.admin import frame, inputs
from web.admin.acting import checked, perform
from web.admin.frame import Page
from web.answers import answer
from web.sources import from_database

blueprint = Blueprint("erasure", __name__)
PAGES = (Page("access", lazy_gettext("Erasure"), "erasure.page", "admin"),)

PER_PAGE = 30
#: Seconds that a preview may take while the page waits: it looks through everything.
PREVIEW_TIMEOUT = 30.0
MAX_NAMES_CHARS = 4_000


@blueprint.get("/erasure")
@blueprint.get("/erasure.json", endpoint="json")
def page() -> Response:
    return answer("erasure.html", data=_listed())


@blueprint.get("/erasure/rows")
def rows() -> str:
    return render_template("_erasures.html", **_listed())


@blueprint.post("/erasure/preview")
def preview() -> str:
    """What would go. Changes nothing."""
    what = _asked()
    return render_template("_erasure_preview.html", what=what, found=perform(actions.preview, what, timeout=PREVIEW_TIMEOUT))


@blueprint.post("/erasure")
def begin() -> ResponseReturnValue:
    """A job does it. Safe to repeat because a second erasure of the same finds nothing."""
    what = _asked()
    if request.form.get("again", "").strip() != what.names[0]:
        abort(400, _("Type the name exactly as it stands above. Nothing was erased."))
    erasure_id = perform(actions.request_erasure, what).erasure_id
    address = url_for("erasure.one", erasure_id=erasure_id, group=frame.group())
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
    if request.form.get("kind") != "agent":
        return checked(Erasure, person=names[0], aliases=names[1:], delete_backups=backups)
    if len(names) > 1:
        abort(400, _("One agent at a time."))
    return checked(Erasure, agent_id=names[0], delete_backups=backups)


def _listed() -> dict[str, Any]:
    group, before = frame.group(), inputs.identifier("before")
    found = from_database(lambda connection: reads.page(connection, group, before, PER_PAGE + 1))
    shown = found[:PER_PAGE]
    return {"group": group, "erasures": shown, "next": shown[-1].erasure_id if len(found) > PER_PAGE else None}


def _one(erasure_id: UUID) -> dict[str, Any]:
    group = frame.group()
    found = from_database(lambda connection: reads.one(connection, group, erasure_id))
    if found is None:
        abort(404, _("There is no erasure %(id)s in the group “%(group)s”.", id=erasure_id, group=group))
    return {"group": group, "erasure": found}
