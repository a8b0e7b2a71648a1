"""A queue whose thread publishes events, again while the broker is away: who puts one in never waits."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, Self

from jiyi.errors import InvalidEvent
from jiyi.protocol.base import JsonMapping

log = logging.getLogger(__name__)

#: Events that wait while the broker is away; of more, the newest are lost, counted and logged.
MAX_WAITING = 10_000
#: Events that are published at once.
BATCH = 100
#: Seconds between tries: doubled up to the second.
FIRST_PAUSE, LAST_PAUSE = 0.2, 10.0
#: Seconds that ``close`` waits for what is still in the queue.
CLOSE_SECONDS = 5.0


class Publisher(Protocol):
    """A publisher of events; :class:`jiyi.Client` is one."""

    def observe_many(self, observations: Iterable[JsonMapping], /) -> Sequence[object]:
        """Publish all, or raise having published none or some: the same ids are published again."""
        ...


@dataclass(slots=True)
class OutboxCounts:
    """What became of the events; ``skipped`` ones had no text."""

    published: int = 0
    skipped: int = 0
    refused: int = 0
    lost: int = 0


class Outbox:
    """A queue of events with a thread that publishes them. Thread-safe.

    Args:
        publisher: who publishes.
        one, many: what an event stands for, in the sentences that say what became of it: ``a turn``,
        ``turns``.
        on_failure: called with a sentence for each event that is refused or lost.
    """

    def __init__(
        self, publisher: Publisher, one: str, many: str, *, on_failure: Callable[[str], object] | None = None
    ) -> None:
        self.counts = OutboxCounts()
        self._publisher, self._one, self._many, self._on_failure = publisher, one, many, on_failure
        self._waiting: deque[JsonMapping] = deque()
        self._changed = threading.Condition()
        self._in_hand = 0
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def flush(self, seconds: float = CLOSE_SECONDS) -> bool:
        """Wait until everything is published; False if it is not, after so many seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._waiting and not self._in_hand, seconds)

    def close(self, seconds: float = CLOSE_SECONDS) -> None:
        """Publish what is still waiting, and end; what is not published by then is lost, counted and
        logged.
        """
        self.flush(seconds)
        with self._changed:
            self._closed.set()
            count = len(self._waiting)
            self._waiting.clear()
            self._changed.notify_all()
        if count:
            self.fail("lost", count, f"{count} {self._many} were not published before the end")

    def put(self, *events: JsonMapping) -> None:
        """Have events published, together if there is room for all. Never raises, never waits."""
        with self._changed:
            room = not self._closed.is_set() and len(self._waiting) + len(events) <= MAX_WAITING
            if room:
                self._waiting.extend(events)
                if self._thread is None:
                    self._thread = threading.Thread(target=self._run, name="jiyi-memory", daemon=True)
                    self._thread.start()
                self._changed.notify_all()
        if not room:
            self.fail(
                "lost",
                len(events),
                f"{self._one} is lost: "
                + ("closed" if self._closed.is_set() else f"{MAX_WAITING:,} wait already"),
            )

    def _run(self) -> None:
        pause = FIRST_PAUSE
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closed.is_set())
                if self._closed.is_set() and not self._waiting:
                    return
                batch = [self._waiting.popleft() for _ in range(min(BATCH, len(self._waiting)))]
                self._in_hand = len(batch)
            unpublished = self._publish(batch)
            with self._changed:
                self._waiting.extendleft(reversed(unpublished))
                self._in_hand = 0
                self._changed.notify_all()
                if self._closed.is_set():
                    return
            pause = min(2 * pause, LAST_PAUSE) if unpublished else FIRST_PAUSE
            if unpublished:
                self._closed.wait(pause)

    def _publish(self, batch: list[JsonMapping]) -> list[JsonMapping]:
        """Those that have to be tried again."""
        try:
            self._publisher.observe_many(batch)
        except InvalidEvent as error:
            if len(batch) > 1:  # one of them is wrong: each separately
                return [event for one in batch for event in self._publish([one])]
            self.fail("refused", 1, f"{self._one} is not remembered: {error}")
            return []
        except Exception as error:  # noqa: BLE001 – whatever it is, the caller goes on
            log.warning("%d %s wait to be published: %s", len(batch), self._many, error)
            return batch
        self.count("published", len(batch))
        return []

    def count(self, what: str, count: int = 1) -> None:
        """Add to one of ``counts``."""
        with self._changed:
            setattr(self.counts, what, getattr(self.counts, what) + count)

    def fail(self, what: str, count: int, sentence: str) -> None:
        """Count what is ``refused`` or ``lost``, and say so."""
        self.count(what, count)
        log.warning("%s", sentence)
        if self._on_failure is not None:
            try:
                self._on_failure(sentence)
            except Exception:
                log.exception("a listener failed")
