"""``client.archive``: memories that were archived."""

from __future__ import annotations

from jiyi.client.calls import Calls


class Archive:
    """The group's archived memories."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
