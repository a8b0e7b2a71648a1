"""API keys of the group (operators: and of the whole service): make, replace, revoke. A secret is shown once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from flask import Blueprint, Response, request
from flask_babel import gettext as _
from flask_babel import lazy_gettext
from sqlalchemy import Connection

from jiyi.protocol.accounts import Key, NewKey
from jiyi.protocol.wire.signatures import SCOPES, KeyText, new_key
from models.accounts import actions, api_keys
from web.accounts.identity import who
from web.admin.acting import Part, action_form_route, perform
from web.admin.forms import refuse
from web.admin.frame import Page
from web.admin.pages import Context, page
from web.answers import answer

blueprint = Blueprint("keys", __name__)
PAGES = (Page("access", lazy_gettext("Keys"), "keys.page", "admin"),)

MAX_NAME = 100
#: Days that a new key may be good for, as the form offers them; 0: without end.
DAYS = (30, 90, 365, 0)
#: Hours that a replaced key goes on working, as the form offers them.
GRACE_HOURS = (0, 1, 24, 168)
#: Rights that a group's key may have.
OF_GROUP = tuple(scope for scope in SCOPES if scope != "operator")


@page(blueprint, "/keys", "keys.html", across_groups=True, scopes=OF_GROUP, days=DAYS)
def some(connection: Connection, group: str) -> Context:
    """An operator sees the keys of all groups, and the service's own."""
    only = None if who().may("operator") else group
    return {"everything": only is None, "keys": api_keys.listed(connection, only), "grace": GRACE_HOURS}


@blueprint.post("/keys")
def create() -> Response:
    """A new key, and its secret, which nobody is shown again."""
    name = request.form.get("name", "").strip()[:MAX_NAME]
    if not name:
        refuse("name", _("A key needs a name: who uses it."))
    of_service = request.form.get("of") == "service" and who().may("operator")
    scopes = list(SCOPES) if of_service else [scope for scope in OF_GROUP if scope in request.form.getlist("scope")]
    if not scopes:
        refuse("scope", _("A key needs at least one right."))
    key, days = new_key(), _one_of("days", DAYS)
    expires_at = datetime.now(UTC) + timedelta(days=days) if days else None
    created = perform(actions.create_key, key=NewKey.of(key), name=name, scopes=scopes, expires_at=expires_at)
    return _shown_once(key, created)


@blueprint.post("/keys/<key_id>/rotate")
def rotate(key_id: str) -> Response:
    """A new key with the same rights; the old one works on for the hours given."""
    key = new_key()
    grace = timedelta(hours=_one_of("grace", GRACE_HOURS))
    return _shown_once(key, perform(actions.rotate_key, key_id=key_id, key=NewKey.of(key), grace=grace))


action_form_route(blueprint, "/keys/<key_id>/revoke", actions.revoke_key, Part("_keys.html", some), name="revoke")


def _shown_once(key: KeyText, made: Key) -> Response:
    return answer("keys.html", 201, data=some(), secret=str(key), made=made, scopes=OF_GROUP, days=DAYS)


def _one_of(name: str, allowed: tuple[int, ...]) -> int:
    text = request.form.get(name, str(allowed[0]))
    if text not in {str(number) for number in allowed}:
        refuse(name, _("must be one of %(expected)s", expected=", ".join(map(str, allowed))))
    return int(text)
