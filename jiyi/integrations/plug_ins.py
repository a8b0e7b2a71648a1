"""What plug-ins of assistants have in common: recall within a second, and what was said is published in the
background.

``jiyi connect`` writes this module into each plug-in (``docs/integrations.md``): where the assistant runs,
Jiyi is not installed. Nothing outside the standard library is imported.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from itertools import islice, takewhile
from typing import Any
from uuid import uuid4

from jiyi.cli.hook import post, storable

log = logging.getLogger("jiyi")

#: Seconds that recall may take: later an answer goes on without. And that a publication may, which nobody
#: waits for.
RECALL_SECONDS, PUBLISH_SECONDS = 1.0, 10.0
#: Events that wait while the service is away; of more, the oldest go. In one publication are at most so many.
MOST_WAITING, BATCH = 1_000, 50
#: Seconds between two tries, at most; and that the assistant waits at its end for what is not published yet.
LONGEST_PAUSE, END_SECONDS = 30.0, 3.0
#: Statuses of what is wrong in itself: to send it again is of no use. Others, such as those of a key that
#: expired, may pass.
REFUSED = frozenset({400, 409, 413, 422})
#: Characters of a question, and of what was said.
MAX_QUERY, MAX_CHARS = 4_000, 20_000

Event = dict[str, Any]
#: An event, with the configuration under which it was recorded.
QueuedEvent = tuple[Mapping[str, Any], Event]


class PlugInMemory:
    """An agent's memory in the service. Thread-safe.

    Args:
        config: gives ``url``, ``key`` and ``agent`` when they are needed, so that a changed configuration
            counts at once. It may raise ``OSError``, ``ValueError`` or ``KeyError``: then nothing is
            recalled, and nothing remembered.
    """

    def __init__(self, config: Callable[[], Mapping[str, Any]]) -> None:
        self._config = config
        self.waiting: deque[QueuedEvent] = deque(maxlen=MOST_WAITING)
        self._there, self._ending = threading.Condition(), threading.Event()
        self.thread: threading.Thread | None = None

    def recall(self, query: str, user_id: str = "") -> str:
        """What belongs before the answer to a question; empty if nothing does.

        Raises:
            OSError, ValueError, KeyError: the service is away or refuses, or the configuration lacks
            something.
        """
        query = storable(query)[:MAX_QUERY]
        if not query.strip():
            return ""
        config = self._config()
        body = {
            "agent_id": config["agent"],
            "query": query,
            **({"tz": tz} if (tz := config.get("tz")) else {"now": _now()}),
            **_whose(user_id),
        }
        return str(post({**config, "seconds": RECALL_SECONDS}, "/context", body)["text"])

    def recall_or_nothing(self, query: str, user_id: str = "") -> str:
        """As :meth:`recall`; what goes wrong is a warning in the log."""
        try:
            return self.recall(query, user_id)
        except (OSError, ValueError, KeyError) as error:
            log.warning("nothing is recalled: %s", error)
            return ""

    def event(self, kind: str, payload: Mapping[str, Any], *, user_id: str = "", **fields: Any) -> Event:
        """An event of the agent, of now unless ``fields`` (such as ``occurred_at``) say otherwise."""
        config = self._config()
        tz = config.get("tz")
        at = {"occurred_at": datetime.now(UTC).isoformat(), "tz": tz} if tz else {"occurred_at": _now()}
        says = {name: storable(it) if isinstance(it, str) else it for name, it in payload.items()}
        own = {"type": kind, "event_id": str(uuid4()), "agent_id": config["agent"]}
        return {**own, **at, "payload": says | _whose(user_id), **fields}

    def enqueue(self, kind: str, payload: Mapping[str, Any], *, user_id: str = "", **fields: Any) -> None:
        """Publish an event in the background, and again until the service takes it."""
        try:
            entry = self._config(), self.event(kind, payload, user_id=user_id, **fields)
        except (OSError, ValueError, KeyError) as error:
            log.warning("the turn was not stored: %s", error)
            return
        with self._there:
            if len(self.waiting) == MOST_WAITING:
                away = "the service has been away for long: what was said %d turns ago is not remembered"
                log.warning(away, MOST_WAITING)
            self.waiting.append(entry)
            if self.thread is None:
                self.thread = threading.Thread(target=self._publish_all, name="jiyi", daemon=True)
                self.thread.start()
            self._there.notify_all()

    def publish(self, events: list[Event], config: Mapping[str, Any] | None = None) -> None:
        """Each has an id: what is sent a second time is stored once. Raises as :meth:`recall`."""
        post({**(config or self._config()), "seconds": PUBLISH_SECONDS}, "/events", {"events": events})

    def begin(self) -> None:
        """The assistant begins, perhaps again with a plug-in that it had ended."""
        if self._ending.is_set():
            self._ending.clear()
            self.thread = None

    def end(self) -> None:
        """Publish what waits, for a few seconds at most."""
        self._ending.set()
        with self._there:
            self._there.notify_all()
        if self.thread is not None:
            self.thread.join(END_SECONDS)
        if self.waiting:
            late = "%d events were not published: the memory service did not take them in time"
            log.warning(late, len(self.waiting))

    def _publish_all(self) -> None:
        pause, size = 1.0, BATCH
        while True:
            with self._there:
                self._there.wait_for(lambda: self.waiting or self._ending.is_set())
                batch = self._first(size)
            if not batch:
                return
            under, current = batch[0][0], True
            try:
                config = self._config()
                current = config["key"] == under["key"]
                # Another key may be of another group.
                self.publish([event for _, event in batch], config if current else under)
            except (OSError, ValueError, KeyError) as error:
                if not current:
                    old = "%d events are not published: they belong to a key that is no longer set: %s"
                    log.warning(old, len(batch), error)
                elif not (error.args and error.args[0] in REFUSED):
                    log.warning("%d events wait: %s", len(self.waiting), error)
                    if self._ending.wait(pause):
                        return
                    pause = min(2 * pause, LONGEST_PAUSE)
                    continue
                elif len(batch) > 1:  # stored together or not at all: one by one, the wrong one shows
                    size = 1
                    continue
                else:
                    log.warning("the memory service rejected an event, which was dropped: %s", error)
                    size = BATCH
            pause = 1.0
            with self._there:
                for entry in batch:
                    if self.waiting and self.waiting[0] is entry:
                        self.waiting.popleft()

    def _first(self, most: int) -> list[QueuedEvent]:
        """The events that have waited longest, as far as they were recorded under one key."""
        key = self.waiting[0][0]["key"] if self.waiting else None
        return list(takewhile(lambda entry: entry[0]["key"] == key, islice(self.waiting, most)))


def _now() -> str:
    """Now by the clock of this machine, which is the user's: with its offset, so that days are the user's."""
    return datetime.now().astimezone().isoformat()


def _whose(user_id: str) -> dict[str, str]:
    return {"user_id": user_id} if user_id else {}
