"""``client.erasure``: erasing what is remembered of somebody."""

from __future__ import annotations

from jiyi.client.calls import Calls


class Erasure:
    """Erasures of the group."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
