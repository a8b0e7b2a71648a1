"""One's own account: a new password."""

from __future__ import annotations

from flask import Blueprint, abort, redirect, request, url_for
from flask.typing import ResponseReturnValue
from flask_babel import gettext as _

from jiyi.protocol.accounts import hash_password, password_problem
from models.accounts import actions, signing_in
from models.accounts.users import User
from web.accounts import sessions, signin
from web.admin.acting import perform
from web.admin.forms import refuse
from web.admin.frame import Page
from web.admin.pages import Context, page

blueprint = Blueprint("account", __name__)
PAGES: tuple[Page, ...] = ()


@page(blueprint, "/account", "account.html", changed=lambda _: request.args.get("changed") == "yes")
def shown() -> Context:
    user = _user()
    return {"name": user.name, "role": user.role, "may_see": user.groups}


@blueprint.post("/account/password")
def change_password() -> ResponseReturnValue:
    """All other sessions of this person end; this one goes on."""
    user, new = _user(), request.form.get("new", "")
    if new != request.form.get("again", ""):
        refuse("again", _("The new password was typed in two different ways."))
    if password_problem(new):
        refuse("new", _("That is too short or too long: 10 to 1,000 characters."))
    with signin.busy_told():
        attempt = signing_in.confirm(user, request.form.get("old", ""), request.remote_addr or "")
    if attempt.wait:
        abort(429, signin.refusal(attempt.wait))
    if attempt.user is None:
        refuse("old", _("The old password is wrong."), 403)
    perform(actions.set_password, name=user.name, password_hash=hash_password(new))
    sessions.renew(user.user_id)
    return redirect(url_for("account.page", changed="yes"), 303)


def _user() -> User:
    return sessions.current() or abort(401)
