"""``client.keys``: API keys."""

from __future__ import annotations

from jiyi.client.calls import Calls


class Keys:
    """API keys of the group, or of all groups."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
