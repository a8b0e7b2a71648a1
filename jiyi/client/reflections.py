"""``client.reflections``: asking for reflections, and how far they are."""

from __future__ import annotations

from uuid import UUID

from jiyi.client.calls import Calls, Id, checked
from jiyi.protocol.reflection import ReflectionAsked, ReflectionQuery, ReflectionState, ReflectRequest


class Reflections:
    """Reflections of the group's agents."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def request(self, agent_id: str) -> UUID:
        """Let an agent reflect; returns at once, with the reflection's id. :meth:`jiyi.Client.reflect` waits for it."""
        done = self._calls.act("reflection.request", checked(ReflectRequest, agent_id=agent_id))
        return ReflectionAsked.model_validate(done).reflection_id

    def state(self, reflection_id: Id) -> ReflectionState:
        """How far a reflection is, and its thoughts."""
        query = checked(ReflectionQuery, reflection_id=reflection_id)
        return ReflectionState.model_validate(self._calls.ask("reflection.get", query))
