"""People who may sign in: add, new password, disable and enable again. For operators."""

from __future__ import annotations

from flask import Blueprint, Response, request
from flask_babel import lazy_gettext
from sqlalchemy import Connection

from jiyi.protocol.accounts import ROLES, hash_password, make_password
from models.accounts import actions, users
from web.accounts.identity import who
from web.admin.acting import Part, action_form_route, perform
from web.admin.frame import Page
from web.admin.pages import Context, page
from web.answers import answer

blueprint = Blueprint("people", __name__)
PAGES = (Page("access", lazy_gettext("People"), "people.page", "operator", of_service=True),)


@page(blueprint, "/people", "people.html", across_groups=True, roles=ROLES)
def some(connection: Connection) -> Context:
    return {"people": users.listed(connection), "me": who().actor.removeprefix("user:")}


@blueprint.post("/people")
def add() -> Response:
    """Somebody new, with a password made here and shown once."""
    name, role = request.form.get("name", "").strip(), request.form.get("role", "")
    groups = [group.strip() for group in request.form.get("groups", "").split(",") if group.strip()]
    password = make_password()
    every = bool(request.form.get("all_groups"))
    perform(actions.add_person, name=name, role=role, groups=groups or None, all_groups=every, password_hash=hash_password(password))
    return _shown_once(name, password)


@blueprint.post("/people/<name:name>/password")
def new_password(name: str) -> Response:
    """One made here and shown once; every session of this person ends."""
    password = make_password()
    perform(actions.set_password, name=name, password_hash=hash_password(password))
    return _shown_once(name, password)


action_form_route(
    blueprint,
    "/people/<name:name>/<any(disable, enable):verb>",
    {"disable": actions.disable_person, "enable": actions.enable_person},
    Part("_people.html", some),
    name="switch",
)


def _shown_once(name: str, password: str) -> Response:
    return answer("people.html", 201, data=some(), password=password, added=name, roles=ROLES)
