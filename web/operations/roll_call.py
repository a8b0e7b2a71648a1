"""Which Celery workers answer, and which queues they read. Asked in the background, because asking takes its time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from celery import Celery

from jiyi.once import once
from jiyi.settings import get_settings

#: Seconds that workers are given for their answers; a broadcast always takes this long.
ANSWER_SECONDS = 0.5
#: Seconds after which an answer is asked for again, while somebody looks.
REFRESH_SECONDS = 5.0
#: Seconds that an answer counts. A worker with the solo pool is silent while it works, at most a task's time limit.
COUNTS_SECONDS = 120.0
#: Seconds after which a silent worker is no longer listed.
FORGET_SECONDS = 900.0


@dataclass(frozen=True, slots=True)
class Worker:
    name: str
    queues: tuple[str, ...]
    answered_seconds_ago: float

    @property
    def counts(self) -> bool:
        return self.answered_seconds_ago <= COUNTS_SECONDS


class RollCall:
    """Keeps the last answer of every worker. ``ask`` returns worker name → queues, and may fail or block."""

    def __init__(self, ask: Callable[[], dict[str, tuple[str, ...]]]) -> None:
        self._ask = ask
        self._lock = threading.Lock()
        self._answers: dict[str, tuple[tuple[str, ...], float]] = {}
        self._asked_at = float("-inf")

    def read(self) -> list[Worker]:
        """The workers by name, after asking them anew if the last time was long ago. Raises what ``ask`` raises."""
        with self._lock:  # one asks at a time: whoever waited finds fresh answers
            if time.monotonic() - self._asked_at > REFRESH_SECONDS:
                answers = self._ask()
                self._asked_at = time.monotonic()
                self._answers.update({name: (queues, self._asked_at) for name, queues in answers.items()})
            now = time.monotonic()
            self._answers = {name: kept for name, kept in self._answers.items() if now - kept[1] <= FORGET_SECONDS}
            return [Worker(name, queues, now - at) for name, (queues, at) in sorted(self._answers.items())]


@once
def roll_call() -> RollCall:
    """This process's roll call."""
    return RollCall(_ask_celery)


@once
def _celery() -> Celery:
    app = Celery("jiyi-web", broker=get_settings().need("broker_url"), set_as_current=False)
    app.conf.update(
        broker_connection_timeout=ANSWER_SECONDS * 2,
        broker_transport_options={"socket_connect_timeout": 1, "socket_timeout": 2, "max_retries": 0},
    )
    return app


def _ask_celery() -> dict[str, tuple[str, ...]]:
    replies: dict[str, list[dict[str, Any]]] | None = _celery().control.inspect(timeout=ANSWER_SECONDS).active_queues()
    return {name: tuple(queue["name"] for queue in queues) for name, queues in (replies or {}).items()}
