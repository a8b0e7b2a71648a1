"""People who may sign in: add, new password, disable and enable again. For operators."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from flask import Blueprint, Response, abort, render_template, request
from flask_babel import gettext as _
from flask_babel import lazy_gettext
from sqlalchemy import Connection

from jiyi.accounts.passwords import hash_password, make_password
from jiyi.protocol.accounts import USER_NAME
from models.accounts import login_attempts, users
from models.accounts.users import ROLES
from web.accounts.identity import who
from web.admin import frame
from web.admin.acting import change
from web.admin.frame import Page, across_groups
from web.answers import answer
from web.sources import from_database

blueprint = Blueprint("people", __name__)
PAGES = (Page("access", lazy_gettext("People"), "people.page", "operator", of_service=True),)


@blueprint.get("/people")
@blueprint.get("/people.json", endpoint="json")
def page() -> Response:
    return _page()


@blueprint.post("/people")
def add() -> Response:
    """Somebody new, with a password made here and shown once."""
    name, role = request.form.get("name", "").strip(), request.form.get("role", "")
    if not re.fullmatch(USER_NAME, name) or name.endswith("\n"):
        abort(400, _("A name has 1 to 64 letters, digits and . @ + - _"))
    if role not in ROLES:
        abort(400, f"role: must be one of {', '.join(ROLES)}.")
    named = [group.strip() for group in request.form.get("groups", "").split(",") if group.strip()]
    frame.storable(*named)
    password, actor = make_password(), who().actor
    hashed = hash_password(password)

    def step(connection: Connection) -> dict[str, Any]:
        return users.create(connection, name=name, password_hash=hashed, role=role, groups=named or None, actor=actor)

    with across_groups():
        change(step)
    return _page(201, name, password)


@blueprint.post("/people/<name:name>/password")
def new_password(name: str) -> Response:
    """One made here and shown once; every session of this person ends."""
    password, actor = make_password(), who().actor
    hashed = hash_password(password)
    _change(name, lambda connection: users.set_password(connection, name, hashed, actor=actor))
    login_attempts.reset(name)
    return _page(201, name, password)


@blueprint.post("/people/<name:name>/disable")
def disable(name: str) -> str:
    """Safe to repeat because who is disabled stays so."""
    actor = who().actor
    _change(name, lambda connection: users.disable(connection, name, actor=actor))
    return render_template("_people.html", **_listed())


@blueprint.post("/people/<name:name>/enable")
def enable(name: str) -> str:
    actor = who().actor
    _change(name, lambda connection: users.enable(connection, name, actor=actor))
    return render_template("_people.html", **_listed())


def _change(name: str, step: Callable[[Connection], Any]) -> None:
    frame.storable(name)
    with across_groups():
        change(step)


def _page(status: int = 200, name: str | None = None, password: str | None = None) -> Response:
    return answer("people.html", status, data=_listed(), password=password, added=name, roles=ROLES)


def _listed() -> dict[str, Any]:
    with across_groups():
        found = from_database(users.listed)
    return {"group": frame.group(), "people": found, "me": who().actor.removeprefix("user:")}
