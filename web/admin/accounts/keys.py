"""API keys of the group (operators: and of the whole service): make, replace, revoke. A secret is shown once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from flask import Blueprint, Response, abort, render_template, request
from flask_babel import gettext as _
from flask_babel import lazy_gettext
from sqlalchemy import Connection

from jiyi.accounts.api_keys import SCOPES, KeyText, new_key
from models.accounts import api_keys
from models.accounts.api_keys import Registration
from web.accounts.identity import who
from web.admin import frame
from web.admin.acting import change
from web.admin.frame import Page, across_groups
from web.answers import answer
from web.sources import from_database

blueprint = Blueprint("keys", __name__)
PAGES = (Page("access", lazy_gettext("Keys"), "keys.page", "admin"),)

MAX_NAME = 100
#: Days that a new key may be good for, as the form offers them; 0: without end.
DAYS = (30, 90, 365, 0)
#: Hours that a replaced key goes on working, as the form offers them.
GRACE_HOURS = (0, 1, 24, 168)


@blueprint.get("/keys")
@blueprint.get("/keys.json", endpoint="json")
def page() -> Response:
    return _page()


@blueprint.post("/keys")
def create() -> Response:
    """A new key, and its secret, which nobody is shown again."""
    name = request.form.get("name", "").strip()[:MAX_NAME]
    frame.storable(name)
    if not name:
        abort(400, _("A key needs a name: who uses it."))
    of_service = request.form.get("of") == "service" and who().may("operator")
    scopes = [scope for scope in SCOPES if scope in request.form.getlist("scope")]
    if of_service:
        scopes = list(SCOPES)
    elif not scopes:
        abort(400, _("A key needs at least one right."))
    key, days = new_key(), _one_of("days", DAYS)
    expires_at = datetime.now(UTC) + timedelta(days=days) if days else None
    group, actor = None if of_service else frame.group(), who().actor
    with across_groups():
        row = change(
            lambda connection: api_keys.create(
                connection, _registered(key), group_id=group, name=name, scopes=scopes, expires_at=expires_at, actor=actor
            )
        )
    return _page(201, key, row)


@blueprint.post("/keys/<key_id>/rotate")
def rotate(key_id: str) -> Response:
    """A new key with the same rights; the old one works on for the hours given."""
    key, grace = new_key(), timedelta(hours=_one_of("grace", GRACE_HOURS))
    actor, group = who().actor, _only()
    with across_groups():
        row = change(lambda connection: api_keys.rotate(connection, key_id, _registered(key), grace=grace, group_id=group, actor=actor))
    return _page(201, key, row)


@blueprint.post("/keys/<key_id>/revoke")
def revoke(key_id: str) -> str:
    """It works no more. Safe to repeat because what is revoked stays so."""
    actor, group = who().actor, _only()
    with across_groups():
        change(lambda connection: api_keys.revoke(connection, key_id, group_id=group, actor=actor))
    return render_template("_keys.html", **_listed())


def _page(status: int = 200, made: KeyText | None = None, row: dict[str, Any] | None = None) -> Response:
    return answer("keys.html", status, data=_listed(), secret=None if made is None else str(made), made=row, scopes=SCOPES[:3], days=DAYS)


def _listed() -> dict[str, Any]:
    only = _only()

    def question(connection: Connection) -> list[dict[str, Any]]:
        return api_keys.listed(connection, only)

    with across_groups():
        found = from_database(question)
    return {"group": frame.group(), "everything": only is None, "keys": found, "grace": GRACE_HOURS}


def _only() -> str | None:
    """None: an operator sees the keys of all groups, and the service's own."""
    return None if who().may("operator") else frame.group()


def _registered(key: KeyText) -> Registration:
    return Registration(key.key_id, key.secret_hash, key.signing_key)


def _one_of(name: str, allowed: tuple[int, ...]) -> int:
    text = request.form.get(name, str(allowed[0]))
    if text not in {str(number) for number in allowed}:
        abort(400, f"{name}: must be one of {', '.join(map(str, allowed))}.")
    return int(text)
