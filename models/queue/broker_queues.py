"""Queues of the broker: names, lengths and contents, where that is cheap to know (Redis/Valkey).

Of a message only kind, id, age and size are read, inside the broker.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from itertools import islice
from typing import cast
from urllib.parse import parse_qs, urlsplit

import kombu
import redis
from kombu.transport.redis import Channel

from engine import subjects
from jiyi.protocol.rest import Queues
from jiyi.protocol.wire.broker import AMQP_TIMEOUTS, INTAKE_QUEUE
from jiyi.protocol.wire.calls import retrieval_queues
from jiyi.settings import get_settings
from models.db import valkey_keys

#: Priorities that kombu knows. On Redis each but 0 has a list of its own, by default one for each three of
#: them; publishers may have it otherwise (``priority_steps``).
PRIORITIES = range(10)

#: Celery's queues; the queue of events has its own name in the settings (``intake_queue``).
OTHER_QUEUES = ("inspection", "actions", "embedding", "upkeep", "reflection", *subjects.queues())

#: Where kombu keeps what was handed out to Celery's workers but not acknowledged.
UNACKED, UNACKED_INDEX = "unacked", "unacked_index"

#: Seconds; an answer takes a millisecond, so a broker that needs this long is as good as silent.
SOCKET_TIMEOUT = 2.0

#: Messages that are shown of each end of a queue.
SHOWN = 50
#: Messages, and bytes of them, that one look into a queue goes through.
SCANNED, SCANNED_BYTES = 1_000, 8 * 1024 * 1024


def lists_of(queue: str) -> list[str]:
    """A queue's lists on Redis, one a priority, most urgent first: 0, which nearly all messages have."""
    return [queue, *(f"{queue}{Channel.sep}{priority}" for priority in PRIORITIES[1:])]


def task_queues() -> list[str]:
    """All of Celery's queues, as the settings have it."""
    return [*retrieval_queues(get_settings().retrieval_shards), *OTHER_QUEUES]


@dataclass(frozen=True, slots=True)
class InFlight:
    """Handed out and not acknowledged; ``oldest_seconds`` is None when there is none, or it is not known."""

    count: int
    oldest_seconds: float | None
    #: Handed out as well, but kept by a worker until their time comes (wake-ups that are due later).
    later: int = 0


@dataclass(frozen=True, slots=True)
class Depths:
    """Waiting messages by queue, and what is in hand: by the intakes, and by all Celery workers together."""

    waiting: dict[str, int]
    intake: InFlight
    tasks: InFlight


@dataclass(frozen=True, slots=True)
class QueueMessage:
    """One message that waits. ``name`` is a task's, or the type of an event, or ``?``."""

    #: From the front: 0 is taken next.
    place: int
    name: str
    id: str | None
    #: Seconds since it was sent; None if its sender did not say.
    age_seconds: float | None
    bytes: int


@dataclass(frozen=True, slots=True)
class QueueContents:
    """What waits in a queue: how much, who is next, who came last, and what kinds among those looked at."""

    waiting: int
    oldest_seconds: float | None = None
    first: list[QueueMessage] = field(default_factory=list)
    last: list[QueueMessage] = field(default_factory=list)
    #: Messages by name, of the ``scanned`` ones at the front, most frequent first.
    by_name: dict[str, int] = field(default_factory=dict)
    scanned: int = 0


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
    """Three round trips. ``address`` is what :func:`redis_address` gave."""
    client = broker_client(address)
    pipe = client.pipeline(transaction=False)
    pipe.hlen(UNACKED)
    pipe.eval(_HELD, 2, UNACKED_INDEX, UNACKED, SCANNED)
    tasks, entries = pipe.execute()
    return Depths(
        lengths(client, queues),
        InFlight(unacknowledged(broker_client(address), INTAKE_QUEUE), None),
        in_flight(tasks, entries),
    )


def waiting(queue: str) -> int | None:
    """Messages that wait in a queue; None where that is not cheap to know. Raises what Redis raises."""
    address = redis_address(get_settings().need("broker_url"))
    return None if address is None else lengths(broker_client(address), [queue])[queue]


def lengths(client: redis.Redis, queues: Sequence[str]) -> dict[str, int]:
    """Messages that wait by queue, of all priorities: one round trip. Raises what Redis raises."""
    with client.pipeline(transaction=False) as pipe:
        for queue in queues:
            for name in lists_of(queue):
                pipe.llen(name)
        counts = iter(pipe.execute())
    return {queue: sum(islice(counts, len(PRIORITIES))) for queue in queues}


def messages_ready(broker_url: str, queues: Sequence[str], timeout: float) -> int:
    """Messages of Celery's queues that wait, on any broker, by a connection of their own.

    Raises :data:`BROKER_ERRORS`, after ``timeout`` seconds for each answer.
    """
    address = redis_address(broker_url)
    if address is not None:
        with redis.Redis.from_url(address, socket_timeout=timeout, socket_connect_timeout=timeout) as client:
            return sum(lengths(client, queues).values())
    waits = dict.fromkeys(AMQP_TIMEOUTS, timeout)
    with kombu.Connection(broker_url, connect_timeout=timeout, transport_options=waits) as connection:
        connection.ensure_connection(max_retries=1, interval_start=0)
        return sum(
            connection.default_channel.queue_declare(queue, passive=True).message_count for queue in queues
        )


