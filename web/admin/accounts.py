"""Keys, people, one's own account, the audit log, and erasing somebody for good."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

from flask import Response, abort, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue
from flask_babel import gettext as _
from flask_babel import lazy_gettext
from sqlalchemy import Connection

from jiyi.protocol.accounts import ROLES, Key, NewKey, hash_password, make_password, password_problem
from jiyi.protocol.base import BY_ID
from jiyi.protocol.erasure import Erasure
from jiyi.protocol.wire.signatures import SCOPES, KeyText, new_key
from models.accounts import actions, api_keys, audit, connections, sign_in, users
from models.accounts.users import User
from models.erasure import actions as erasure_actions
from models.erasure import progress
from web.accounts import sessions, signin
from web.accounts.identity import who
from web.admin import frame, inputs
from web.admin.acting import PagePart, checked, form, perform
from web.admin.forms import refuse
from web.admin.frame import MenuPage, parameter
from web.admin.pages import Context, Pages, listed, redirect_to
from web.answers import answer

key_pages = Pages("keys", __name__, MenuPage("access", lazy_gettext("Keys"), "keys.page", "admin"))

MAX_NAME = 100
#: Days that a new key may be good for, as the form offers them; 0: without end.
DAYS = (30, 90, 365, 0)
#: Hours that a replaced key goes on working, as the form offers them.
GRACE_HOURS = (0, 1, 24, 168)
#: Rights that a group's key may have.
OF_GROUP = tuple(scope for scope in SCOPES if scope != "operator")


@key_pages.page("/keys", "keys.html", across_groups=True, scopes=OF_GROUP, days=DAYS)
def keys(connection: Connection, group: str) -> Context:
    """An operator sees the keys of all groups, and the service's own."""
    only = None if who().may("operator") else group
    return {"everything": only is None, "keys": api_keys.listed(connection, only), "grace": GRACE_HOURS}


@key_pages.post("/keys")
def create() -> Response:
    """A new key, and its secret, which nobody is shown again."""
    name = request.form.get("name", "").strip()[:MAX_NAME]
    if not name:
        refuse("name", _("A key needs a name: who uses it."))
    of_service = request.form.get("of") == "service" and who().may("operator")
    scopes = [
        scope for scope in SCOPES if of_service or scope in set(OF_GROUP) & {*request.form.getlist("scope")}
    ]
    if not scopes:
        refuse("scope", _("A key needs at least one right."))
    key, days = new_key(), _one_of("days", DAYS)
    expires_at = datetime.now(UTC) + timedelta(days=days) if days else None
    created = perform(actions.create_key, key=NewKey.of(key), name=name, scopes=scopes, expires_at=expires_at)
    return _key_shown_once(key, created)


@key_pages.post("/keys/<key_id>/rotate")
def rotate(key_id: str) -> Response:
    """A new key with the same rights; the old one works on for the hours given."""
    key = new_key()
    grace = timedelta(hours=_one_of("grace", GRACE_HOURS))
    return _key_shown_once(key, perform(actions.rotate_key, id=key_id, key=NewKey.of(key), grace=grace))


form(key_pages, "/keys/<key_id>/revoke", actions.revoke_key, PagePart("_keys.html", keys))


def _key_shown_once(key: KeyText, created: Key) -> Response:
    return answer("keys.html", 201, data=keys(), secret=str(key), created=created, scopes=OF_GROUP, days=DAYS)


def _one_of(name: str, allowed: tuple[int, ...]) -> int:
    text = request.form.get(name, str(allowed[0]))
    if text not in {str(number) for number in allowed}:
        refuse(name, _("must be one of %(expected)s", expected=", ".join(map(str, allowed))))
    return int(text)


people_pages = Pages(
    "people", __name__, MenuPage("access", lazy_gettext("People"), "people.page", "operator", of_service=True)
)


@people_pages.page("/people", "people.html", across_groups=True, roles=ROLES)
def people(connection: Connection) -> Context:
    return {"people": users.listed(connection), "me": who().actor.removeprefix("user:")}


@people_pages.post("/people")
def add() -> Response:
    """Somebody new, with a password made here and shown once."""
    name, role = request.form.get("name", "").strip(), request.form.get("role", "")
    groups = [group.strip() for group in request.form.get("groups", "").split(",") if group.strip()]
    password, every = make_password(), bool(request.form.get("all_groups"))
    of_groups: Context = {"groups": groups or None, "all_groups": every}
    perform(actions.add_person, name=name, role=role, password_hash=hash_password(password), **of_groups)
    return _password_shown_once(name, password)


@people_pages.post("/people/<name:name>/password")
def new_password(name: str) -> Response:
    """One made here and shown once; every session of this person ends."""
    password = make_password()
    perform(actions.set_password, name=name, password_hash=hash_password(password))
    return _password_shown_once(name, password)


for _verb, _off in (("disable", {"disabled": True}), ("enable", {"disabled": False})):
    to = PagePart("_people.html", people)
    form(people_pages, f"/people/<name:name>/{_verb}", actions.update_person, to, also=_off)


