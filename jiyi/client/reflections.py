"""``client.reflections``: how far reflections are."""

from __future__ import annotations

from jiyi.client.calls import Calls, Id, checked
from jiyi.protocol.reflection import ReflectionQuery, ReflectionState


class Reflections:
    """Reflections of the group's agents."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def state(self, reflection_id: Id) -> ReflectionState:
        """How far a reflection is, and its thoughts."""
        query = checked(ReflectionQuery, group_id=self._calls.group, reflection_id=reflection_id)
        return ReflectionState.model_validate(self._calls.inspect("reflection", query))
