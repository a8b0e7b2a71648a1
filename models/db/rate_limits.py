"""Counting how often something happens within a time, in Valkey, by the package `limits` (as Flask-Limiter does for API keys).

That may raise ``redis.RedisError``; whoever counts knows whether to go on without.
"""

from __future__ import annotations

import time

from limits.storage import RedisStorage

from models.db.valkey import valkey
from models.db.valkey_keys import PREFIX


def count(key: str, seconds: int) -> int:
    """One more; how many there are in the window of ``seconds`` that the first one began."""
    return _storage().incr(key.removeprefix(PREFIX), seconds)


def seconds_left(key: str) -> float:
    """Until the window of a key that was counted is over."""
    return max(0.0, _storage().get_expiry(key.removeprefix(PREFIX)) - time.time())


def _storage() -> RedisStorage:
    return RedisStorage("redis://", connection_pool=valkey().connection_pool, key_prefix=PREFIX.removesuffix(":"))
