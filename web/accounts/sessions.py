"""Signed in or not: a session is a signed cookie that holds a person's id, the epoch and two times.

The cookie is compared with the person's row at every request (kept for ``USER_SECONDS``): a new password, being disabled
and signing out each begin a new epoch, and every session of the old one is over.
"""

from __future__ import annotations

import time
from uuid import UUID

from flask import Flask, current_app, request, session
from flask.sessions import SecureCookieSessionInterface

from jiyi.settings import get_settings
from models.accounts import signing_in
from models.accounts.lookup_cache import LookupCache
from models.accounts.users import User
from models.db.sources import Unanswered
from web.security import is_loopback

#: A person's row is asked for again after so many seconds: how long a session may outlive its end.
USER_SECONDS = 5.0
#: … and used for so long when the database does not answer: the page that tells that it is dead needs a reader.
STALE_SECONDS = 600.0
#: Rows kept; of more the one asked for first goes.
MAX_USERS = 1_000
#: Seconds between two notes of a visit in the cookie.
NOTE_SECONDS = 60


class Cookie(SecureCookieSessionInterface):
    """Secure, except on this machine over plain http. Copies on several ports of one machine share its cookies: so the
    port is part of the name.
    """

    def get_cookie_secure(self, app: Flask) -> bool:  # noqa: ARG002
        return not is_plain_http_on_loopback()

    def get_cookie_name(self, app: Flask) -> str:  # noqa: ARG002
        return f"jiyi_session_{get_settings().web_port}" if is_plain_http_on_loopback() else "__Host-jiyi_session"


def is_plain_http_on_loopback() -> bool:
    return not request.is_secure and is_loopback(request.host)


def register(app: Flask) -> None:
    app.session_interface = Cookie()
    app.config.update(SESSION_COOKIE_HTTPONLY=True, SESSION_COOKIE_SAMESITE="Lax", SESSION_COOKIE_PATH="/")
    app.extensions["jiyi.people"] = LookupCache(
        signing_in.find, fresh_seconds=USER_SECONDS, max_entries=MAX_USERS, stale_seconds=STALE_SECONDS, unavailable=(Unanswered,)
    )


def begin(user: User) -> None:
    """A session of its own, with nothing left of what was in the cookie before."""
    session.clear()
    session.update(fresh(user, int(time.time())))
    _people().get(user.user_id)


def fresh(user: User, now: int) -> dict[str, str | int]:
    return {"user": str(user.user_id), "epoch": user.epoch, "began": now, "seen": now}


def end(user_id: UUID) -> None:
    session.clear()
    _people().forget(user_id)


def renew(user_id: UUID) -> None:
    """This session goes on in the person's new epoch; all others are over."""
    end(user_id)
    user = _people().get(user_id)
    if user is not None:
        begin(user)


def current() -> User | None:
    """Who is signed in. What is over is forgotten."""
    held = _held()
    if held is None:
        return None
    user_id, epoch, began, seen = held
    settings, now = get_settings(), int(time.time())
    if now - seen > settings.session_idle_hours * 3_600 or now - began > settings.session_days * 86_400:
        session.clear()
        return None
    user = _people().get(user_id)
    if user is None or user.disabled or user.epoch != epoch:
        session.clear()
        return None
    if now - seen >= NOTE_SECONDS and _is_visit():
        session["seen"] = now
        signing_in.note_visit(user_id)
    return user


def _held() -> tuple[UUID, int, int, int] | None:
    if "user" not in session:
        return None
    try:
        return UUID(session["user"]), int(session["epoch"]), int(session["began"]), int(session["seen"])
    except (KeyError, ValueError, TypeError, AttributeError):  # of an older version
        session.clear()
        return None


def _is_visit() -> bool:
    """A page or a form, not what an open page asks for by itself every few seconds."""
    by_itself = request.headers.get("HX-Request") == "true" or request.accept_mimetypes.best == "text/event-stream"
    return request.method not in ("GET", "HEAD") or not by_itself


def _people() -> LookupCache[UUID, User]:
    found: LookupCache[UUID, User] = current_app.extensions["jiyi.people"]
    return found
