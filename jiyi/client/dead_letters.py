"""``client.dead_letters``: work that was given up."""

from __future__ import annotations

from jiyi.client.calls import Calls


class DeadLetters:
    """Dead letters: events and work that failed for good."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
