"""How many requests of one group are being answered: all of its keys together leave threads to the others."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from werkzeug.exceptions import TooManyRequests

from jiyi.protocol.budget import REQUESTS_OF_GROUP, RETRY_SECONDS


class InHand:
    """Requests by group. Thread-safe."""

    def __init__(self, most: int) -> None:
        self._most, self._lock = most, threading.Lock()
        self._counts: Counter[str] = Counter()

    @contextmanager
    def one_of(self, group_id: str) -> Iterator[None]:
        """One more request of the group, until the end of the block. Raises :class:`TooManyRequests`."""
        with self._lock:
            if self._counts[group_id] >= self._most:
                raise TooManyRequests(
                    f"{self._most} requests of this group are being answered; send fewer at a time. Ask again in {RETRY_SECONDS} s.",
                    retry_after=RETRY_SECONDS,
                )
            self._counts[group_id] += 1
        try:
            yield
        finally:
            with self._lock:
                self._counts[group_id] -= 1
                if not self._counts[group_id]:
                    del self._counts[group_id]


#: This process's.
REQUESTS = InHand(REQUESTS_OF_GROUP)