def states() -> Queues:
    """How many messages wait in each queue of the service, and are in hand. Raises what the broker raises."""
    settings = get_settings()
    names = [INTAKE_QUEUE, *task_queues()]
    address = redis_address(settings.need("broker_url"))
    if address is None:
        note = "only a Redis-like broker reports its queues' lengths here"
        return Queues(queues=dict.fromkeys(names), in_flight=None, note=note)
    queue_depths = depths(address, names)
    in_hand = {"intake": queue_depths.intake.count, "tasks": queue_depths.tasks.count}
    return Queues(queues=dict(queue_depths.waiting), in_flight=in_hand)


def contents(address: str, queue: str, limit: int = SHOWN) -> QueueContents:
    """A look into a queue: two bounded scans inside the broker, which give names, ids and sizes."""
    client, lists = broker_client(address), lists_of(queue)
    with client.pipeline(transaction=False) as pipe:
        for name in lists:
            pipe.llen(name)
        pipe.eval(_LOOK, len(lists), *lists, SCANNED, SCANNED_BYTES, -1, SCANNED)
        pipe.eval(_LOOK, len(lists), *reversed(lists), limit, SCANNED_BYTES, 0, limit)
        *counts, front, back = pipe.execute()
    waiting = sum(counts)
    first = [_message(place, *message) for place, message in enumerate(front)]
    last = [_message(waiting - 1 - place, *message) for place, message in enumerate(back)]
    return QueueContents(
        waiting,
        first[0].age_seconds if first else None,
        first[:limit],
        [message for message in last if message.place >= min(limit, len(first))],
        dict(Counter(message.name for message in first).most_common()),
        len(first),
    )


def oldest(address: str, queues: Sequence[str]) -> dict[str, float | None]:
    """By queue: seconds since the oldest message of any priority was sent; None: none, or unknown."""
    with broker_client(address).pipeline(transaction=False) as pipe:
        for queue in queues:
            pipe.eval(_LOOK, len(PRIORITIES), *lists_of(queue), len(PRIORITIES), SCANNED_BYTES, -1, 1)
        looks = pipe.execute()
    ages = ([_message(0, *message).age_seconds for message in look] for look in looks)
    oldest_of = [max((age for age in some if age is not None), default=None) for some in ages]
    return dict(zip(queues, oldest_of, strict=True))


def _message(place: int, size: int, name: bytes, task_id: bytes, sent: bytes) -> QueueMessage:
    try:
        age: float | None = max(0.0, time.time() - float(sent))
    except ValueError:
        age = None
    label, known_by = name.decode(errors="replace") or "?", task_id.decode(errors="replace") or None
    return QueueMessage(place, label, known_by, age, size)


def unacknowledged(client: redis.Redis, queue: str) -> int:
    """Messages that intakes took and have not stored yet."""
    pipe = client.pipeline(transaction=False)
    names = cast("set[bytes]", client.smembers(valkey_keys.intakes(queue)))
    for name in names:
        for hold in valkey_keys.intake_holds(queue, name.decode()):
            pipe.llen(hold)
    return sum(pipe.execute())


def in_flight(count: int, looked_at: Sequence[tuple[bytes, bytes]]) -> InFlight:
    """Of ``held`` messages; ``looked_at``: of those delivered first when that was, and the task's ``eta``."""
    now, later, since = time.time(), 0, []
    for delivered, eta in looked_at:
        at = _timestamp(eta.decode())
        if at is not None and at > now:
            later += 1
        else:
            since.append(max(float(delivered), at or 0.0))
    return InFlight(count - later, max(0.0, now - min(since)) if since else None, later)


def _timestamp(iso: str) -> float | None:
    try:
        at = datetime.fromisoformat(iso)
    except ValueError:
        return None
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()


@lru_cache(maxsize=4)
def broker_client(address: str) -> redis.Redis:
    return redis.Redis.from_url(address, socket_timeout=SOCKET_TIMEOUT, socket_connect_timeout=SOCKET_TIMEOUT)


_HELD = """
local held, found = redis.call('ZRANGE', KEYS[1], 0, ARGV[1] - 1, 'WITHSCORES'), {}
for i = 1, #held, 2 do
    local message = redis.call('HGET', KEYS[2], held[i])
    if message then
        local eta = string.match(string.sub(message, -16384), '[{,] ?"eta": ?"([^"]*)"')
        found[#found + 1] = {held[i + 1], eta or ''}
    end
end
return found
"""
# kombu writes a message as JSON: the body first, in base64, then headers and properties: so the end of it
# shows what it is. What a header says of a task's arguments has its quotation marks escaped, so that it is
# not mistaken for a header. KEYS: lists. ARGV: most messages, most bytes, the end of each list to begin at
# (-1 or 0), most messages of each list.
_LOOK = """
local found, bytes = {}, 0
for _, list in ipairs(KEYS) do
    local place = tonumber(ARGV[3])
    local step = place < 0 and -1 or 1
    for i = 1, math.min(tonumber(ARGV[4]), tonumber(ARGV[1]) - #found) do
        if bytes >= tonumber(ARGV[2]) then break end
        local message = redis.call('LINDEX', list, place)
        if not message then break end
        bytes = bytes + #message
        place = place + step
        local tail = string.sub(message, -16384)
        local name = string.match(tail, '[{,] ?"task": ?"([^"]*)"')
            or string.match(tail, '[{,] ?"routing_key": ?"([^"]*)"')
        found[#found + 1] = {
            #message, string.sub(name or '', 1, 200), string.match(tail, '[{,] ?"id": ?"([^"]*)"') or '',
            string.match(tail, '[{,] ?"published_at": ?([%d%.]+)') or '',
        }
    end
end
return found
"""
