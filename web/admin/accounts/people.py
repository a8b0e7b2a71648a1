"""People who may sign in: add, new password, disable and enable again. For operators."""

from __future__ import annotations

from flask import Blueprint, Response, render_template, request
from flask_babel import lazy_gettext

from jiyi.accounts.passwords import hash_password, make_password
from jiyi.protocol.accounts import ROLES
from models.accounts import actions, users
from web.accounts.identity import who
from web.admin import frame
from web.admin.acting import perform
from web.admin.frame import Page, across_groups
from web.answers import answer
from web.sources import from_database

blueprint = Blueprint("people", __name__)
PAGES = (Page("access", lazy_gettext("People"), "people.page", "operator", of_service=True),)


@blueprint.get("/people")
@blueprint.get("/people.json", endpoint="page_json")
def page() -> Response:
    return _page()


@blueprint.post("/people")
def add() -> Response:
    """Somebody new, with a password made here and shown once."""
    name, role = request.form.get("name", "").strip(), request.form.get("role", "")
    groups = [group.strip() for group in request.form.get("groups", "").split(",") if group.strip()]
    password = make_password()
    perform(actions.add_person, name=name, role=role, groups=groups or None, password_hash=hash_password(password))
    return _page(201, name, password)


@blueprint.post("/people/<name:name>/password")
def new_password(name: str) -> Response:
    """One made here and shown once; every session of this person ends."""
    password = make_password()
    perform(actions.set_password, name=name, password_hash=hash_password(password))
    return _page(201, name, password)


@blueprint.post("/people/<name:name>/disable")
def disable(name: str) -> str:
    """Safe to repeat because who is disabled stays so."""
    perform(actions.disable_person, name=name)
    return render_template("_people.html", **_listed())


@blueprint.post("/people/<name:name>/enable")
def enable(name: str) -> str:
    perform(actions.enable_person, name=name)
    return render_template("_people.html", **_listed())


def _page(status: int = 200, name: str | None = None, password: str | None = None) -> Response:
    return answer("people.html", status, data=_listed(), password=password, added=name, roles=ROLES)


def _listed() -> dict[str, object]:
    with across_groups():
        found = from_database(users.listed)
    return {"group": frame.group(), "people": found, "me": who().actor.removeprefix("user:")}
