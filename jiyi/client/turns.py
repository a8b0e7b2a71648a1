"""Turns: how many calls of one client are under way at a time. The others wait in the order in which they came."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from threading import Lock

from jiyi.errors import NoAnswer

#: Calls under way at a time, each of which holds a connection until its answer is there. Valkey takes 10,000 by default, and a service
#: has fewer workers than this: more would wait there instead of here.
CALLS_AT_ONCE = 100


class Turns:
    """Turns of threads."""

    def __init__(self, count: int = CALLS_AT_ONCE) -> None:
        self._lock = Lock()
        self._free = self._count = count
        #: Of each thread that waits the lock that it waits for.
        self._waiting: deque[Lock] = deque()

    @contextmanager
    def one(self, task: str, wait: float) -> Iterator[float]:
        """A turn; gives the seconds that are left of ``wait``.

        Raises:
            NoAnswer: none was free for as long. Nothing was sent.
        """
        deadline = time.monotonic() + wait
        if not self._take(wait):
            raise no_turn(task, self._count, wait)
        try:
            yield max(deadline - time.monotonic(), 0)
        finally:
            self._give_back()

    def _take(self, wait: float) -> bool:
        with self._lock:
            if self._free:
                self._free -= 1
                return True
            mine = Lock()
            mine.acquire()
            self._waiting.append(mine)
        if mine.acquire(timeout=wait):
            return True
        with self._lock:
            if mine in self._waiting:
                self._waiting.remove(mine)
                return False
        return True  # it was handed over as the time ran out

    def _give_back(self) -> None:
        """To who has waited longest: nobody who comes later is served before."""
        with self._lock:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._free += 1


class AsyncTurns:
    """Turns of an event loop's tasks."""

    def __init__(self, count: int = CALLS_AT_ONCE) -> None:
        self._count = count
        self._turns = asyncio.Semaphore(count)  # which is fair

    @asynccontextmanager
    async def one(self, task: str, wait: float) -> AsyncIterator[float]:
        """As :meth:`Turns.one`."""
        deadline = time.monotonic() + wait
        try:
            await asyncio.wait_for(self._turns.acquire(), wait)
        except TimeoutError:
            raise no_turn(task, self._count, wait) from None
        try:
            yield max(deadline - time.monotonic(), 0)
        finally:
            self._turns.release()


def no_turn(task: str, count: int, wait: float) -> NoAnswer:
    """A call was not sent, because all connections were busy with others."""
    return NoAnswer(
        f"{task} was not sent: for {wait:g} s this client's {count:,} calls at a time all waited for their answers. Give more seconds, ask "
        "for less at once, or start more workers"
    )
