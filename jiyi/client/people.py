"""``client.people``: who may sign in."""

from __future__ import annotations

from jiyi.client.calls import Calls


class People:
    """People who may sign in."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
