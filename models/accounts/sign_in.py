"""Signing in by name and password, staying signed in, and signing out: each attempt is counted and audited.

Wrong passwords are counted in Valkey, so that nobody guesses fast, and nobody is locked out: for a name from
an address, for an address whatever the names, and for a name from all addresses. The first few are free;
after each further one the next has to wait, twice as long each time, up to a minute at most. So an attacker
who guesses at somebody's name delays only themselves: the person signs in from another address at once, and
from where they signed in recently even while the name is guessed at from everywhere.

A guess is counted before the password is looked at: however many are made at a time, no more than the bound
get through.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address, ip_network
from threading import BoundedSemaphore
from typing import Any, TypeVar, cast
from uuid import UUID

import redis
from sqlalchemy import Connection
from werkzeug.security import check_password_hash

from jiyi.protocol.accounts import MAX_PASSWORD, Role, hash_password, make_password
from jiyi.text.translatable import Translatable
from models.accounts import users
from models.accounts.users import User
from models.db import valkey_keys
from models.db.bounded_reads import SourceUnavailable, ask, reading, source
from models.db.connection import unit_of_work
from models.db.scope import whole_service
from models.db.valkey import valkey

T = TypeVar("T")
#: Passwords hashed at a time, 32 MB each; and seconds that one more waits for its turn.
HASHING = BoundedSemaphore(2)
HASHING_PATIENCE = 5.0
#: Of no password, made like all others: a name that nobody has takes as long as one that somebody has.
DUMMY_HASH = (
    "scrypt:32768:8:1$h8Yw2mQe0vTzK4aR$"
    "c41751990ba396c221bf8698534f781960b555da6cfd34cf85330893a0baf20a"
    "5fb0a1f01db01ddc68d11f7b541b8cfa5ab398338aae6eacefbdea3b01b14ee9"
)
#: Guesses are forgotten so long after the first one. Seconds.
WINDOW_SECONDS = 900
#: Wrong passwords for one name from one address until pauses begin, and the longest pause in seconds.
FREE_BY_PAIR, PAUSE_BY_PAIR = 5, 60
#: From one address, whatever the names: a household or an office behind one router mistypes more often.
FREE_BY_ADDRESS, PAUSE_BY_ADDRESS = 20, 60
#: For one name, from addresses from which nobody signed in by it lately. Short: it also holds up the person
#: on a new device.
FREE_BY_NAME, PAUSE_BY_NAME = 20, 10
#: An address from which somebody signed in is known as theirs for so long. Seconds.
KNOWN_SECONDS = 30 * 86_400
#: Addresses that are known of one name, and those counted for it.
MAX_KNOWN, MAX_PAIRS = 20, 1_000
#: The part of an IPv6 address that one subscriber has for himself.
SUBSCRIBER_BITS = 64


@dataclass(frozen=True, slots=True)
class SignInResult:
    """``user``: whose password it is; None: nobody's, or it was not looked at, for ``wait`` seconds more."""

    user: User | None
    wait: int = 0


def sign_in(name: str, password: str, address: str) -> SignInResult:
    """Look at a password, and audit what came of it.

    Raises:
        HashingBusy: too many are looked at at this moment.
        SourceUnavailable: the database is away, or Valkey: then guesses cannot be counted.
    """
    guess = _count(name, address)
    try:
        user = _find(name)
        if guess.wait:
            if guess.first_refused:
                _record("locked", user, address)
            return SignInResult(None, guess.wait)
        # Also for an unknown name: hashing for known names only would reveal them by the time it takes.
        right = is_password_of(user, password)
        if user is None or not right:
            _record("wrong password", user, address)
            return SignInResult(None)
        _record("signed in", user, address)
    except (SourceUnavailable, HashingBusy):
        _undo(name, address)
        raise
    _undo(name, address, right=True)
    return SignInResult(user)


