"""``client.reflections``: asking for reflections, and how far they are."""

from __future__ import annotations

from uuid import UUID

from jiyi.client.calls import Id, Namespace, W, checked
from jiyi.client.steps import Steps, verb
from jiyi.protocol.reflection import ReflectionAsked, ReflectionQuery, ReflectionState, ReflectRequest


class Reflections(Namespace[W]):
    """Reflections of the group's agents."""

    @verb
    def request(self, agent_id: str) -> Steps[UUID]:
        """Let an agent reflect; returns at once, with the reflection's id. :meth:`jiyi.Client.reflect` waits for it."""
        done = yield from self._act("reflection.request", checked(ReflectRequest, agent_id=agent_id), ReflectionAsked)
        return done.reflection_id

    @verb
    def state(self, reflection_id: Id) -> Steps[ReflectionState]:
        """How far a reflection is, and its thoughts."""
        return self._ask("reflection.get", checked(ReflectionQuery, reflection_id=reflection_id), ReflectionState)
