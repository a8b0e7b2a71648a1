"""When a memory was last accessed: buffered in Valkey, written in batches.

Losing a buffer loses only that some memories were looked at: harmless, and said so.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from math import inf
from typing import cast
from uuid import UUID

import redis
from redis.client import Pipeline
from sqlalchemy import text
from uuid6 import uuid7

from models.db import valkey_keys
from models.db.connection import unit_of_work
from models.db.scope import whole_service
from models.db.valkey import valkey

#: Seconds until buffered accesses are written to the database.
DUE_SECONDS = 1.0

#: Most ids written by one statement; a larger buffer takes several.
FLUSH_IDS = 10_000
#: A flush that takes longer is dead: its task's limit.
FLUSH_SECONDS = 60
#: Times that are kept of each node's accesses, the latest ones.
RECENT = 20
#: Names of the counters of accesses.
UPDATES, COALESCED = "access_updates_total", "access_coalesced_total"
#: Bound on the buffers that one call recovers.
MAX_ORPHANS = 1_000
#: Accesses still to be counted, at most: without a worker that writes them the oldest are not counted, while
#: the times of all are kept.
COUNTED = 20_000


@dataclass(frozen=True, slots=True)
class FlushResult:
    """``touches`` were asked for, ``nodes`` written: the difference was coalesced."""

    touches: int = 0
    nodes: int = 0


def touch(pipe: Pipeline, group_id: str, node_ids: Sequence[UUID], at: float) -> None:
    """Note an access of a group's memories at ``at`` (epoch seconds), in a pipeline of the caller's.

    There is at least one id; the last answer is true when a flush is to be queued. Counts are added up by
    the flush: Valkey has no command that counts many at once.
    """
    names = [str(node_id) for node_id in node_ids]
    # ``gt``: never moves a later one back.
    pipe.zadd(valkey_keys.ACCESS, {member(group_id, name): at for name in names}, gt=True)
    pipe.rpush(valkey_keys.ACCESS_EACH, together(group_id, names, at))
    pipe.set(valkey_keys.ACCESS_DUE, 1, nx=True, px=int(DUE_SECONDS * 1000))


def keep_bounded() -> None:
    """Drop what is beyond ``COUNTED``; called where the flush is queued, not for each access."""
    valkey().ltrim(valkey_keys.ACCESS_EACH, -COUNTED, -1)


def member(group_id: str, node_id: UUID | str) -> str:
    """How the buffer names a memory: its id is unique in its group only."""
    return f"{node_id}:{group_id}"


def together(group_id: str, node_ids: Iterable[str], at: float | str) -> str:
    """How the buffer names what was accessed together, to be counted."""
    return f"{','.join(node_ids)}:{at}:{group_id}"


def flush() -> FlushResult:
    """Write what was buffered.

    Safe to repeat because the buffer is handed over under another name first, and times only move forward; a
    flush that dies leaves its buffer to :func:`recover`.
    """
    handed_over = valkey_keys.access_flush(uuid7())
    with valkey().pipeline(transaction=True) as pipe:
        for suffix in ("", valkey_keys.EACH_SUFFIX):
            pipe.rename(valkey_keys.ACCESS + suffix, handed_over + suffix)
        answers = pipe.execute(raise_on_error=False)
    if all(isinstance(answer, redis.ResponseError) for answer in answers):  # nothing was touched
        return FlushResult()
    return _write(handed_over)


def recover() -> FlushResult:
    """Write the buffers that a flush which died left behind."""
    touches = nodes = 0
    keys = islice(valkey().scan_iter(match=f"{valkey_keys.ACCESS_FLUSH}*", count=100), MAX_ORPHANS)
    for name in {key.decode().removesuffix(valkey_keys.EACH_SUFFIX) for key in keys}:
        if _age(name) > FLUSH_SECONDS:
            written = _write(name)
            touches, nodes = touches + written.touches, nodes + written.nodes
    return FlushResult(touches, nodes)


@dataclass(frozen=True, slots=True)
class AccessCounters:
    """Since Valkey has its data: access times written, and accesses that a later one stood for."""

    updates: int
    coalesced: int


def access_counters() -> AccessCounters:
    updates, coalesced = valkey().hmget(valkey_keys.COUNTERS, [UPDATES, COALESCED])
    return AccessCounters(int(updates or 0), int(coalesced or 0))


def _age(handed_over: str) -> float:
    """Seconds since the hand-over: its name ends in a UUIDv7, which begins with milliseconds."""
    return time.time() - (UUID(handed_over.removeprefix(valkey_keys.ACCESS_FLUSH)).int >> 80) / 1000


def _write(handed_over: str) -> FlushResult:
    latest, counts = _latest_and_counts(handed_over)
    times = sorted(latest.items())  # in id order: two flushes queue up instead of deadlocking
    for start in range(0, len(times), FLUSH_IDS):
        chunk = times[start : start + FLUSH_IDS]
        parameters = {
            "ids": [UUID(name.decode().partition(":")[0]) for name, _ in chunk],
            "groups": [name.decode().partition(":")[2] for name, _ in chunk],
            "times": [at for _, at in chunk],
            "counts": [counts[name] for name, _ in chunk],
            "recent": RECENT,
        }
        with whole_service(), unit_of_work() as connection:  # the buffer is everybody's
            connection.execute(_WRITE, parameters)
    touches = sum(counts.values())
    with valkey().pipeline(transaction=True) as pipe:
        pipe.delete(handed_over, handed_over + valkey_keys.EACH_SUFFIX)
        pipe.hincrby(valkey_keys.COUNTERS, UPDATES, len(times))
        pipe.hincrby(valkey_keys.COUNTERS, COALESCED, max(touches - len(times), 0))
        pipe.execute()
    return FlushResult(touches, len(times))


def _latest_and_counts(handed_over: str) -> tuple[dict[bytes, float], Counter[bytes]]:
    latest = dict(cast("list[tuple[bytes, float]]", valkey().zrange(handed_over, 0, -1, withscores=True)))
    counts: Counter[bytes] = Counter()
    for entry in cast("list[bytes]", valkey().lrange(handed_over + valkey_keys.EACH_SUFFIX, 0, -1)):
        node_ids, at, group_id = entry.split(b":", 2)
        for name in (node_id + b":" + group_id for node_id in node_ids.split(b",")):
            counts[name] += 1
            latest[name] = max(latest.get(name, -inf), float(at))  # the flush may have come between the two
    return latest, counts


_WRITE = text("""
    UPDATE node_access a SET last_accessed = greatest(a.last_accessed, to_timestamp(t.at)),
        access_count = a.access_count + t.count,
        recent = CASE WHEN to_timestamp(t.at) = ANY(a.recent) THEN a.recent  -- of a flush that is repeated
            ELSE (a.recent || to_timestamp(t.at))[greatest(cardinality(a.recent) + 2 - :recent, 1):] END
    FROM unnest(CAST(:ids AS uuid[]), CAST(:groups AS text[]), CAST(:times AS float8[]), CAST(:counts AS
    int[]))
        AS t(node_id, group_id, at, count)
    WHERE a.node_id = t.node_id AND a.group_id = t.group_id
""")
