"""What can go wrong with Valkey while it runs: bindings lost, connections cut, memory or disk full."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import redis

from models.db.valkey import valkey


def lose_bindings() -> bool:
    with suppress(redis.RedisError):
        if keys := list(valkey().scan_iter("_kombu.binding.*")):
            return bool(valkey().delete(*keys))
    return False


def cut() -> bool:
    """All connections of all programs to Valkey end, those of the broker among them."""
    with suppress(redis.RedisError):
        return bool(
            sum(int(valkey().client_kill_filter(_type=kind, skipme=True)) for kind in ("normal", "pubsub"))
        )
    return False


def _until_done(step: Callable[[], object]) -> None:
    """What takes an outage away must not fail because Valkey is just away for another reason."""
    for _ in range(100):
        with suppress(redis.RedisError):
            step()
            return
        time.sleep(0.1)


def full() -> Iterator[None]:
    try:
        valkey().config_set("maxmemory", "1")
        yield
    finally:  # an order whose answer did not come may have been carried out
        _until_done(lambda: valkey().config_set("maxmemory", "0"))


def disk_full() -> Iterator[None]:
    """As Valkey sees it: the last snapshot could not be written, so it takes no writes."""
    obstacle = Path(str(valkey().config_get("dir")["dir"])) / "dump.rdb"
    obstacle.unlink(missing_ok=True)
    (obstacle / "in the way").mkdir(parents=True, exist_ok=True)
    with suppress(redis.RedisError):
        valkey().config_set("save", "3600 1000000")
        valkey().bgsave()
    yield
    _until_done(lambda: valkey().config_set("save", ""))
    with suppress(OSError):
        (obstacle / "in the way").rmdir()
        obstacle.rmdir()
