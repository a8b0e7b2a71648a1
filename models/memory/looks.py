"""Requests that wait until the database knows something of their rows: one thread of the process looks for all of them.

Each request looking for itself would cost a transaction every few milliseconds, however many others ask the same of other rows.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar
from uuid import UUID

from sqlalchemy import Connection

from jiyi.polling import FIRST_POLL, LAST_POLL
from models.db.bounded_reads import STATEMENT_TIMEOUT, Unanswered, from_database
from models.db.scope import for_groups

T = TypeVar("T")

#: Seconds between two looks for one group, at most, however many of its requests wait: what a person hardly notices.
BUSY_POLL = 0.2
#: Seconds beyond its time that a request waits for a database that is slow.
GRACE_SECONDS = 2 * STATEMENT_TIMEOUT


@dataclass(eq=False, slots=True)
class _Waiting(Generic[T]):
    """One request. Times are of ``time.monotonic``."""

    group_id: str
    #: What is not final yet.
    open: set[UUID]
    deadline: float
    due: float
    pause: float = FIRST_POLL
    found: dict[UUID, T] = field(default_factory=dict)
    done: threading.Event = field(default_factory=threading.Event)
    error: Exception | None = None


class Looks(Generic[T]):
    """Looks for one kind of thing. Thread-safe; the thread lives for as long as anybody waits.

    Args:
        look: what is known of some ids of a group, in the group's scope; those of which nothing is known may be left out.
        final: whether that will not change any more.
    """

    def __init__(self, look: Callable[[Connection, str, Sequence[UUID]], Mapping[UUID, T]], final: Callable[[T], bool]) -> None:
        self._look, self._final = look, final
        self._changed = threading.Condition()
        self._waiting: dict[str, list[_Waiting[T]]] = {}
        #: When each group that waits was looked for last.
        self._looked: dict[str, float] = {}
        self._thread: threading.Thread | None = None

    def wait(self, group_id: str, ids: Collection[UUID], seconds: float) -> Mapping[UUID, T] | None:
        """What is known of the ids when all of it is final, or when the time is up; None if the database gives no answer."""
        now = time.monotonic()
        request: _Waiting[T] = _Waiting(group_id, set(ids), now + seconds, now + min(FIRST_POLL, seconds))
        with self._changed:
            self._waiting.setdefault(group_id, []).append(request)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="looks", daemon=True)
                self._thread.start()
            self._changed.notify()
        if not request.done.wait(seconds + GRACE_SECONDS):
            with self._changed:
                self._forget(request)
            return None
        if isinstance(request.error, Unanswered):
            return None
        if request.error is not None:
            raise request.error
        return request.found

    def _run(self) -> None:
        while True:
            with self._changed:
                while not (due := self._due()):
                    if not self._waiting:
                        self._thread = None
                        return
                    self._changed.wait(self._seconds())
            for group_id, waiting in due.items():
                self._look_for(group_id, waiting)

    def _due(self) -> dict[str, list[_Waiting[T]]]:
        """Those who wait, of the groups that are to be looked for now."""
        now = time.monotonic()
        return {group_id: list(waiting) for group_id, waiting in self._waiting.items() if self._time(group_id) <= now}

    def _seconds(self) -> float:
        """Until the next group is to be looked for."""
        return max(0.0, min(map(self._time, self._waiting)) - time.monotonic())

    def _time(self, group_id: str) -> float:
        """When a group is to be looked for: the more of it wait, the rarer."""
        waiting = self._waiting[group_id]
        pause = min(FIRST_POLL * len(waiting), BUSY_POLL)
        return max(min(request.due for request in waiting), self._looked.get(group_id, 0.0) + pause)

    def _look_for(self, group_id: str, waiting: Sequence[_Waiting[T]]) -> None:
        """One look for all of a group's requests."""
        ids = sorted(set().union(*(request.open for request in waiting)))
        error: Exception | None = None
        known_rows: Mapping[UUID, T] = {}
        try:
            with for_groups(group_id):
                known_rows = from_database(lambda connection: self._look(connection, group_id, ids))
        except Exception as failure:  # noqa: BLE001 – whoever waits raises it
            error = failure
        now = time.monotonic()
        with self._changed:
            self._looked[group_id] = now
            for request in waiting:
                request.error = error
                known = {row: known_rows[row] for row in request.open if row in known_rows}
                request.found |= known
                request.open -= {row for row, value in known.items() if self._final(value)}
                if error is not None or not request.open or now >= request.deadline:
                    self._forget(request)
                    request.done.set()
                else:
                    request.pause = min(2 * request.pause, LAST_POLL)
                    request.due = min(now + request.pause, request.deadline)

    def _forget(self, one: _Waiting[T]) -> None:
        waiting = self._waiting.get(one.group_id, [])
        if one in waiting:
            waiting.remove(one)
        if not waiting:
            self._waiting.pop(one.group_id, None)
            self._looked.pop(one.group_id, None)
