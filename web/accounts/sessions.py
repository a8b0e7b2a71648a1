"""Signed in or not: a session is a signed cookie that holds a person's id, the epoch and two times.

The cookie is compared with the person's row at every request (kept for ``USER_SECONDS``): a new password, being disabled
and signing out each begin a new epoch, and every session of the old one is over.
"""

from __future__ import annotations

import threading
import time
from uuid import UUID

from flask import Flask, current_app, request, session
from flask.sessions import SecureCookieSessionInterface

from jiyi.settings import get_settings
from models.accounts import users
from models.accounts.users import User
from models.db.connection import unit_of_work
from models.db.scope import whole_service
from web.security import is_loopback
from web.sources import Unanswered, from_database, source

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
    port is part of the name."""

    def get_cookie_secure(self, app: Flask) -> bool:  # noqa: ARG002
        return not is_plain_http_on_loopback()

    def get_cookie_name(self, app: Flask) -> str:  # noqa: ARG002
        return f"jiyi_session_{get_settings().web_port}" if is_plain_http_on_loopback() else "__Host-jiyi_session"


def is_plain_http_on_loopback() -> bool:
    return not request.is_secure and is_loopback(request.host)


class People:
    """The rows of those who were here lately."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        #: Id → the row, when it was read, and when it was last asked for.
        self._known: dict[UUID, tuple[User | None, float, float]] = {}

    def load(self, user_id: UUID) -> User | None:
        """None: there is no such person. Raises :class:`Unanswered` when nothing is known and nobody answers."""
        now = time.monotonic()
        kept = self._known.get(user_id)
        if kept is not None and now - kept[2] <= USER_SECONDS:
            return kept[0]
        try:
            with whole_service():
                found = from_database(lambda connection: users.by_id(connection, user_id))
        except Unanswered:
            if kept is None or now - kept[1] > STALE_SECONDS:
                raise
            self._keep(user_id, kept[0], kept[1])
            return kept[0]
        self._keep(user_id, found, now)
        return found

    def forget(self, user_id: UUID) -> None:
        self._known.pop(user_id, None)

    def _keep(self, user_id: UUID, user: User | None, read_at: float) -> None:
        with self._lock:
            self._known.pop(user_id, None)
            if len(self._known) >= MAX_USERS:
                del self._known[next(iter(self._known))]
            self._known[user_id] = (user, read_at, time.monotonic())


def register(app: Flask) -> None:
    app.session_interface = Cookie()
    app.config.update(SESSION_COOKIE_HTTPONLY=True, SESSION_COOKIE_SAMESITE="Lax", SESSION_COOKIE_PATH="/")
    app.extensions["jiyi.people"] = People()


def begin(user: User) -> None:
    """A session of its own, with nothing left of what was in the cookie before."""
    session.clear()
    session.update(fresh(user, int(time.time())))
    current_app.extensions["jiyi.people"].load(user.user_id)


def fresh(user: User, now: int) -> dict[str, str | int]:
    return {"user": str(user.user_id), "epoch": user.epoch, "began": now, "seen": now}


def end(user_id: UUID) -> None:
    session.clear()
    current_app.extensions["jiyi.people"].forget(user_id)


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
    user: User | None = current_app.extensions["jiyi.people"].load(user_id)
    if user is None or user.disabled or user.epoch != epoch:
        session.clear()
        return None
    if now - seen >= NOTE_SECONDS and _is_visit():
        session["seen"] = now
        _note(user_id)
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


def _note(user_id: UUID) -> None:
    """For the list of people; nobody waits for it."""

    def write() -> None:
        with unit_of_work() as connection:
            users.seen(connection, user_id)

    with whole_service():
        source("notes").begin(write)
