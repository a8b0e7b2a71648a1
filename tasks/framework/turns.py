"""Turns to compute, shared fairly between groups: one group's flood keeps no other group waiting.

Calls of all groups come through the same queues. A worker takes them off at once, each in a thread of its own, and lets a few compute at
a time. Which is next is decided by group: the one that has used the least time lately. What is waiting may not grow without bound
either: a group with too much of it is refused at once, and told when to ask again.

How much a group may have is in :mod:`jiyi.protocol.budget`.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from jiyi.errors import NoAnswer, TooManyQuestions
from jiyi.protocol.budget import ASKING_SECONDS, MEMORY_SECONDS, WAITING_CALLS, WORK_SHARE

#: Groups that are remembered; of more those go that were served longest ago.
MOST_GROUPS = 10_000
#: Turns that no single group gets, so that another one's call begins at once.
KEPT_FREE = 2


@dataclass(slots=True)
class _Group:
    """What one group has and had."""

    running: int = 0
    #: Calls that wait for their turn, in order.
    waiting: deque[threading.Event] = field(default_factory=deque)
    #: Seconds of turns, of which those long ago count less, at ``at``.
    used: float = 0.0
    at: float = 0.0

    def used_by(self, now: float) -> float:
        return self.used * math.exp((self.at - now) / MEMORY_SECONDS)

    def use(self, seconds: float, now: float) -> None:
        self.used, self.at = self.used_by(now) + seconds, now


class Turns:
    """Turns of one process. Thread-safe.

    Args:
        at_once: how many compute at a time.
    """

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self._lock = threading.Lock()
        self._groups: dict[str, _Group] = {}
        #: Those of the groups of which calls wait, in the order in which they began to.
        self._waiting: dict[str, _Group] = {}
        self._running = 0

    @contextmanager
    def turn(self, group_id: str, until: float) -> Iterator[None]:
        """Wait for a turn, and have it.

        Args:
            group_id: on whose account.
            until: on ``time.monotonic``'s clock; nobody waits for the answer after that.

        Raises:
            TooManyQuestions: too many calls of the group wait already.
            NoAnswer: it was not its turn in time.
        """
        self._begin(group_id, until)
        began = time.monotonic()
        try:
            yield
        finally:
            self._end(group_id, time.monotonic() - began)

    @property
    def running(self) -> int:
        """How many calls compute."""
        return self._running

    def waiting(self, group_id: str) -> int:
        """How many calls of a group wait for their turn."""
        group = self._waiting.get(group_id)
        return 0 if group is None else len(group.waiting)

    def _begin(self, group_id: str, until: float) -> None:
        now = time.monotonic()
        if now > until:
            raise NoAnswer("the time for the answer was over before the call was begun; the service is busy")
        with self._lock:
            group = self._group(group_id, now)
            if self._running < self._at_once and not group.waiting and group.running < self._most(group, now):
                group.running += 1
                self._running += 1
                return
            if len(group.waiting) >= WAITING_CALLS:
                raise TooManyQuestions(f"{WAITING_CALLS} calls of this group wait already; ask again in a moment, with fewer at a time")
            turn = threading.Event()
            group.waiting.append(turn)
            self._waiting[group_id] = group
        if turn.wait(max(0.0, until - now)):
            return
        with self._lock:
            if turn.is_set():  # just now: it is given back
                self._give_back(group)
            else:
                group.waiting.remove(turn)
                if not group.waiting:
                    del self._waiting[group_id]
        raise NoAnswer("there was no turn in time for this call; the service is busy, or the group asks too much at a time")

    def _end(self, group_id: str, seconds: float) -> None:
        now = time.monotonic()
        with self._lock:
            group = self._groups[group_id]
            group.use(seconds, now)
            self._give_back(group)

    def _give_back(self, group: _Group) -> None:
        group.running -= 1
        self._running -= 1
        self._next()

    def _next(self) -> None:
        """Give free turns to who waits."""
        now = time.monotonic()
        while self._running < self._at_once:
            ready = [(name, group) for name, group in self._waiting.items() if group.running < self._most(group, now)]
            if not ready:
                return
            name, group = min(ready, key=lambda one: (one[1].running, one[1].used_by(now)))
            group.running += 1
            self._running += 1
            group.waiting.popleft().set()
            if not group.waiting:
                del self._waiting[name]

    def _most(self, group: _Group, now: float) -> int:
        """How many of its calls may compute at a time."""
        if self._is_over(group, now):
            return 1
        return max(1, self._at_once - KEPT_FREE)

    def _is_over(self, group: _Group, now: float) -> bool:
        """Whether it has used more than its share lately, while others were there."""
        if group.used_by(now) <= WORK_SHARE * MEMORY_SECONDS:
            return False
        others = (other for other in self._groups.values() if other is not group)
        return any(other.running or other.waiting or now - other.at < ASKING_SECONDS for other in others)

    def _group(self, group_id: str, now: float) -> _Group:
        group = self._groups.get(group_id)
        if group is None:
            if len(self._groups) >= MOST_GROUPS:
                idle = [one for one, known in self._groups.items() if not known.running and not known.waiting]
                for one in sorted(idle, key=lambda name: self._groups[name].at)[: MOST_GROUPS // 10]:
                    del self._groups[one]
            group = self._groups[group_id] = _Group(at=now)
        return group
