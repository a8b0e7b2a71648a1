"""The connection to Redis/Valkey, one pool a process; and counts within a time, which raise RedisError."""

from __future__ import annotations

import redis
from limits.storage import RedisStorage
from redis.backoff import ExponentialWithJitterBackoff
from redis.retry import Retry

from jiyi.once import once
from jiyi.settings import get_settings
from models.db.spans import TracedValkey
from models.db.valkey_keys import PREFIX

SOCKET_TIMEOUT = 5.0  # seconds; an answer takes a millisecond, so a server that needs five is as good as down
#: Further tries when the connection is refused or broken, and seconds before the first and the last of them,
#: as redis-py has them.
RETRIES, FIRST_PAUSE, LAST_PAUSE = 10, 0.01, 1.0


@once
def valkey() -> redis.Redis:
    """This process's client; thread-safe. Answers are bytes."""
    waits = {"socket_timeout": SOCKET_TIMEOUT, "socket_connect_timeout": SOCKET_TIMEOUT}
    return TracedValkey.from_url(get_settings().need("redis_url"), retry=retry_unless_late(), **waits)


def retry_unless_late(retries: int = RETRIES) -> Retry:
    """Try again if the connection is refused or broken. A server that hangs is waited for once."""
    return Retry(ExponentialWithJitterBackoff(LAST_PAUSE, FIRST_PAUSE), retries, (redis.ConnectionError,))


def count_within(key: str, seconds: int) -> int:
    """One more; how many there are in the window of ``seconds`` that the first one began."""
    pool, prefix = valkey().connection_pool, PREFIX.removesuffix(":")
    storage = RedisStorage("redis://", connection_pool=pool, key_prefix=prefix)
    return storage.incr(key.removeprefix(PREFIX), seconds)
