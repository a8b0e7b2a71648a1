"""Append-only files of Valkey: what was deleted there stays in them until they are rewritten."""

from __future__ import annotations

import time
from collections.abc import Iterator

import redis

from jiyi.polling import poll
from jiyi.settings import get_settings
from models.db.valkey import valkey
from models.queue.broker_queues import broker_client, redis_address

REWRITTEN, OFF = "rewritten", "off"
FAILED = "the server could not rewrite it: see its log"
#: Part of a server's error if it has begun a rewrite on its own meanwhile.
_UNDER_WAY = "in progress"


def rewrite(begun: list[str], seconds: float) -> dict[str, str] | None:
    """Have each server rewrite its file: server → how it went; None if that takes longer.

    Call again then, with ``begun``, the servers that were asked. Raises redis.ConnectionError.
    """
    until, went = time.monotonic() + seconds, {}
    for name, client in _servers():
        try:
            if not client.info("persistence").get("aof_enabled"):
                went[name] = OFF
                continue
            if name not in begun:
                if not _is_idle(client, until):
                    return None
                client.bgrewriteaof()
                begun.append(name)
            if not _is_idle(client, until):
                return None
            succeeded = client.info("persistence").get("aof_last_bgrewrite_status") == "ok"
            went[name] = REWRITTEN if succeeded else FAILED
        except redis.ResponseError as error:  # a server may allow neither
            if _UNDER_WAY in str(error):
                return None
            went[name] = f"the server does not allow it: {error}"
    return went


def _servers() -> Iterator[tuple[str, redis.Redis]]:
    """By name; the broker, where messages went through, unless it is the same server, or of another kind."""
    yield "valkey", valkey()
    address = redis_address(get_settings().need("broker_url"))
    if address is not None and _run(broker := broker_client(address)) != _run(valkey()):
        yield "broker", broker


def _run(client: redis.Redis) -> object:
    return client.info("server").get("run_id")


def _is_idle(client: redis.Redis, until: float) -> bool:
    def idle() -> bool:
        persistence = client.info("persistence")
        names = ("aof_rewrite_in_progress", "aof_rewrite_scheduled")
        return not any(int(persistence.get(name, 0)) for name in names)

    return poll(idle, bool, max(0.0, until - time.monotonic()))
