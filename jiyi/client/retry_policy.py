"""What a client does when it is told that it asks too often: it waits as long as it was told, and asks again, within bounds.

A refused request was not begun, so each may be sent again: a question, a change, and events, whose ids make it harmless anyway.
"""

from __future__ import annotations

import random
import time

from jiyi.errors import TooManyQuestions

#: Tries of one request beyond the first: what the pauses below come to in two minutes.
MOST = 16
#: Seconds before the next try: as many as the service names, and at least the first, doubled up to the last with each refusal.
FIRST, LAST = 1.0, 8.0
#: Seconds, at most, that are added at random, so that callers that were refused together do not come back together.
SPREAD = 0.5


class RetryPolicy:
    """How long one request may still be sent again. ``seconds``: for all pauses together, from now on."""

    def __init__(self, seconds: float) -> None:
        self._until = time.monotonic() + seconds
        self._refusals = 0

    def pause(self, refusal: TooManyQuestions) -> float:
        """Seconds to wait before the next try. Raises the refusal if there would be no time left for one."""
        least = min(FIRST * 2.0**self._refusals, LAST)
        self._refusals += 1
        told = 0.0 if refusal.retry_after is None else refusal.retry_after
        seconds = max(told, least) + random.uniform(0, SPREAD)  # noqa: S311 – no secret
        if self._refusals > MOST or seconds >= self.left:
            raise refusal
        return seconds

    @property
    def left(self) -> float:
        """Seconds, at least 0."""
        return max(0.0, self._until - time.monotonic())
