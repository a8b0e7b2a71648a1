"""Queues of the broker: their names, and how full they are where that is cheap to know (Redis/Valkey)."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import cast
from urllib.parse import parse_qs, urlsplit

import redis

from jiyi.calls import retrieval_queues
from jiyi.settings import get_settings
from models import keys

#: Celery's queues; the queue of events has its own name in the settings (``intake_queue``).
OTHER_QUEUES = ("inspection", "embedding", "upkeep", "reflection")

#: Where kombu keeps what was handed out to Celery's workers but not acknowledged.
UNACKED, UNACKED_INDEX = "unacked", "unacked_index"

#: Seconds; an answer takes a millisecond, so a broker that needs this long is as good as silent.
SOCKET_TIMEOUT = 2.0


def task_queues() -> list[str]:
    """All of Celery's queues, as the settings have it."""
    return [*retrieval_queues(get_settings().retrieval_shards), *OTHER_QUEUES]


@dataclass(frozen=True, slots=True)
class InFlight:
    """Handed out and not acknowledged; ``oldest_seconds`` is None when there is none, or it is not known."""

    count: int
    oldest_seconds: float | None


@dataclass(frozen=True, slots=True)
class Depths:
    """Waiting messages by queue, and what is in hand: by the intakes, and by all Celery workers together."""

    waiting: dict[str, int]
    intake: InFlight
    tasks: InFlight


def redis_address(broker_url: str) -> str | None:
    """The address of a kombu broker as redis-py writes it, or None for another kind of broker."""
    parts = urlsplit(broker_url)
    if parts.scheme in ("redis", "rediss"):
        return broker_url
    if parts.scheme in ("valkey", "valkeys"):
        return broker_url.replace("valkey", "redis", 1)
    if parts.scheme == "redis+socket":
        database = parse_qs(parts.query).get("virtual_host", ["0"])[0].strip("/") or "0"
        return f"unix://{parts.netloc}{parts.path}?db={database}"
    return None


def depths(address: str, queues: Sequence[str]) -> Depths:
    """Two round trips. ``address`` is what :func:`redis_address` gave."""
    pipe = _client(address).pipeline(transaction=False)
    for queue in queues:
        pipe.llen(queue)
    pipe.hlen(UNACKED)
    pipe.zrange(UNACKED_INDEX, 0, 0, withscores=True)
    *waiting, tasks, oldest = pipe.execute()
    return Depths(
        dict(zip(queues, waiting, strict=True)),
        InFlight(in_hand(_client(address), get_settings().intake_queue), None),
        InFlight(tasks, _age(oldest)),
    )


def in_hand(client: redis.Redis, queue: str) -> int:
    """Messages that intakes took and have not stored yet."""
    pipe = client.pipeline(transaction=False)
    names = cast("set[bytes]", client.smembers(keys.intakes(queue)))
    for name in names:
        for hold in keys.intake_holds(queue, name.decode()):
            pipe.llen(hold)
    return sum(pipe.execute())


def _age(oldest: list[tuple[bytes, float]]) -> float | None:
    """Kombu's score is the time of delivery, by the consumer's clock."""
    return max(0.0, time.time() - oldest[0][1]) if oldest else None


@lru_cache(maxsize=4)
def _client(address: str) -> redis.Redis:
    return redis.Redis.from_url(address, socket_timeout=SOCKET_TIMEOUT, socket_connect_timeout=SOCKET_TIMEOUT)
