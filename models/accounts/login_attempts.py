"""Passwords that were tried at the sign-in page: counted in Valkey by name and by address, so that nobody guesses on.

A guess is counted before the password is looked at: however many are made at a time, no more than the bound get through.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address, ip_network

import redis

from models.db import rate_limits, valkey_keys
from models.db.valkey import valkey

#: Wrong passwords for one name within the window; then the name waits until the window ends.
MAX_BY_NAME = 5
#: From one address, whatever the names: a household or an office behind one router mistypes more often.
MAX_BY_ADDRESS = 20
WINDOW_SECONDS = 900
#: The part of an IPv6 address that one subscriber has for himself.
SUBSCRIBER_BITS = 64


@dataclass(frozen=True, slots=True)
class LoginAttempt:
    """``wait`` seconds until the next one is looked at; 0: this one is."""

    wait: int
    #: The first that is not looked at: worth a note, the others are not.
    first_refused: bool = False


def count(name: str, address: str) -> LoginAttempt:
    """One more guess. Raises ``redis.RedisError``: then nobody signs in, or guessing would be free."""
    counts = [(rate_limits.count(key, WINDOW_SECONDS), most, key) for key, most in _keys(name, address).items()]
    wait = max((rate_limits.seconds_left(key) for number, most, key in counts if number > most), default=0)
    return LoginAttempt(wait, first_refused=any(number == most + 1 for number, most, _ in counts))


def undo(name: str, address: str) -> None:
    """The guess was none: it could not be looked at, or it was right."""
    for key in _keys(name, address):
        rate_limits.take_back(key, WINDOW_SECONDS)


def reset(name: str) -> None:
    """Those before were the person's own: the password has come, or there is a new one. Without Valkey they go by
    themselves, later.
    """
    with suppress(redis.RedisError):
        valkey().delete(valkey_keys.guesses_by_name(_digest(name)))


def _keys(name: str, address: str) -> dict[str, int]:
    """What is counted, and how many are let through."""
    by_name, by_address = valkey_keys.guesses_by_name(_digest(name)), valkey_keys.guesses_by_address(_subscriber(address))
    return {by_name: MAX_BY_NAME, by_address: MAX_BY_ADDRESS}


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
