"""What operators want of workers: written here, read by each worker with its heartbeat (``workers.celery.modes``).

A wish is of a worker's name, so that a process which is started anew in the place of another one still knows of it. It is signed with
the service's secret: whoever can write to Valkey or to the broker stops nobody.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import cast

from jiyi.protocol.operations import WorkerMode
from jiyi.protocol.wire.signatures import call_signature, need_secret_key, service_call_key
from jiyi.settings import get_settings
from models.db import valkey_keys
from models.db.valkey import valkey

#: Seconds that a wish is kept.
KEPT_SECONDS = 30 * 86_400


@dataclass(frozen=True, slots=True)
class Wish:
    mode: WorkerMode = "running"
    #: Epoch seconds at which it was written.
    at: float = 0.0


def write(worker: str, mode: WorkerMode) -> None:
    """The worker of this name shall run, pause, drain or stop. Raises what Valkey raises."""
    at = f"{time.time():.3f}"
    told = {"mode": mode, "at": at, "signature": _signature(worker, mode, at)}
    valkey().set(valkey_keys.worker_wish(worker), json.dumps(told), ex=KEPT_SECONDS)


def find(worker: str) -> Wish:
    """What is wanted of the worker: to run, unless somebody who knows the secret says otherwise."""
    told = cast("bytes | None", valkey().get(valkey_keys.worker_wish(worker)))
    try:
        fields = json.loads(told or b"{}")
        if fields and fields["signature"] == _signature(worker, fields["mode"], fields["at"]):
            return Wish(fields["mode"], float(fields["at"]))
    except (ValueError, KeyError, TypeError):  # of another version, or nobody's
        return Wish()
    return Wish()


def _signature(worker: str, mode: str, at: str) -> str:
    return call_signature(service_call_key(need_secret_key(get_settings())), "workers.wish", at, [worker, mode], {})
