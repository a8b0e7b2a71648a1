"""When a program that ended is started again, and when it is given up."""

from __future__ import annotations

import collections
import signal

BACKOFF_FIRST_SECONDS = 0.5  # a passing fault (a server that restarts) is often over by then.
BACKOFF_MOST_SECONDS = 10.0  # longer would look like an outage to people.
GOOD_RUN_SECONDS = 60.0  # a program that ran this long had started well: its back-off is reset.
MAX_CRASHES = 5  # within CRASH_WINDOW_SECONDS; more tries would only bury the cause in the log.
CRASH_WINDOW_SECONDS = 60.0
TOO_OFTEN = f"{MAX_CRASHES} times within {CRASH_WINDOW_SECONDS:.0f} seconds"


class Restarts:
    """The ends of one program, and what follows from them."""

    def __init__(self) -> None:
        self._crashes: collections.deque[float] = collections.deque(maxlen=MAX_CRASHES)
        self._backoff = BACKOFF_FIRST_SECONDS

    def pause(self, code: int, began: float, now: float) -> float | None:
        """Seconds to wait before the next start; None: it crashed too often. ``code`` 0 is no crash."""
        if code:
            self._crashes.append(now)
            if len(self._crashes) == MAX_CRASHES and now - self._crashes[0] <= CRASH_WINDOW_SECONDS:
                return None
        if now - began >= GOOD_RUN_SECONDS:
            self._backoff = BACKOFF_FIRST_SECONDS
        pause = self._backoff
        self._backoff = min(self._backoff * 2, BACKOFF_MOST_SECONDS)
        return pause


def describe(code: int) -> str:
    """How a program ended, in words."""
    if code < 0:
        return f"it was killed by signal {-code} ({signal.strsignal(-code) or 'unknown'})"
    return f"it ended with exit code {code}"
