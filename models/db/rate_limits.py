"""Counting how often something happens within a time, in Valkey, by the package `limits` (as Flask-Limiter does for API keys).

Every function may raise ``redis.RedisError``; whoever counts knows whether to go on without.
"""

from __future__ import annotations

import math
import time

from limits.storage import RedisStorage

from models.db.valkey import valkey
from models.db.valkey_keys import PREFIX


def count(key: str, seconds: int) -> int:
    """One more; how many there are in the window of ``seconds`` that the first one began."""
    return _storage().incr(key.removeprefix(PREFIX), seconds)


def take_back(key: str, seconds: int) -> None:
    """One less."""
    _storage().incr(key.removeprefix(PREFIX), seconds, amount=-1)


def seconds_left(key: str) -> int:
    """Until the window ends; at least 1."""
    return max(1, math.ceil(_storage().get_expiry(key.removeprefix(PREFIX)) - time.time()))


def _storage() -> RedisStorage:
    return RedisStorage("redis://", connection_pool=valkey().connection_pool, key_prefix=PREFIX.removesuffix(":"))
