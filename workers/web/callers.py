"""How many requests of one caller are answered at a time, so that others find a thread."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass, field
from typing import Generic, Literal, TypeVar

T = TypeVar("T")


@dataclass(slots=True)
class _Requests(Generic[T]):
    """Of one caller: how many are being answered, and which wait."""

    busy: int = 0
    waiting: deque[T] = field(default_factory=deque)


class Callers(Generic[T]):
    """Requests by caller; thread-safe. ``most_waiting`` of each wait, more are refused."""

    def __init__(self, most_waiting: int) -> None:
        self._most_waiting = most_waiting
        self._lock = threading.Lock()
        self._of: dict[str, _Requests[T]] = {}

    def begin(self, caller: str, request: T, at_once: int) -> Literal["begun", "waits", "refused"]:
        """Have a request answered, if fewer than ``at_once`` of the caller are. If it waits, an :meth:`end`
        gives it back later.
        """
        with self._lock:
            requests = self._of.setdefault(caller, _Requests())
            if requests.busy < at_once:
                requests.busy += 1
                return "begun"
            if len(requests.waiting) < self._most_waiting:
                requests.waiting.append(request)
                return "waits"
            return "refused"

    def end(self, caller: str) -> T | None:
        """One that was begun is answered. The next, if one waits, is begun."""
        with self._lock:
            requests = self._of[caller]
            if requests.waiting:
                return requests.waiting.popleft()
            requests.busy -= 1
            if not requests.busy:
                del self._of[caller]  # nobody is remembered
            return None