def from_provider(subject: str, name: str, role: Role, groups: list[str] | None, address: str) -> User | None:
    """Somebody whom a provider of OpenID Connect has let in; audited. None if the name is another account's,
    or theirs is disabled.

    Raises:
        SourceUnavailable: the database is away.
    """
    password = hash_password(make_password())  # which nobody knows: an operator can set one

    def store() -> User | None:
        with unit_of_work() as connection:
            user = users.from_provider(
                connection, subject, name=name, password_hash=password, role=role, groups=groups
            )
            welcome = user is not None and not user.disabled
            action = "signed in" if welcome else "refused by name"
            users.record(connection, user.name if user else None, action, address=address, provider=True)
        return user if welcome else None

    return _ask(store)


def refuse_from_provider(name: str, address: str) -> None:
    """Audit that somebody whom the provider knows has no role here. Raises :class:`SourceUnavailable`."""
    _record("no role", None, address, called=name, provider=True)


def confirm(user: User, password: str, address: str) -> SignInResult:
    """Whether somebody signed in knows the password; counts and errors as in :func:`sign_in`."""
    guess = _count(user.name, address)
    if guess.wait:
        return SignInResult(None, guess.wait)
    if not is_password_of(user, password):
        _record("wrong password", user, address)
        return SignInResult(None)
    _undo(user.name, address, right=True)
    return SignInResult(user)


def sign_out(user: User) -> None:
    """All sessions of this person end. Raises :class:`SourceUnavailable`."""
    _change(lambda connection: users.sign_out(connection, user))


def find(user_ids: Collection[UUID]) -> dict[UUID, User]:
    """People by their ids. Raises :class:`SourceUnavailable`."""

    def question(connection: Connection) -> dict[UUID, User]:
        people = {user_id: users.by_id(connection, user_id) for user_id in user_ids}
        return {user_id: user for user_id, user in people.items() if user is not None}

    return _ask(reading(question))


def note_visit(user_id: UUID) -> None:
    """For the list of people; nobody waits for it."""
    with whole_service():
        source("notes").begin(lambda: _change(lambda connection: users.seen(connection, user_id)))


def _count(name: str, address: str) -> LoginAttempt:
    try:
        return count_guess(name, address)
    except redis.RedisError as error:
        raise SourceUnavailable(
            "Valkey", Translatable("passwords are not looked at while guesses cannot be counted")
        ) from error


def _undo(name: str, address: str, *, right: bool = False) -> None:
    """The attempt was no guess: it could not be looked at, or the password was right."""
    with suppress(redis.RedisError):  # it answered a moment ago; its counts expire
        undo_guess(name, address)
        if right:
            signed_in(name, address)


def _find(name: str) -> User | None:
    """The user of that name, which may be anything that was typed."""
    return None if "\x00" in name else _ask(reading(lambda connection: users.by_name(connection, name)))


def _record(action: str, user: User | None, address: str, **details: Any) -> None:
    """``user`` None: of somebody who is not here."""
    name = None if user is None else user.name
    _change(lambda connection: users.record(connection, name, action, address=address, **details))


def _change(effect: Callable[[Connection], None]) -> None:
    def write() -> None:
        with unit_of_work() as connection:
            effect(connection)

    _ask(write)


def _ask(question: Callable[[], T]) -> T:
    """Nobody is known yet, and people are the whole service's."""
    with whole_service():
        return ask("database", question)


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


@dataclass(frozen=True, slots=True)
class LoginAttempt:
    """``wait`` seconds until the next one is looked at; 0: this one is."""

    wait: int
    #: The first within the window that is not looked at: worth a note, the others are not.
    first_refused: bool = False


def count_guess(name: str, address: str) -> LoginAttempt:
    """One more guess, unless it has to wait. Raises ``redis.RedisError``: nobody signs in uncounted."""
    by_pair, by_address = (FREE_BY_PAIR, PAUSE_BY_PAIR), (FREE_BY_ADDRESS, PAUSE_BY_ADDRESS)
    numbers = (*by_pair, *by_address, FREE_BY_NAME, PAUSE_BY_NAME, MAX_PAIRS)
    arguments = (_subscriber(address), int(time.time() * 1_000), WINDOW_SECONDS, *numbers)
    wait, first = cast("list[int]", valkey().eval(_COUNT, 3, *_keys(name, address), *arguments))
    return LoginAttempt(math.ceil(wait / 1_000), first_refused=bool(first))


