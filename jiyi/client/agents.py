"""``client.agents``: agents and their settings."""

from __future__ import annotations

from jiyi.client.calls import Calls


class Agents:
    """The group's agents."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
