"""Passwords that were tried at the sign-in page: counted in Valkey, so that nobody guesses fast, and nobody is locked out.

Guesses are counted for a name from an address, for an address whatever the names, and for a name from all addresses. The first few are
free; after each further one the next has to wait, twice as long each time, up to a minute at most. So whoever guesses at somebody's
name keeps themselves waiting: the person comes in from another address at once, and from where they signed in lately even while
the name is guessed at from everywhere.

A guess is counted before the password is looked at: however many are made at a time, no more than the bound get through.
"""

from __future__ import annotations

import hashlib
import math
import time
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address, ip_network
from typing import cast

import redis

from models.db import valkey_keys
from models.db.valkey import valkey

#: Guesses are forgotten so long after the first one. Seconds.
WINDOW_SECONDS = 900
#: Wrong passwords for one name from one address until pauses begin, and the longest pause in seconds.
FREE_BY_PAIR, PAUSE_BY_PAIR = 5, 60
#: From one address, whatever the names: a household or an office behind one router mistypes more often.
FREE_BY_ADDRESS, PAUSE_BY_ADDRESS = 20, 60
#: For one name, from addresses from which nobody signed in by it lately. Short: it also holds up the person on a new device.
FREE_BY_NAME, PAUSE_BY_NAME = 20, 10
#: An address from which somebody signed in is known as theirs for so long. Seconds.
KNOWN_SECONDS = 30 * 86_400
#: Addresses that are known of one name, and those counted for it.
MAX_KNOWN, MAX_PAIRS = 20, 1_000
#: The part of an IPv6 address that one subscriber has for himself.
SUBSCRIBER_BITS = 64


@dataclass(frozen=True, slots=True)
class LoginAttempt:
    """``wait`` seconds until the next one is looked at; 0: this one is."""

    wait: int
    #: The first within the window that is not looked at: worth a note, the others are not.
    first_refused: bool = False


def count(name: str, address: str) -> LoginAttempt:
    """One more guess, unless it has to wait. Raises ``redis.RedisError``: then nobody signs in, or guessing would be free."""
    numbers = (FREE_BY_PAIR, PAUSE_BY_PAIR, FREE_BY_ADDRESS, PAUSE_BY_ADDRESS, FREE_BY_NAME, PAUSE_BY_NAME, MAX_PAIRS)
    arguments = (_subscriber(address), int(time.time() * 1_000), WINDOW_SECONDS, *numbers)
    wait, first = cast("list[int]", valkey().eval(_COUNT, 3, *_keys(name, address), *arguments))
    return LoginAttempt(math.ceil(wait / 1_000), first_refused=bool(first))


def undo(name: str, address: str) -> None:
    """The guess was none: it could not be looked at, or it was right."""
    valkey().eval(_UNDO, 3, *_keys(name, address), _subscriber(address))


def signed_in(name: str, address: str) -> None:
    """The password has come: the guesses before were the person's own, and the address is known as theirs."""
    _, _, known = _keys(name, address)
    reset(name)
    with suppress(redis.RedisError):
        valkey().eval(_KNOW, 1, known, _subscriber(address), time.time(), KNOWN_SECONDS, MAX_KNOWN)


def reset(name: str) -> None:
    """Nobody has to wait for the name any more: there is a new password. Without Valkey the pauses go by themselves, later."""
    with suppress(redis.RedisError):
        valkey().delete(valkey_keys.guesses_by_name(_digest(name)))


def _keys(name: str, address: str) -> tuple[str, str, str]:
    """Guesses at the name, guesses from the address, and the addresses known as the name's."""
    digest = _digest(name)
    return valkey_keys.guesses_by_name(digest), valkey_keys.guesses_by_address(_subscriber(address)), valkey_keys.known_addresses(digest)


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


# Hashes: a field with how many guesses there were, and beside it (":at") when the next one is looked at. In one step, so that of many
# guesses at a time each is counted before the next is let through.
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
