"""Erasing an agent or a person for good: first what would go, then the name typed once more, in the end the proof."""

from __future__ import annotations

from uuid import UUID

from flask import Blueprint, render_template, request, url_for
from flask.typing import ResponseReturnValue
from flask_babel import gettext as _
from flask_babel import lazy_gettext
from sqlalchemy import Connection

from jiyi.protocol.erasure import Erasure
from models.erasure import actions, progress
from web.admin import frame, inputs
from web.admin.acting import checked, perform
from web.admin.forms import refuse
from web.admin.frame import Page
from web.admin.pages import Context, listed, page, redirect_to

blueprint = Blueprint("erasure", __name__)
PAGES = (Page("access", lazy_gettext("Erasure"), "erasure.page", "admin"),)

PER_PAGE = 30
#: Seconds that a preview may take while the page waits: it looks through everything.
PREVIEW_TIMEOUT = 30.0
MAX_NAMES_CHARS = 4_000
NONE = lazy_gettext("There is no erasure %(id)s in the group “%(group)s”.")


@page(blueprint, "/erasure", "erasure.html", rows="_erasures.html")
def some(connection: Connection, group: str) -> Context:
    return listed("erasures", progress.page(connection, group, inputs.identifier("before"), PER_PAGE + 1), PER_PAGE, "erasure_id")


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
        refuse("again", _("Type the name exactly as it stands above. Nothing was erased."))
    erasure_id = perform(actions.request_erasure, what).erasure_id
    return redirect_to(url_for("erasure.one", erasure_id=erasure_id, group=frame.group()))


@page(blueprint, "/erasure/<uuid:erasure_id>", "erasure_one.html", name="one", live="_erasure.html", missing=NONE)
def one(connection: Connection, group: str, erasure_id: UUID) -> Context | None:
    """How far it is, and the report that proves it."""
    erasure = progress.one(connection, group, erasure_id)
    return None if erasure is None else {"erasure": erasure}


def _asked() -> Erasure:
    names = [name.strip() for name in request.form.get("names", "")[:MAX_NAMES_CHARS].splitlines() if name.strip()]
    if not names:
        refuse("names", _("Whom? Give a name."))
    backups = request.form.get("delete_backups") == "yes"
    if request.form.get("kind") != "agent":
        return checked(Erasure, person=names[0], aliases=names[1:], delete_backups=backups)
    if len(names) > 1:
        refuse("names", _("One agent at a time."))
    return checked(Erasure, agent_id=names[0], delete_backups=backups)
