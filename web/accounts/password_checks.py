"""Whether a password is somebody's, with bounds on guessing: the sign-in page's, and whoever is signed in confirms with theirs."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

import redis
from flask import abort, request
from flask_babel import gettext as _
from flask_babel import ngettext

from models.accounts import login_attempts, passwords, users
from models.accounts.login_attempts import LoginAttempt
from models.accounts.passwords import HashingBusy
from models.accounts.users import User
from models.db.connection import unit_of_work
from models.db.scope import whole_service
from models.db.sources import Unanswered, ask, reading

T = TypeVar("T")


def is_password_of(user: User | None, password: str) -> bool:
    """As :func:`models.accounts.passwords.is_password_of`; 503 when too many ask at a time."""
    try:
        return passwords.is_password_of(user, password)
    except HashingBusy:
        abort(503, _("Too many people sign in at this moment. Try again."))


def confirms(user: User, password: str) -> bool:
    """Whether somebody who is signed in knows the password, too; wrong ones count as at the sign-in page.

    429 after too many: a browser that was left open is no place to guess at.
    """
    address = request.remote_addr or ""
    guess = count_attempt(user.name, address)
    if guess.wait:
        abort(429, refusal(guess.wait))
    right = is_password_of(user, password)
    if right:
        undo_attempt(user.name, address, right=True)
    else:
        audit("wrong password", user, address)
    return right


def count_attempt(name: str, address: str) -> LoginAttempt:
    """One more guess, before the password is looked at."""
    try:
        return login_attempts.count(name, address)
    except redis.RedisError as error:
        raise Unanswered("Valkey", _("passwords are not looked at while guesses cannot be counted")) from error


def refusal(wait: int) -> str:
    """What is told to whoever has to wait so many seconds."""
    told: str = ngettext(
        "Too many wrong passwords. Wait a second, then try again.", "Too many wrong passwords. Wait %(num)d seconds, then try again.", wait
    )
    return told


def undo_attempt(name: str, address: str, *, right: bool = False) -> None:
    """The attempt was no guess: it could not be looked at, or the password was right."""
    with suppress(redis.RedisError):  # it answered a moment ago; what it keeps goes by itself
        login_attempts.undo(name, address)
        if right:
            login_attempts.signed_in(name, address)


def find_user(name: str) -> User | None:
    """Whoever has the name, which may be anything that was typed."""
    return None if "\x00" in name else _ask(reading(lambda connection: users.by_name(connection, name)))


def audit(action: str, user: User | None, address: str) -> None:
    """Record an attempt to sign in. ``user`` None: of somebody who is not here."""

    def write() -> None:
        with unit_of_work() as connection:
            users.record(connection, None if user is None else user.name, action, address=address)

    _ask(write)


def _ask(question: Callable[[], T]) -> T:
    """Nobody is known yet, and people are the whole service's."""
    with whole_service():
        return ask("database", question)
