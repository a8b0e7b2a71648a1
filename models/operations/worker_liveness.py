"""Liveness of workers: beat sends each of Celery's queues canaries, tiny tasks; workers write heartbeats.

A heartbeat says that a process runs, a canary that its queue is read. What is not known is None.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, cast

import redis

from jiyi.protocol.operations import WorkerMode
from models.db import valkey_keys
from models.db.valkey import valkey
from models.queue.broker_queues import broker_client

TASK = "canary.sing"
#: Seconds between two canaries of a queue.
CANARY_EVERY = 10
#: Seconds until another one is sent though the last was not run: doubles with each, so that a queue nobody
#: reads gathers a few messages an hour, not hundreds.
LAST_PAUSE = 600
#: Seconds after which a queue that is no longer sent any, or a beat that is gone, is forgotten.
CANARY_FORGOTTEN_AFTER = 86_400
#: Seconds between two heartbeats of a worker.
HEARTBEAT_EVERY = 1.0
#: Seconds after which a worker that is silent no longer counts as alive: many heartbeats, so that a busy
#: machine is no death.
COUNTS_SECONDS = 30.0
#: Seconds after which a silent worker is no longer listed.
FORGOTTEN_AFTER = 900.0


@dataclass(frozen=True, slots=True)
class Canary:
    """What is known of one queue; times in epoch seconds."""

    queue: str
    #: When the last one was sent, and when the last one was run.
    sent_at: float | None = None
    ran_at: float | None = None
    #: Seconds that this one waited in the queue.
    waited: float | None = None
    #: Sent since then, without an answer yet.
    outstanding: int = 0

    @property
    def age(self) -> float | None:
        """Seconds since the last canary ran."""
        return None if self.ran_at is None else max(0.0, time.time() - self.ran_at)


def due(queue: str) -> bool:
    """Whether beat is to send one now, which then counts as sent. Notes that beat lives."""
    keys = (valkey_keys.canary(queue), valkey_keys.BEAT)
    seconds = (time.time(), CANARY_EVERY, LAST_PAUSE, CANARY_FORGOTTEN_AFTER)
    return bool(valkey().eval(_DUE, len(keys), *keys, *seconds))


def record_canary(queue: str, sent_at: float) -> None:
    """The canary that was sent then has been run by a worker."""
    now = time.time()
    with valkey().pipeline(transaction=True) as pipe:
        waited = max(0.0, now - sent_at)
        key = valkey_keys.canary(queue)
        pipe.hset(key, mapping={"sang": now, "waited": waited, "outstanding": 0})
        pipe.expire(valkey_keys.canary(queue), CANARY_FORGOTTEN_AFTER)
        pipe.execute()


def read_canaries(queues: Sequence[str]) -> list[Canary]:
    with valkey().pipeline(transaction=False) as pipe:
        for queue in queues:
            pipe.hgetall(valkey_keys.canary(queue))
        replies = pipe.execute()
    return [_canary(queue, fields) for queue, fields in zip(queues, replies, strict=True)]


def beat_age() -> float | None:
    """Seconds since beat last looked whether there is something to send; None if it has not, for a day."""
    last_beat = cast("bytes | None", valkey().get(valkey_keys.BEAT))
    return None if last_beat is None else max(0.0, time.time() - float(last_beat))


def intake_ages(address: str, queue: str, heartbeat_seconds: float) -> list[float]:
    """Seconds since each living intake of the queue last reported, the latest first.

    ``heartbeat_seconds``: how long a heartbeat counts.
    """
    client: redis.Redis = broker_client(address)
    names = sorted(cast("set[bytes]", client.smembers(valkey_keys.intakes(queue))))
    with client.pipeline(transaction=False) as pipe:
        for name in names:
            pipe.pttl(valkey_keys.intake_alive(name.decode()))
        remaining_ms = pipe.execute()
    return sorted(max(0.0, heartbeat_seconds - ms / 1_000) for ms in remaining_ms if ms > 0)


def _canary(queue: str, fields: dict[bytes, bytes]) -> Canary:
    def number(name: bytes) -> Any:
        return None if name not in fields else float(fields[name])

    return Canary(
        queue, number(b"sent"), number(b"sang"), number(b"waited"), int(number(b"outstanding") or 0)
    )


@dataclass(frozen=True, slots=True)
class WorkerReport:
    version: str = ""
    mode: WorkerMode = "running"
    #: Its process ended because an operator stopped it.
    ended: bool = False
    #: Tasks in hand with the epoch seconds at which they began, the longest first; and runs that ended within
    #: the last minute.
    in_hand: tuple[tuple[str, float], ...] = ()
    tasks_a_minute: int = 0
    rss_bytes: int | None = None
    #: The operator who set this mode, and when, in epoch seconds.
    wished_by: str = ""
    wished_at: float = 0.0


@dataclass(frozen=True, slots=True)
class Worker:
    """One process. ``worker_id`` is its host and process id, ``name`` what Celery calls it."""

    worker_id: str
    name: str
    queues: tuple[str, ...]
    seen_seconds_ago: float
    report: WorkerReport = WorkerReport()

    @property
    def ended(self) -> bool:
        return self.report.ended

    @property
    def counts(self) -> bool:
        """Whether it counts as alive."""
        return self.seen_seconds_ago <= COUNTS_SECONDS and not self.ended


def record_heartbeat(
    worker_id: str, name: str, queues: Sequence[str], report: WorkerReport | None = None
) -> None:
    """This worker lives now. Raises what Valkey raises."""
    fields = {"name": name, "queues": list(queues), "at": time.time(), **asdict(report or WorkerReport())}
    valkey().hset(valkey_keys.WORKERS, worker_id, json.dumps(fields))


def forget(worker_id: str) -> None:
    """This worker ends in good order."""
    valkey().hdel(valkey_keys.WORKERS, worker_id)


def workers() -> list[Worker]:
    """The workers by name, also those silent for some minutes; older ones are deleted."""
    alive, gone = [], []
    for worker_id, payload in cast("dict[bytes, bytes]", valkey().hgetall(valkey_keys.WORKERS)).items():
        worker = _worker(worker_id.decode(), payload)
        if worker is None or worker.seen_seconds_ago > FORGOTTEN_AFTER:
            gone.append(worker_id)
        else:
            alive.append(worker)
    if gone:
        valkey().hdel(valkey_keys.WORKERS, *gone)
    running = {worker.name for worker in alive if worker.counts}
    alive = [worker for worker in alive if not worker.ended or worker.name not in running]
    return sorted(alive, key=lambda worker: (worker.name, worker.worker_id))


def _worker(worker_id: str, payload: bytes) -> Worker | None:
    try:
        fields = json.loads(payload)
        name, queues, at = fields.pop("name"), tuple(fields.pop("queues")), fields.pop("at")
        # a newer version reports more
        report = {field: value for field, value in fields.items() if field in WorkerReport.__slots__}
        return Worker(worker_id, name, queues, max(0.0, time.time() - at), WorkerReport(**report))
    except (ValueError, KeyError, TypeError):  # of another version
        return None


# By Valkey in one step, so that two beats do not both send. The pause is measured from the last one sent.
_DUE = """
redis.call('SET', KEYS[2], ARGV[1], 'EX', ARGV[4])
local now, sent = tonumber(ARGV[1]), tonumber(redis.call('HGET', KEYS[1], 'sent') or 0)
local outstanding = tonumber(redis.call('HGET', KEYS[1], 'outstanding') or 0)
local pause = math.min(tonumber(ARGV[2]) * 2 ^ math.max(0, outstanding - 1), tonumber(ARGV[3]))
-- A little early counts as in time; a clock that was set back does not silence it.
if now >= sent and now - sent < pause * 0.9 then return 0 end
redis.call('HSET', KEYS[1], 'sent', ARGV[1])
redis.call('HINCRBY', KEYS[1], 'outstanding', 1)
redis.call('EXPIRE', KEYS[1], ARGV[4])
return 1
"""
