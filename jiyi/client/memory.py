"""``client.memory``, ``archive``, ``agents`` and ``reflections``: what agents remember, what is set for them, and what they think of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Unpack, get_args
from uuid import UUID

from jiyi.client.arguments import AgentArguments
from jiyi.client.calls import Id, Namespace, W, checked
from jiyi.client.steps import PageFetcher, Steps, rows, verb
from jiyi.protocol import memory as protocol
from jiyi.protocol.base import DEFAULT_PAGE, NodeType, Page, Rows
from jiyi.protocol.conversations import AnyKind
from jiyi.protocol.event_requests import EventState, EventStatesQuery
from jiyi.protocol.origins import Origin
from jiyi.protocol.recall import AgainRequest, Archived, AskedAgain, ListMemories, RetrievalRecord, RetrievalsQuery
from jiyi.protocol.reflection import ReflectionAsked, ReflectionQuery, ReflectionState, ReflectRequest

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
        known = {event_id: digests[event_id] for event_id in event_ids if event_id in digests} if digests else {}
        query = checked(EventStatesQuery, event_ids=list(event_ids), **({"digests": known} if known else {}))
        return self._ask("events.states", query, list[EventState], timeout)

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
        after: str = "",
        limit: int = DEFAULT_PAGE,
    ) -> Steps[Rows[protocol.Memory]]:
        """A page of all that an agent has, newest first, also turns and what was superseded.

        ``after``: ``next`` of the page before.
        """
        filters = {"types": list(types), "user_id": user_id, "origins": list(origins), "min_trust": min_trust, "archived": archived}
        everything = {"kinds": get_args(AnyKind), "superseded": True, **filters}
        query = checked(ListMemories, agent_id=agent_id, after=after, limit=limit, **everything)
        return self._ask("memory.list", query, Rows[protocol.Memory])

    @verb
    def keywords(
        self, agent_id: str, *, user_id: str | None = None, after: str = "", limit: int = DEFAULT_PAGE
    ) -> Steps[Rows[protocol.KeywordStrength]]:
        """An agent's keywords, strongest first; ``after``: ``next`` of the page before.

        For a user those of the memories that the user may see.
        """
        query = checked(protocol.KeywordsQuery, agent_id=agent_id, user_id=user_id, after=after, limit=limit)
        return self._ask("memory.keywords", query, Rows[protocol.KeywordStrength])

    @verb
    def export(
        self, agent_id: str | None = None, *, after: int | None = None, with_vectors: bool = False, limit: int = DEFAULT_PAGE
    ) -> Steps[Page]:
        """Events of an agent or of all, in order of arrival, with what their memories have been given since."""
        query = checked(protocol.ExportQuery, agent_id=agent_id, after=after, with_vectors=with_vectors, limit=limit)
        return self._ask("memory.export", query, Page)

    @verb
    def retrievals(
        self, agent_id: str | None = None, *, before: UUID | None = None, limit: int = DEFAULT_PAGE
    ) -> Steps[Rows[RetrievalRecord]]:
        """Retrievals of late, newest first, with what they returned: the group's, or an agent's."""
        query = checked(RetrievalsQuery, agent_id=agent_id, before=before, limit=limit)
        return self._ask("retrieval.list", query, Rows[RetrievalRecord])

    @verb
    def ask_again(self, retrieval_id: Id, *, timeout: float | None = None) -> Steps[AskedAgain]:
        """A past retrieval, asked of what was known then and of what is known now. Raises :class:`jiyi.errors.NotFound`."""
        return self._ask("retrieval.again", checked(AgainRequest, retrieval_id=retrieval_id), AskedAgain, timeout)

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
        query = checked(protocol.RelatedQuery, agent_id=agent_id, subject=subject, predicate=predicate, object=object, limit=limit)
        return self._ask("memory.related", query, protocol.Related)


class Archive(Namespace[W]):
    """The group's archived memories."""

    @verb
    def archive(self, *node_ids: Id) -> Steps[int]:
        """Archive memories; returns how many were not archived before."""
        done = yield from self._act("archive.archive", checked(protocol.ArchiveRequest, node_ids=list(node_ids)), protocol.Archived)
        return done.archived

    @verb
    def restore(self, *node_ids: Id, agent_id: str | None = None) -> Steps[protocol.Restored]:
        """Bring archived memories back: these, or up to a thousand of an agent."""
        return self._act("archive.restore", checked(protocol.RestoreRequest, node_ids=list(node_ids), agent_id=agent_id), protocol.Restored)


class Agents(Namespace[W]):
    """The group's agents."""

    @verb
    def configure(self, agent_id: str, **settings: Unpack[AgentArguments]) -> Steps[protocol.AgentState]:
        """Set an agent's settings now, with a row in the audit log; returns the agent.

        What is not given stays as it is; None takes the agent's own setting back. :meth:`jiyi.Client.configure` publishes
        an event instead, which also makes an agent that is not there yet.
        """
        return self._act("agents.configure", checked(protocol.ConfigureAgent, agent_id=agent_id, **settings), protocol.AgentState)

    @verb
    def list(self, *, after: str = "", limit: int = DEFAULT_PAGE, timeout: float | None = None) -> Steps[Rows[protocol.AgentState]]:
        """Agents in the order of their names, those after the name ``after``."""
        return self._ask("agents.list", checked(protocol.AgentsQuery, after=after, limit=limit), Rows[protocol.AgentState], timeout)

    @rows
    def all(self, *, timeout: float | None = None) -> PageFetcher[protocol.AgentState]:
        """Every agent, one after another, in the order of their names."""

        def turn(after: str | None) -> Steps[tuple[list[protocol.AgentState], Any]]:
            page = yield from self._ask("agents.list", checked(protocol.AgentsQuery, after=after or ""), Rows[protocol.AgentState], timeout)
            return page.rows, page.next

        return turn


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
