"""The connection to Redis/Valkey: one pool a process."""

from __future__ import annotations

import redis

from jiyi.once import once
from jiyi.settings import get_settings

SOCKET_TIMEOUT = 5.0  # seconds; an answer takes a millisecond, so a server that needs five is as good as down


@once
def valkey() -> redis.Redis:
    """This process's client; thread-safe. Answers are bytes."""
    return redis.Redis.from_url(get_settings().need("redis_url"), socket_timeout=SOCKET_TIMEOUT, socket_connect_timeout=SOCKET_TIMEOUT)
