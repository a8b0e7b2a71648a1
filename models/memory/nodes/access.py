"""When a memory was last accessed: buffered in Valkey, written in batches (GA-37 … GA-40).

Losing a buffer loses only that some memories were looked at: harmless, and said so.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast
from uuid import UUID

import redis
from redis.client import Pipeline
from sqlalchemy import text
from uuid6 import uuid7

from jiyi.settings import get_settings
from models.db import valkey_keys
from models.db.connection import unit_of_work
from models.db.scope import whole_service
from models.db.valkey import valkey

#: Most ids written by one statement; a larger buffer takes several.
FLUSH_IDS = 10_000
#: A flush that takes longer is dead: its task's limit.
FLUSH_SECONDS = 60
#: Times that are kept of each node's accesses, the latest ones.
RECENT = 20
#: What is counted, as it is called among all counters.
UPDATES, COALESCED = "access_updates_total", "access_coalesced_total"
#: Bound on the buffers that one call recovers.
MAX_ORPHANS = 1_000


@dataclass(frozen=True, slots=True)
class FlushResult:
    """``touches`` were asked for, ``nodes`` written: the difference was coalesced."""

    touches: int = 0
    nodes: int = 0


def touch(group_id: str, node_ids: Sequence[UUID], at: float) -> bool:
    """Note an access of a group's memories at ``at`` (epoch seconds). True if the caller is to queue a flush: nobody else has, yet."""
    if not node_ids:
        return False
    with valkey().pipeline(transaction=False) as pipe:
        touch_with(pipe, group_id, node_ids, at)
        return bool(pipe.execute()[-1])


def touch_with(pipe: Pipeline, group_id: str, node_ids: Sequence[UUID], at: float) -> None:
    """The same, on its way with whatever else the pipeline has to say; its last answer is :func:`touch`'s. There is at least one id."""
    keys = (valkey_keys.ACCESS, valkey_keys.ACCESS_COUNT, valkey_keys.ACCESS_DUE)
    due_ms = int(get_settings().access_flush_seconds * 1000)
    pipe.eval(_TOUCH, len(keys), *keys, at, due_ms, *(member(group_id, node_id) for node_id in node_ids))


def member(group_id: str, node_id: UUID | str) -> str:
    """How the buffer names a memory: its id is unique in its group only."""
    return f"{node_id}:{group_id}"


def flush() -> FlushResult:
    """Write what was buffered.

    Safe to repeat because the buffer is handed over under a name of its own first, and ``greatest()`` only
    moves times forward; a flush that dies leaves its buffer to :func:`recover`.
    """
    handed_over = valkey_keys.access_flush(uuid7())
    try:
        with valkey().pipeline(transaction=True) as pipe:
            pipe.rename(valkey_keys.ACCESS, handed_over)
            pipe.rename(valkey_keys.ACCESS_COUNT, handed_over + valkey_keys.COUNT_SUFFIX)
            pipe.execute()
    except redis.ResponseError:  # no such key: nothing was touched
        return FlushResult()
    return _write(handed_over)


def recover() -> FlushResult:
    """Write the buffers that a flush which died left behind."""
    touches = nodes = 0
    for found, key in enumerate(valkey().scan_iter(match=f"{valkey_keys.ACCESS_FLUSH}*", count=100)):
        name = key.decode()
        if found >= MAX_ORPHANS:
            break
        if not name.endswith(valkey_keys.COUNT_SUFFIX) and _age(name) > FLUSH_SECONDS:
            written = _write(name)
            touches, nodes = touches + written.touches, nodes + written.nodes
    return FlushResult(touches, nodes)


@dataclass(frozen=True, slots=True)
class AccessCounters:
    """Since Valkey has its data (GA-40): access times written, and accesses that were written along with a later one."""

    updates: int
    coalesced: int


def access_counters() -> AccessCounters:
    """Raises what Valkey raises."""
    updates, coalesced = valkey().hmget(valkey_keys.COUNTERS, [UPDATES, COALESCED])
    return AccessCounters(int(updates or 0), int(coalesced or 0))


def _age(handed_over: str) -> float:
    """Seconds since the hand-over: its name ends in a UUIDv7, which begins with milliseconds."""
    return time.time() - (UUID(handed_over.removeprefix(valkey_keys.ACCESS_FLUSH)).int >> 80) / 1000


def _write(handed_over: str) -> FlushResult:
    counts_key = handed_over + valkey_keys.COUNT_SUFFIX
    times = cast("list[tuple[bytes, float]]", valkey().zrange(handed_over, 0, -1, withscores=True))
    counts = {name: int(count) for name, count in valkey().hgetall(counts_key).items()}
    for start in range(0, len(times), FLUSH_IDS):
        chunk = sorted(times[start : start + FLUSH_IDS])  # in id order: two flushes queue up instead of deadlocking
        with whole_service(), unit_of_work() as connection:  # the buffer is everybody's
            connection.execute(
                _WRITE,
                {
                    "ids": [UUID(name.decode().partition(":")[0]) for name, _ in chunk],
                    "groups": [name.decode().partition(":")[2] for name, _ in chunk],
                    "times": [at for _, at in chunk],
                    "counts": [counts.get(name, 0) for name, _ in chunk],
                    "recent": RECENT,
                },
            )
    touches = sum(counts.values())
    with valkey().pipeline(transaction=True) as pipe:
        pipe.delete(handed_over, counts_key)
        pipe.hincrby(valkey_keys.COUNTERS, UPDATES, len(times))
        pipe.hincrby(valkey_keys.COUNTERS, COALESCED, max(touches - len(times), 0))
        pipe.execute()
    return FlushResult(touches, len(times))


# One command instead of two for each id, and in it three for many of them: each call from Lua takes about a microsecond, and Lua passes a
# few thousand arguments at most. GT: an access that arrives late never moves a later one back.
_TOUCH = """
    for first = 3, #ARGV, 1000 do
        local last = math.min(first + 999, #ARGV)
        local before = redis.call('HMGET', KEYS[2], unpack(ARGV, first, last))
        local times, counts, now = {}, {}, {}
        for i = first, last do
            local id, place = ARGV[i], 2 * (i - first) + 1
            now[id] = (now[id] or before[i - first + 1] or 0) + 1
            times[place], times[place + 1] = ARGV[1], id
            counts[place], counts[place + 1] = id, now[id]
        end
        redis.call('ZADD', KEYS[1], 'GT', unpack(times))
        redis.call('HSET', KEYS[2], unpack(counts))
    end
    return redis.call('SET', KEYS[3], 1, 'NX', 'PX', ARGV[2]) and 1 or 0
"""
_WRITE = text("""
    UPDATE node_access a SET last_accessed = greatest(a.last_accessed, to_timestamp(t.at)),
        access_count = a.access_count + t.count,
        recent = CASE WHEN to_timestamp(t.at) = ANY(a.recent) THEN a.recent  -- of a flush that is repeated
            ELSE (a.recent || to_timestamp(t.at))[greatest(cardinality(a.recent) + 2 - :recent, 1):] END
    FROM unnest(CAST(:ids AS uuid[]), CAST(:groups AS text[]), CAST(:times AS float8[]), CAST(:counts AS int[]))
        AS t(node_id, group_id, at, count)
    WHERE a.node_id = t.node_id AND a.group_id = t.group_id
""")
