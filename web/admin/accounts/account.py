"""One's own account: a new password."""

from __future__ import annotations

from flask import Blueprint, Response, abort, redirect, request, url_for
from flask.typing import ResponseReturnValue
from flask_babel import gettext as _

from jiyi.accounts.passwords import hash_password, password_problem
from models.accounts import actions
from web.accounts import password_checks, sessions
from web.admin.acting import perform
from web.admin.frame import Page
from web.answers import answer

blueprint = Blueprint("account", __name__)
PAGES: tuple[Page, ...] = ()


@blueprint.get("/account")
@blueprint.get("/account.json", endpoint="page_json")
def page() -> Response:
    return _page()


@blueprint.post("/account/password")
def change_password() -> ResponseReturnValue:
    """All other sessions of this person end; this one goes on."""
    user = sessions.current()
    if user is None:
        abort(401)
    new = request.form.get("new", "")
    if new != request.form.get("again", ""):
        return _page(400, _("The new password was typed in two different ways."))
    if password_problem(new):
        return _page(400, _("That is too short or too long: 10 to 1,000 characters."))
    if not password_checks.confirms(user, request.form.get("old", "")):
        return _page(403, _("The old password is wrong."))
    perform(actions.set_password, name=user.name, password_hash=hash_password(new))
    sessions.renew(user.user_id)
    return redirect(url_for("account.page", changed="yes"), 303)


def _page(status: int = 200, problem: str | None = None) -> Response:
    user = sessions.current()
    if user is None:
        abort(401)
    data = {"name": user.name, "role": user.role, "may_see": user.groups}
    return answer("account.html", status, data=data, problem=problem, changed=request.args.get("changed") == "yes")
