"""``client.service``: state and counts of the service."""

from __future__ import annotations

from jiyi.client.calls import Calls


class Service:
    """The service's state, models and meters."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