def undo_guess(name: str, address: str) -> None:
    """The guess was none: it could not be looked at, or it was right."""
    valkey().eval(_UNDO, 3, *_keys(name, address), _subscriber(address))


def signed_in(name: str, address: str) -> None:
    """The password has come: the guesses before were the person's own, and the address is known as theirs."""
    _, _, addresses_key = _keys(name, address)
    reset_guesses(name)
    with suppress(redis.RedisError):
        valkey().eval(_KNOW, 1, addresses_key, _subscriber(address), time.time(), KNOWN_SECONDS, MAX_KNOWN)


def reset_guesses(name: str) -> None:
    """Nobody waits for the name any more. Without Valkey the pauses end by themselves, later."""
    with suppress(redis.RedisError):
        valkey().delete(valkey_keys.guesses_by_name(_digest(name)))


def _keys(name: str, address: str) -> tuple[str, str, str]:
    """Guesses at the name, guesses from the address, and the addresses known as the name's."""
    digest = _digest(name)
    return (
        valkey_keys.guesses_by_name(digest),
        valkey_keys.guesses_by_address(_subscriber(address)),
        valkey_keys.known_addresses(digest),
    )


def _digest(name: str) -> str:
    """What was typed may be anything, a password too: Valkey does not learn it."""
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()


def _subscriber(address: str) -> str:
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return "unknown"
    if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped is None:
        return str(ip_network((parsed, SUBSCRIBER_BITS), strict=False).network_address)
    return str(parsed)


# Hashes: a field with how many guesses there were, and beside it (":at") when the next one is looked at. In
# one step, so that of many guesses at a time each is counted before the next is let through.
_COUNT = """
local name, address, known = KEYS[1], KEYS[2], KEYS[3]
local who, now, window = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local function begin(key) if redis.call('TTL', key) < 0 then redis.call('EXPIRE', key, window) end end
local scopes = {}
if redis.call('HEXISTS', name, who) == 1 or redis.call('HLEN', name) < tonumber(ARGV[10]) then
    scopes[#scopes + 1] = {name, who, tonumber(ARGV[4]), tonumber(ARGV[5])}
end
scopes[#scopes + 1] = {address, 'all', tonumber(ARGV[6]), tonumber(ARGV[7])}
local stranger = redis.call('ZSCORE', known, who) == false
if stranger then scopes[#scopes + 1] = {name, 'all', tonumber(ARGV[8]), tonumber(ARGV[9])} end
local wait = 0
for _, scope in ipairs(scopes) do
    wait = math.max(wait, tonumber(redis.call('HGET', scope[1], scope[2] .. ':at') or 0) - now)
end
if wait > 0 then
    local first = redis.call('HSETNX', name, who .. ':told', 1)
    begin(name)
    return {wait, first}
end
for _, scope in ipairs(scopes) do
    local count = redis.call('HINCRBY', scope[1], scope[2], 1)
    if count >= scope[3] then
        local pause = math.min(2 ^ math.min(count - scope[3], 20), scope[4])
        redis.call('HSET', scope[1], scope[2] .. ':at', string.format('%.0f', now + pause * 1000))
    end
    begin(scope[1])
end
return {0, 0}
"""
_UNDO = """
for _, scope in ipairs({{KEYS[1], ARGV[1]}, {KEYS[1], 'all'}, {KEYS[2], 'all'}}) do
    if tonumber(redis.call('HGET', scope[1], scope[2]) or 0) > 0 then
        redis.call('HINCRBY', scope[1], scope[2], -1)
        redis.call('HDEL', scope[1], scope[2] .. ':at')
    end
end
"""
_KNOW = """
redis.call('ZADD', KEYS[1], ARGV[2], ARGV[1])
redis.call('ZREMRANGEBYRANK', KEYS[1], 0, -1 - tonumber(ARGV[4]))
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', tonumber(ARGV[2]) - tonumber(ARGV[3]))
redis.call('EXPIRE', KEYS[1], ARGV[3])
"""
