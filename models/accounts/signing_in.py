"""Signing in by name and password, staying signed in, and signing out: each attempt is counted and audited."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from threading import BoundedSemaphore
from typing import TypeVar
from uuid import UUID

import redis
from sqlalchemy import Connection
from werkzeug.security import check_password_hash

from jiyi.protocol.accounts import MAX_PASSWORD
from jiyi.text.translatable import Translatable
from models.accounts import login_attempts, users
from models.accounts.login_attempts import LoginAttempt
from models.accounts.users import User
from models.db.bounded_reads import Unanswered, ask, reading, source
from models.db.connection import unit_of_work
from models.db.scope import whole_service

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Attempt:
    """``user``: whose password it is; None: nobody's, or it was not looked at, for ``wait`` seconds more."""

    user: User | None
    wait: int = 0


def sign_in(name: str, password: str, address: str) -> Attempt:
    """Look at a password, and audit what came of it.

    Raises:
        HashingBusy: too many are looked at at this moment.
        Unanswered: the database is away, or Valkey: then guesses cannot be counted.
    """
    guess = _count(name, address)
    try:
        user = _find(name)
        if guess.wait:
            if guess.first_refused:
                _record("locked", user, address)
            return Attempt(None, guess.wait)
        right = is_password_of(user, password)  # also of nobody: hashing for known names only would tell them by the time it takes
        if user is None or not right:
            _record("wrong password", user, address)
            return Attempt(None)
        _record("signed in", user, address)
    except (Unanswered, HashingBusy):
        _undo(name, address)
        raise
    _undo(name, address, right=True)
    return Attempt(user)


def confirm(user: User, password: str, address: str) -> Attempt:
    """Whether somebody who is signed in knows the password, too; wrong ones count as those of :func:`sign_in`, which see."""
    guess = _count(user.name, address)
    if guess.wait:
        return Attempt(None, guess.wait)
    if not is_password_of(user, password):
        _record("wrong password", user, address)
        return Attempt(None)
    _undo(user.name, address, right=True)
    return Attempt(user)


def sign_out(user: User) -> None:
    """All sessions of this person end. Raises :class:`Unanswered`."""
    _change(lambda connection: users.sign_out(connection, user))


def find(user_ids: Collection[UUID]) -> dict[UUID, User]:
    """People by their ids. Raises :class:`Unanswered`."""
    return _ask(
        reading(lambda connection: {user_id: user for user_id in user_ids if (user := users.by_id(connection, user_id)) is not None})
    )


def note_visit(user_id: UUID) -> None:
    """For the list of people; nobody waits for it."""
    with whole_service():
        source("notes").begin(lambda: _change(lambda connection: users.seen(connection, user_id)))


def _count(name: str, address: str) -> LoginAttempt:
    """One more guess, before the password is looked at."""
    try:
        return login_attempts.count(name, address)
    except redis.RedisError as error:
        raise Unanswered("Valkey", Translatable("passwords are not looked at while guesses cannot be counted")) from error


def _undo(name: str, address: str, *, right: bool = False) -> None:
    """The attempt was no guess: it could not be looked at, or the password was right."""
    with suppress(redis.RedisError):  # it answered a moment ago; what it keeps goes by itself
        login_attempts.undo(name, address)
        if right:
            login_attempts.signed_in(name, address)


def _find(name: str) -> User | None:
    """Whoever has the name, which may be anything that was typed."""
    return None if "\x00" in name else _ask(reading(lambda connection: users.by_name(connection, name)))


def _record(action: str, user: User | None, address: str) -> None:
    """``user`` None: of somebody who is not here."""
    _change(lambda connection: users.record(connection, None if user is None else user.name, action, address=address))


def _change(effect: Callable[[Connection], None]) -> None:
    def write() -> None:
        with unit_of_work() as connection:
            effect(connection)

    _ask(write)


def _ask(question: Callable[[], T]) -> T:
    """Nobody is known yet, and people are the whole service's."""
    with whole_service():
        return ask("database", question)


#: Passwords hashed at a time, 32 MB each; and seconds that one more waits for its turn.
HASHING = BoundedSemaphore(2)
HASHING_PATIENCE = 5.0
#: Of no password, made like all others: a name that nobody has takes as long as one that somebody has.
DUMMY_HASH = (
    "scrypt:32768:8:1$h8Yw2mQe0vTzK4aR$"
    "c41751990ba396c221bf8698534f781960b555da6cfd34cf85330893a0baf20a"
    "5fb0a1f01db01ddc68d11f7b541b8cfa5ab398338aae6eacefbdea3b01b14ee9"
)


class HashingBusy(Exception):  # noqa: N818 – its name says what happened
    """Too many passwords are looked at at this moment."""


def is_password_of(user: User | None, password: str) -> bool:
    """Whether somebody who may sign in has this password. Raises :class:`HashingBusy`."""
    if not HASHING.acquire(timeout=HASHING_PATIENCE):
        raise HashingBusy
    try:
        right = check_password_hash(user.password_hash if user else DUMMY_HASH, password[: MAX_PASSWORD + 1])
    finally:
        HASHING.release()
    return right and user is not None and not user.disabled
