"""Signing in and out, and the gate of the admin: who is not signed in sees nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

from flask import Blueprint, Flask, Response, abort, current_app, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue
from flask_babel import gettext as _
from flask_babel import ngettext
from flask_wtf.csrf import CSRFError, CSRFProtect
from werkzeug.exceptions import Unauthorized

from jiyi.protocol.limits import BODY_BYTES
from models.accounts import sign_in as signing_in
from models.accounts.sign_in import HashingBusy
from models.accounts.users import User
from web.accounts import sessions
from web.accounts.identity import Identity, identify
from web.answers import wants_json
from web.security import is_loopback

blueprint = Blueprint("signin", __name__)

#: Addresses that need no session, as Flask's rules write them. ``/metrics`` looks after itself
#: (``web.accounts.api_keys``).
OPEN = frozenset(
    {"/sign-in", "/sign-in/oidc", "/sign-in/oidc/back", "/static/<path:filename>"}
    | {"/healthz", "/readyz", "/metrics"}
    # Metadata for programs that are not authorized yet (``web.accounts.oauth``).
    | {"/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/<path:path>"}
    | {"/.well-known/oauth-authorization-server"}
)
#: Where the application keeps what the provider of single sign-on is called, if there is one
#: (``web.accounts.single_sign_on``).
PROVIDER = "jiyi.oidc.label"
#: What lies below knows keys only: no session opens it, so that no other site can use one.
PROGRAMS = "/api/"
MAX_NAME = 200


def register(app: Flask) -> None:
    # The token lives as long as the session, and requests have no Referer header (Referrer-Policy).
    app.config.update(WTF_CSRF_CHECK_DEFAULT=False, WTF_CSRF_TIME_LIMIT=None, WTF_CSRF_SSL_STRICT=False)
    app.extensions["jiyi.csrf"] = csrf = CSRFProtect(app)
    sessions.register(app)

    def gate() -> ResponseReturnValue | None:
        return _gate(csrf)

    app.before_request(gate)
    app.register_blueprint(blueprint)


def is_open() -> bool:
    """Whether the address needs no session. One that does not exist needs one."""
    return request.path.startswith(PROGRAMS) or (
        request.url_rule is not None and request.url_rule.rule in OPEN
    )


def _gate(csrf: CSRFProtect) -> ResponseReturnValue | None:
    if request.path.startswith(PROGRAMS):
        return None
    if not is_open():
        user = sessions.current()
        if user is None:
            return _turned_away()
        identify(identity_of(user))
        request.max_content_length = BODY_BYTES
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
        address = url_for("signin.page", next=safe(_path_of(request.headers.get("HX-Current-URL", ""))))
        return Response("", 401, {"HX-Redirect": address})
    if wants_json() or request.accept_mimetypes.best == "text/event-stream":
        raise Unauthorized(_("Sign in first."))
    back = request.full_path.rstrip("?") if request.method == "GET" else "/"
    return redirect(url_for("signin.page", next=safe(back)), 303)


@blueprint.get("/sign-in")
def page() -> ResponseReturnValue:
    only_where_the_cookie_stays()
    if sessions.current() is not None:
        return redirect(safe(request.args.get("next", "")), 303)
    return sign_in_page(200)


@blueprint.post("/sign-in")
def enter() -> ResponseReturnValue:
    only_where_the_cookie_stays()
    name, password = request.form.get("name", "").strip()[:MAX_NAME], request.form.get("password", "")
    with refuse_when_busy():
        attempt = signing_in.sign_in(name, password, request.remote_addr or "")
    if attempt.wait:
        answer = sign_in_page(429, refusal(attempt.wait), name)
        answer.headers["Retry-After"] = str(attempt.wait)
        return answer
    if attempt.user is None:
        return sign_in_page(403, _("The name or the password is wrong."), name)
    sessions.begin(attempt.user)
    return redirect(safe(request.form.get("next", "")), 303)


@blueprint.post("/sign-out")
def leave() -> ResponseReturnValue:
    user = sessions.current()
    assert user is not None  # the gate
    signing_in.sign_out(user)
    sessions.end(user.user_id)
    return redirect(url_for("signin.page"), 303)


@contextmanager
def refuse_when_busy() -> Iterator[None]:
    """503 when too many passwords are looked at at a time."""
    try:
        yield
    except HashingBusy:
        abort(503, _("Too many people sign in at this moment. Try again."))


def refusal(wait: int) -> str:
    """The message for a user who has to wait so many seconds."""
    message: str = ngettext(
        "Too many wrong passwords. Wait a second, then try again.",
        "Too many wrong passwords. Wait %(num)d seconds, then try again.",
        wait,
    )
    return message


def sign_in_page(status: int, problem: str = "", name: str = "") -> Response:
    """The sign-in page."""
    back, provider = request.values.get("next", ""), current_app.extensions.get(PROVIDER, "")
    page = render_template("signin.html", problem=problem, name=name, next=safe(back), provider=provider)
    return Response(page, status, mimetype="text/html")


def only_where_the_cookie_stays() -> None:
    if not request.is_secure and not is_loopback(request.host):
        abort(
            403, _("Passwords are accepted over https only, except on this machine. See docs/deployment.md.")
        )


def safe(address: str) -> str:
    """An address within this site, or its first page."""
    odd = "\\" in address or any(character <= " " or character == "\x7f" for character in address)
    if odd or not address.startswith("/") or address.startswith("//"):
        return "/"
    parts = urlsplit(address)
    return (
        "/" if parts.scheme or parts.netloc or parts.path.startswith(("/sign-in", "/sign-out")) else address
    )


def _path_of(url: str) -> str:
    try:
        parts = urlsplit(url)
    except ValueError:
        return "/"
    return parts.path + (f"?{parts.query}" if parts.query else "")
