"""Signing in and out, and the one gate that every request of the admin passes: who is not signed in sees nothing."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from threading import BoundedSemaphore
from typing import TypeVar
from urllib.parse import urlsplit

import redis
from flask import Blueprint, Flask, Response, abort, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue
from flask_babel import gettext as _
from flask_babel import ngettext
from flask_wtf.csrf import CSRFError, CSRFProtect
from werkzeug.exceptions import HTTPException, Unauthorized
from werkzeug.security import check_password_hash

from jiyi.accounts.passwords import MAX_PASSWORD
from models.accounts import login_attempts, users
from models.accounts.login_attempts import LoginAttempt
from models.accounts.users import User
from models.db.connection import unit_of_work
from models.db.scope import whole_service
from web.accounts import sessions
from web.accounts.identity import Identity, identify
from web.answers import wants_json
from web.security import is_loopback
from web.sources import Unanswered, ask, reading

T = TypeVar("T")

blueprint = Blueprint("signin", __name__)

#: Addresses that need no session, as Flask's rules write them. ``/metrics`` looks after itself (``web.accounts.api_keys``).
OPEN = frozenset({"/sign-in", "/healthz", "/readyz", "/metrics", "/static/<path:filename>"})
#: What lies below knows keys only: no session opens it, so that no other site can use one.
PROGRAMS = "/api/"
#: Passwords hashed at a time, 32 MB each.
HASHING = BoundedSemaphore(2)
HASHING_PATIENCE = 5.0
MAX_NAME = 200
#: Of no password, made like all others: a name that nobody has takes as long as one that somebody has.
DUMMY_HASH = (
    "scrypt:32768:8:1$h8Yw2mQe0vTzK4aR$"
    "c41751990ba396c221bf8698534f781960b555da6cfd34cf85330893a0baf20a"
    "5fb0a1f01db01ddc68d11f7b541b8cfa5ab398338aae6eacefbdea3b01b14ee9"
)


def register(app: Flask) -> None:
    # The token lives as long as the session, and pages are not told where a request came from (Referrer-Policy).
    app.config.update(WTF_CSRF_CHECK_DEFAULT=False, WTF_CSRF_TIME_LIMIT=None, WTF_CSRF_SSL_STRICT=False)
    app.extensions["jiyi.csrf"] = csrf = CSRFProtect(app)
    sessions.register(app)

    def gate() -> ResponseReturnValue | None:
        return _gate(csrf)

    app.before_request(gate)
    app.register_blueprint(blueprint)


def is_open() -> bool:
    """Whether the address needs no session. One that does not exist needs one: nothing is told to strangers."""
    return request.path.startswith(PROGRAMS) or (request.url_rule is not None and request.url_rule.rule in OPEN)


def _gate(csrf: CSRFProtect) -> ResponseReturnValue | None:
    if request.path.startswith(PROGRAMS):
        return None
    if not is_open():
        user = sessions.current()
        if user is None:
            return _turned_away()
        identify(identity_of(user))
    try:
        csrf.protect()  # looks at what changes something only
    except CSRFError:
        abort(400, _("This form is too old, or not from here. Go back, reload the page, and send it again."))
    return None


def identity_of(user: User) -> Identity:
    groups = None if user.groups is None else frozenset(user.groups)
    return Identity(user.actor, user.scopes, groups)


def _turned_away() -> ResponseReturnValue:
    """To the sign-in page and back again; what is no page gets a plain 401."""
    if request.headers.get("HX-Request") == "true":
        address = url_for("signin.page", next=_safe(_path_of(request.headers.get("HX-Current-URL", ""))))
        return Response("", 401, {"HX-Redirect": address})
    if wants_json() or request.accept_mimetypes.best == "text/event-stream":
        raise Unauthorized(_("Sign in first."))
    back = request.full_path.rstrip("?") if request.method == "GET" else "/"
    return redirect(url_for("signin.page", next=_safe(back)), 303)


@blueprint.get("/sign-in")
def page() -> ResponseReturnValue:
    _only_where_the_cookie_stays()
    if sessions.current() is not None:
        return redirect(_safe(request.args.get("next", "")), 303)
    return _page(200)


@blueprint.post("/sign-in")
def enter() -> ResponseReturnValue:
    _only_where_the_cookie_stays()
    name, password = request.form.get("name", "").strip()[:MAX_NAME], request.form.get("password", "")
    address = request.remote_addr or ""
    guess = _counted(name, address)
    try:
        user = _ask(lambda: _by_name(name))
        if guess.wait:
            if guess.first_refused:
                _ask(lambda: _write("locked", user, address))
            answer = _page(429, _too_many(guess.wait), name)
            answer.headers["Retry-After"] = str(guess.wait)
            return answer
        if user is None or not is_password_of(user, password):
            _ask(lambda: _write("wrong password", user, address))
            return _page(403, _("The name or the password is wrong."), name)
        _ask(lambda: _write("signed in", user, address))
    except (Unanswered, HTTPException):
        _forget_guess(name, address)
        raise
    _forget_guess(name, address, right=True)
    sessions.begin(user)
    return redirect(_safe(request.form.get("next", "")), 303)


@blueprint.post("/sign-out")
def leave() -> ResponseReturnValue:
    user = sessions.current()
    assert user is not None  # the gate

    def write() -> None:
        with unit_of_work() as connection:
            users.sign_out(connection, user)

    _ask(write)
    sessions.end(user.user_id)
    return redirect(url_for("signin.page"), 303)


def is_password_of(user: User | None, password: str) -> bool:
    """Takes as long for nobody as for somebody. 503 when too many ask at a time."""
    if not HASHING.acquire(timeout=HASHING_PATIENCE):
        abort(503, _("Too many people sign in at this moment. Try again."))
    try:
        right = check_password_hash(user.password_hash if user else DUMMY_HASH, password[: MAX_PASSWORD + 1])
    finally:
        HASHING.release()
    return right and user is not None and not user.disabled


def confirms(user: User, password: str) -> bool:
    """Whether somebody who is signed in knows the password, too; wrong ones count as at the sign-in page.

    429 after too many: a browser that was left open is no place to guess at.
    """
    address = request.remote_addr or ""
    guess = _counted(user.name, address)
    if guess.wait:
        abort(429, _too_many(guess.wait))
    right = is_password_of(user, password)
    if right:
        _forget_guess(user.name, address, right=True)
    else:
        _ask(lambda: _write("wrong password", user, address))
    return right


def _counted(name: str, address: str) -> LoginAttempt:
    try:
        return login_attempts.count(name, address)
    except redis.RedisError as error:
        raise Unanswered("Valkey", _("passwords are not looked at while guesses cannot be counted")) from error


def _too_many(wait: int) -> str:
    minutes = -(-wait // 60)
    told: str = ngettext(
        "Too many wrong passwords. Wait a minute, then try again.",
        "Too many wrong passwords. Wait %(num)d minutes, then try again.",
        minutes,
    )
    return told


def _forget_guess(name: str, address: str, *, right: bool = False) -> None:
    with suppress(redis.RedisError):  # it answered a moment ago; what it keeps goes by itself
        login_attempts.undo(name, address)
        if right:
            login_attempts.reset(name)


def _by_name(name: str) -> User | None:
    if "\x00" in name:
        return None
    return reading(lambda connection: users.by_name(connection, name))()


def _write(action: str, user: User | None, address: str) -> None:
    with unit_of_work() as connection:
        users.record(connection, None if user is None else user.name, action, address=address)


def _ask(question: Callable[[], T]) -> T:
    """Nobody is known yet, and people are the whole service's."""
    with whole_service():
        return ask("database", question)


def _page(status: int, problem: str = "", name: str = "") -> Response:
    back = request.values.get("next", "")
    return Response(render_template("signin.html", problem=problem, name=name, next=_safe(back)), status, mimetype="text/html")


def _only_where_the_cookie_stays() -> None:
    if not request.is_secure and not is_loopback(request.host):
        abort(403, _("Passwords are taken over https only, except on the machine itself. See docs/deployment.md."))


def _safe(address: str) -> str:
    """An address within this site, or its first page."""
    odd = "\\" in address or any(character <= " " or character == "\x7f" for character in address)
    if odd or not address.startswith("/") or address.startswith("//"):
        return "/"
    parts = urlsplit(address)
    return "/" if parts.scheme or parts.netloc or parts.path.startswith(("/sign-in", "/sign-out")) else address


def _path_of(url: str) -> str:
    try:
        parts = urlsplit(url)
    except ValueError:
        return "/"
    return parts.path + (f"?{parts.query}" if parts.query else "")
