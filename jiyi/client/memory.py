"""``client.memory``, ``archive``, ``agents`` and ``reflections``: what agents remember, what is set for them, and what they think of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Unpack, get_args
from uuid import UUID

from jiyi.client.arguments import AgentArguments
from jiyi.client.calls import Id, Namespace, W
from jiyi.client.steps import PageFetcher, Steps, rows, verb
from jiyi.protocol import memory as protocol
from jiyi.protocol.base import DEFAULT_PAGE, Count, JsonObject, Made, NodeType, Rows
from jiyi.protocol.conversations import AnyKind
from jiyi.protocol.event_requests import EventState
from jiyi.protocol.origins import Origin
from jiyi.protocol.recall import Archived, AskedAgain, RetrievalRecord
from jiyi.protocol.reflection import ReflectionState

ALL_TYPES: tuple[NodeType, ...] = ("event", "thought", "chat")


class Memory(Namespace[W]):
    """What agents remember."""

    @verb
    def event_states(
        self, event_ids: Sequence[UUID], timeout: float | None = None, *, digests: Mapping[UUID, str] | None = None
    ) -> Steps[list[EventState]]:
        """What became of these events (at most 1,000), in their order.

        ``digests`` of what they say (:func:`jiyi.protocol.event_bodies.digest`) make sure that it is these events that the
        answer is about: ``id_reused`` where an id is another event's.
        """
        given: dict[str, Any] = {"ids": list(event_ids)}
        if digests:
            given["digests"] = {event_id: digests[event_id] for event_id in event_ids if event_id in digests}
        page: Rows[EventState] = yield from self._call("events.states", timeout, **given)
        return page.rows

    @verb
    def nodes(
        self,
        agent_id: str,
        *,
        types: Sequence[NodeType] = ALL_TYPES,
        user_id: str | None = None,
        origins: Sequence[Origin] = (),
        min_trust: float | None = None,
        archived: Archived = "with",
        cursor: str | None = None,
        limit: int = DEFAULT_PAGE,
    ) -> Steps[Rows[protocol.Memory]]:
        """A page of all that an agent has, newest first, also turns and what was superseded.

        ``cursor``: ``next`` of the page before.
        """
        filters: dict[str, Any] = {
            "types": list(types),
            "user_id": user_id,
            "origins": list(origins),
            "min_trust": min_trust,
            "archived": archived,
        }
        return self._call("memory.list", agent_id=agent_id, cursor=cursor, limit=limit, kinds=get_args(AnyKind), superseded=True, **filters)

    @verb
    def keywords(
        self, agent_id: str, *, user_id: str | None = None, cursor: str | None = None, limit: int = DEFAULT_PAGE
    ) -> Steps[Rows[protocol.KeywordStrength]]:
        """An agent's keywords, strongest first; ``cursor``: ``next`` of the page before.

        For a user those of the memories that the user may see.
        """
        return self._call("memory.keywords", agent_id=agent_id, user_id=user_id, cursor=cursor, limit=limit)

    @verb
    def export(
        self, agent_id: str | None = None, *, cursor: str | None = None, with_vectors: bool = False, limit: int = DEFAULT_PAGE
    ) -> Steps[Rows[JsonObject]]:
        """Events of an agent or of all, in order of arrival, with what their memories have been given since."""
        return self._call("memory.export", agent_id=agent_id, cursor=cursor, with_vectors=with_vectors, limit=limit)

    @verb
    def retrievals(
        self, agent_id: str | None = None, *, cursor: str | None = None, limit: int = DEFAULT_PAGE
    ) -> Steps[Rows[RetrievalRecord]]:
        """Retrievals of late, newest first, with what they returned: the group's, or an agent's."""
        return self._call("retrieval.list", agent_id=agent_id, cursor=cursor, limit=limit)

    @verb
    def ask_again(self, retrieval_id: Id, *, timeout: float | None = None) -> Steps[AskedAgain]:
        """A past retrieval, asked of what was known then and of what is known now. Raises :class:`jiyi.errors.NotFound`."""
        return self._call("retrieval.again", timeout, id=retrieval_id)

    @verb
    def related(
        self,
        agent_id: str,
        *,
        subject: str = "",
        predicate: str = "",
        object: str = "",  # noqa: A002 – the third part of a triple, as it is called everywhere
        limit: int = DEFAULT_PAGE,
    ) -> Steps[protocol.Related]:
        """Keyword retrieval: ``events`` and ``thoughts`` that share a keyword with a triple."""
        return self._call("memory.related", agent_id=agent_id, subject=subject, predicate=predicate, object=object, limit=limit)


class Archive(Namespace[W]):
    """The group's archived memories."""

    @verb
    def archive(self, *node_ids: Id) -> Steps[int]:
        """Archive memories; returns how many were not archived before."""
        done: Count = yield from self._call("archive.archive", ids=list(node_ids))
        return done.count

    @verb
    def restore(self, *node_ids: Id, agent_id: str | None = None) -> Steps[protocol.Restored]:
        """Bring archived memories back: these, or up to a thousand of an agent."""
        return self._call("archive.restore", ids=list(node_ids), agent_id=agent_id)


class Agents(Namespace[W]):
    """The group's agents."""

    @verb
    def configure(self, agent_id: str, **settings: Unpack[AgentArguments]) -> Steps[protocol.AgentState]:
        """Set an agent's settings now, with a row in the audit log; returns the agent.

        What is not given stays as it is; None takes the agent's own setting back. :meth:`jiyi.Client.configure` publishes
        an event instead, which also makes an agent that is not there yet.
        """
        return self._call("agents.configure", agent_id=agent_id, **settings)

    @verb
    def list(
        self, *, cursor: str | None = None, limit: int = DEFAULT_PAGE, timeout: float | None = None
    ) -> Steps[Rows[protocol.AgentState]]:
        """Agents in the order of their names."""
        return self._call("agents.list", timeout, cursor=cursor, limit=limit)

    @rows
    def all(self, *, timeout: float | None = None) -> PageFetcher[protocol.AgentState]:
        """Every agent, one after another, in the order of their names."""
        return lambda cursor: self._call("agents.list", timeout, cursor=cursor)


class Reflections(Namespace[W]):
    """Reflections of the group's agents."""

    @verb
    def request(self, agent_id: str) -> Steps[UUID]:
        """Let an agent reflect; returns at once, with the reflection's id. :meth:`jiyi.Client.reflect` waits for it."""
        done: Made = yield from self._call("reflection.request", agent_id=agent_id)
        return done.id

    @verb
    def state(self, reflection_id: Id) -> Steps[ReflectionState]:
        """How far a reflection is, and its thoughts."""
        return self._call("reflection.get", id=reflection_id)
