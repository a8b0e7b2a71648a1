"""What is kept between searches: results for a while, and how many a session has had (CN-53, CN-57)."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Protocol

from jiyi.providers.websearch import SearchResult

#: Results, and sessions, that one process remembers.
MAX_KEPT = 1_000
#: Seconds after which a session that has not searched is forgotten.
SESSION_SECONDS = 86_400.0

Clock = Callable[[], float]


class Cache(Protocol):
    """Thread-safe."""

    def get(self, key: str) -> SearchResult | None: ...

    def put(self, key: str, result: SearchResult) -> None: ...


class Quota(Protocol):
    """Thread-safe."""

    def take(self, session: str) -> bool:
        """Count one search; False, and nothing counted, if the session has had its number."""
        ...


class MemoryCache:
    """Results in this process, the least recently used go first, none is older than ``seconds``."""

    def __init__(self, seconds: float, size: int = MAX_KEPT, clock: Clock = time.monotonic) -> None:
        self._seconds, self._size, self._clock = seconds, size, clock
        self._kept: OrderedDict[str, tuple[float, SearchResult]] = OrderedDict()
        self._lock = Lock()

    def get(self, key: str) -> SearchResult | None:
        with self._lock:
            at, result = self._kept.get(key, (0.0, None))
            if result is None:
                return None
            if self._clock() - at >= self._seconds:
                del self._kept[key]
                return None
            self._kept.move_to_end(key)
            return result

    def put(self, key: str, result: SearchResult) -> None:
        with self._lock:
            self._kept[key] = self._clock(), result
            self._kept.move_to_end(key)
            while len(self._kept) > self._size:
                self._kept.popitem(last=False)


class MemoryQuota:
    """Counts in this process; with several, each session may have so many in each."""

    def __init__(self, most: int, size: int = MAX_KEPT, clock: Clock = time.monotonic) -> None:
        self._most, self._size, self._clock = most, size, clock
        self._counts: OrderedDict[str, tuple[float, int]] = OrderedDict()
        self._lock = Lock()

    def take(self, session: str) -> bool:
        with self._lock:
            now = self._clock()
            at, count = self._counts.get(session, (now, 0))
            if now - at >= SESSION_SECONDS:
                count = 0
            if count >= self._most:
                return False
            self._counts[session] = now, count + 1
            self._counts.move_to_end(session)
            while len(self._counts) > self._size:
                self._counts.popitem(last=False)
            return True