def _password_shown_once(name: str, password: str) -> Response:
    return answer("people.html", 201, data=people(), password=password, added=name, roles=ROLES)


account_pages = Pages("account", __name__)


@account_pages.page("/account", "account.html", changed=lambda _: request.args.get("changed") == "yes")
def own_account() -> Context:
    user = _user()
    return {"name": user.name, "role": user.role, "may_see": user.groups, "connections": connections.of(user)}


@account_pages.post("/account/connections/<uuid:connection_id>/end")
def end_connection(connection_id: UUID) -> ResponseReturnValue:
    """Its tokens work no more."""
    if not connections.remove(_user(), connection_id):
        abort(404, _("This connection is over, or is not yours."))
    return redirect_to(url_for("account.page"))


@account_pages.post("/account/password")
def change_password() -> ResponseReturnValue:
    """All other sessions of this person end; this one goes on."""
    user, new = _user(), request.form.get("new", "")
    if new != request.form.get("again", ""):
        refuse("again", _("The new password was typed in two different ways."))
    if password_problem(new):
        refuse("new", _("That is too short or too long: 10 to 1,000 characters."))
    with signin.refuse_when_busy():
        attempt = sign_in.confirm(user, request.form.get("old", ""), request.remote_addr or "")
    if attempt.wait:
        abort(429, signin.refusal(attempt.wait))
    if attempt.user is None:
        refuse("old", _("The old password is wrong."), 403)
    perform(actions.set_password, name=user.name, password_hash=hash_password(new))
    sessions.renew(user.user_id)
    return redirect(url_for("account.page", changed="yes"), 303)


def _user() -> User:
    return sessions.current() or abort(401)


audit_pages = Pages("audit", __name__, MenuPage("access", lazy_gettext("Audit"), "audit.page", "admin"))

ENTRIES_PER_PAGE = 50


@audit_pages.page("/audit", "audit.html", rows="_audit.html", across_groups=True)
def audit_log(connection: Connection, group: str) -> Context:
    """An operator sees the whole service unless ``only=group`` is given; others see the chosen group."""
    everything = who().may("operator") and parameter("only") != "group"
    whose = None if everything else group
    filters = {name: parameter(name, 200) for name in ("actor", "action", "target")}
    entries = audit.entries(connection, whose, inputs.place(BY_ID), ENTRIES_PER_PAGE + 1, **filters)
    parameters = {"group": group, "only": None if everything else "group", **filters}
    context = {"everything": everything, "filters": parameters, "actions": audit.actions(connection, whose)}
    return {**context, **filters, **listed("entries", entries, ENTRIES_PER_PAGE, "audit_id")}


erasure_pages = Pages(
    "erasure", __name__, MenuPage("access", lazy_gettext("Erasure"), "erasure.page", "admin")
)

ERASURES_PER_PAGE = 30
#: Seconds that a preview may take while the page waits: it looks through everything.
PREVIEW_TIMEOUT = 30.0
MAX_NAMES_CHARS = 4_000
NO_ERASURE = lazy_gettext("There is no erasure %(id)s in the group “%(group)s”.")


@erasure_pages.page("/erasure", "erasure.html", rows="_erasures.html")
def erasures(connection: Connection, group: str) -> Context:
    rows = progress.page(connection, group, inputs.place(BY_ID), ERASURES_PER_PAGE + 1)
    return {"name": parameter("name"), **listed("erasures", rows, ERASURES_PER_PAGE, "erasure_id")}


@erasure_pages.post("/erasure/preview")
def preview() -> str:
    """What would go. Changes nothing."""
    what = _whom()
    affected = perform(erasure_actions.preview, what, timeout=PREVIEW_TIMEOUT)
    return render_template("_erasure_preview.html", what=what, affected=affected)


@erasure_pages.post("/erasure")
def begin() -> ResponseReturnValue:
    """A job does it. Safe to repeat because a second erasure of the same finds nothing."""
    what = _whom()
    if request.form.get("again", "").strip() != what.names[0]:
        refuse("again", _("Type the name exactly as shown above. Nothing was erased."))
    erasure_id = perform(erasure_actions.request_erasure, what).erasure_id
    return redirect_to(url_for("erasure.one", erasure_id=erasure_id, group=frame.group()))


@erasure_pages.page("/erasure/<uuid:erasure_id>", "erasure_one.html", "one", NO_ERASURE, live="_erasure.html")
def erasure(connection: Connection, group: str, erasure_id: UUID) -> Context | None:
    """How far it is, and the report that proves it."""
    erasure = progress.one(connection, group, erasure_id)
    return None if erasure is None else {"erasure": erasure}


def _whom() -> Erasure:
    lines = request.form.get("names", "")[:MAX_NAMES_CHARS].splitlines()
    names = [name.strip() for name in lines if name.strip()]
    if not names:
        refuse("names", _("Enter a name."))
    backups = request.form.get("delete_backups") == "yes"
    if request.form.get("kind") != "agent":
        return checked(Erasure, person=names[0], aliases=names[1:], delete_backups=backups)
    if len(names) > 1:
        refuse("names", _("One agent at a time."))
    return checked(Erasure, agent_id=names[0], delete_backups=backups)
