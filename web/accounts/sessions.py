"""Signed in or not: a session is a signed cookie that holds a person's id, the epoch and two times.

The cookie is compared with the person's row at every request (kept for ``USER_SECONDS``): a new password,
being disabled and signing out each begin a new epoch, and every session of the old one is over.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple
from uuid import UUID

from flask import Flask, current_app, request, session
from flask.sessions import SecureCookieSessionInterface

from jiyi.settings import get_settings
from models.accounts import sign_in as signing_in
from models.accounts.api_keys import LookupCache
from models.accounts.users import User
from models.db.bounded_reads import SourceUnavailable
from web.security import is_loopback

#: Seconds without a visit after which a person has to sign in again.
IDLE_SECONDS = 12 * 3_600
#: Seconds after which a person has to sign in again in any case.
SESSION_SECONDS = 7 * 86_400

#: A person's row is asked for again after so many seconds: how long a session may outlive its end. A live
#: stream looks once a second, so that both together are the five seconds that are promised.
USER_SECONDS = 4.0
#: … and used for so long when the database does not answer: the page that reports the outage needs a
#: reader.
STALE_SECONDS = 600.0
#: Rows kept; of more the one asked for first goes.
MAX_USERS = 1_000
#: Seconds between two notes of a visit in the cookie.
NOTE_SECONDS = 60


class Cookie(SecureCookieSessionInterface):
    """Secure, except over plain http on this machine, where copies on several ports share cookies."""

    def get_cookie_secure(self, app: Flask) -> bool:  # noqa: ARG002
        return not is_plain_http_on_loopback()

    def get_cookie_name(self, app: Flask) -> str:  # noqa: ARG002
        return (
            f"jiyi_session_{get_settings().web_port}"
            if is_plain_http_on_loopback()
            else "__Host-jiyi_session"
        )


def is_plain_http_on_loopback() -> bool:
    return not request.is_secure and is_loopback(request.host)


def register(app: Flask) -> None:
    app.session_interface = Cookie()
    app.config.update(SESSION_COOKIE_HTTPONLY=True, SESSION_COOKIE_SAMESITE="Lax", SESSION_COOKIE_PATH="/")
    app.extensions["jiyi.people"] = LookupCache(
        signing_in.find,
        fresh_seconds=USER_SECONDS,
        max_entries=MAX_USERS,
        stale_seconds=STALE_SECONDS,
        unavailable=(SourceUnavailable,),
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
    state = _session_state()
    if state is None:
        return None
    user = _user_of(state, _people())
    if user is None:
        session.clear()
        return None
    now = int(time.time())
    if now - state.last_used >= NOTE_SECONDS and _is_visit():
        session["seen"] = now
        signing_in.note_visit(user.user_id)
    return user


def current_again() -> Callable[[], User | None]:
    """A function that returns, also after the request, who is signed in. It raises ``SourceUnavailable``."""
    state, people = _session_state(), _people()
    return lambda: None if state is None else _user_of(state, people)


class _SessionState(NamedTuple):
    """What the cookie says."""

    user_id: UUID
    epoch: int
    #: When the session began, and when it was last used. Seconds since 1970.
    began: int
    last_used: int


def _user_of(state: _SessionState, people: LookupCache[UUID, User]) -> User | None:
    now = int(time.time())
    if now - state.last_used > IDLE_SECONDS or now - state.began > SESSION_SECONDS:
        return None
    user = people.get(state.user_id)
    return None if user is None or user.disabled or user.epoch != state.epoch else user


def _session_state() -> _SessionState | None:
    if "user" not in session:
        return None
    try:
        return _SessionState(
            UUID(session["user"]), int(session["epoch"]), int(session["began"]), int(session["seen"])
        )
    except (KeyError, ValueError, TypeError, AttributeError):  # of an older version
        session.clear()
        return None


def _is_visit() -> bool:
    """A page or a form, not the automatic requests of an open page every few seconds."""
    is_automatic = (
        request.headers.get("HX-Request") == "true" or request.accept_mimetypes.best == "text/event-stream"
    )
    return request.method not in ("GET", "HEAD") or not is_automatic


def _people() -> LookupCache[UUID, User]:
    people: LookupCache[UUID, User] = current_app.extensions["jiyi.people"]
    return people
