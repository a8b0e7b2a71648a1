"""Heartbeats: each Celery worker writes, again and again, that it lives and which queues it reads. Nobody has to ask it.

A heartbeat says that the process runs; that its queue is read is for the canaries to say (``models.operations.signs_of_life``).
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from models.db import valkey_keys
from models.db.valkey import valkey

#: Seconds between two heartbeats of a worker.
EVERY = 1.0
#: Seconds after which a worker that is silent no longer counts as alive: many heartbeats, so that a busy machine is no death.
COUNTS_SECONDS = 30.0
#: Seconds after which a silent worker is no longer listed.
FORGOTTEN_AFTER = 900.0


@dataclass(frozen=True, slots=True)
class Worker:
    """One process. ``worker_id`` is its host and process id, ``name`` what Celery calls it."""

    worker_id: str
    name: str
    queues: tuple[str, ...]
    seen_seconds_ago: float

    @property
    def counts(self) -> bool:
        """Whether it counts as alive."""
        return self.seen_seconds_ago <= COUNTS_SECONDS


def record(worker_id: str, name: str, queues: Sequence[str]) -> None:
    """This worker lives now. Raises what Valkey raises."""
    told = {"name": name, "queues": list(queues), "at": time.time()}
    valkey().hset(valkey_keys.WORKERS, worker_id, json.dumps(told))


def forget(worker_id: str) -> None:
    """This worker ends in good order."""
    valkey().hdel(valkey_keys.WORKERS, worker_id)


def workers() -> list[Worker]:
    """The workers by name, those included that have been silent for some minutes; what is older is deleted."""
    found, gone = [], []
    for worker_id, told in cast("dict[bytes, bytes]", valkey().hgetall(valkey_keys.WORKERS)).items():
        worker = _worker(worker_id.decode(), told)
        if worker is None or worker.seen_seconds_ago > FORGOTTEN_AFTER:
            gone.append(worker_id)
        else:
            found.append(worker)
    if gone:
        valkey().hdel(valkey_keys.WORKERS, *gone)
    return sorted(found, key=lambda worker: (worker.name, worker.worker_id))


def _worker(worker_id: str, told: bytes) -> Worker | None:
    try:
        fields = json.loads(told)
        return Worker(worker_id, fields["name"], tuple(fields["queues"]), max(0.0, time.time() - fields["at"]))
    except (ValueError, KeyError, TypeError):  # of another version
        return None
