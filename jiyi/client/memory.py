"""``client.memory``: looking into what agents remember, and what became of events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

from jiyi.client.calls import Id, Namespace, W, checked
from jiyi.client.steps import Steps, verb
from jiyi.protocol.base import DEFAULT_PAGE, NodeType, Page, Rows
from jiyi.protocol.event_requests import EventState, EventStatesQuery
from jiyi.protocol.memory import (
    Archived,
    ArchivedQuery,
    ArchivedRow,
    ArchiveRequest,
    ExportQuery,
    KeywordsQuery,
    KeywordStrength,
    MemoryRow,
    NodesQuery,
    RelatedQuery,
    Restored,
    RestoreRequest,
)
from jiyi.protocol.recall import RetrievalRecords, RetrievalsQuery

Found = dict[str, list[MemoryRow]]
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
        self, agent_id: str, *, types: Sequence[NodeType] = ALL_TYPES, before: int | None = None, limit: int = DEFAULT_PAGE
    ) -> Steps[Rows[MemoryRow]]:
        """An agent's memories, newest first; those with a ``node_count`` below ``before``."""
        query = checked(NodesQuery, agent_id=agent_id, types=list(types), before=before, limit=limit)
        return self._ask("memory.nodes", query, Rows[MemoryRow])

    @verb
    def keywords(self, agent_id: str, *, offset: int = 0, limit: int = DEFAULT_PAGE) -> Steps[Rows[KeywordStrength]]:
        """An agent's keywords, strongest first, without the first ``offset``."""
        query = checked(KeywordsQuery, agent_id=agent_id, offset=offset, limit=limit)
        return self._ask("memory.keywords", query, Rows[KeywordStrength])

    @verb
    def export(
        self, agent_id: str | None = None, *, after: int | None = None, with_vectors: bool = False, limit: int = DEFAULT_PAGE
    ) -> Steps[Page]:
        """Events of an agent or of all, in order of arrival, with what their memories have been given since."""
        query = checked(ExportQuery, agent_id=agent_id, after=after, with_vectors=with_vectors, limit=limit)
        return self._ask("memory.export", query, Page)

    @verb
    def retrievals(self, agent_id: str | None = None, *, before: UUID | None = None, limit: int = DEFAULT_PAGE) -> Steps[RetrievalRecords]:
        """Retrievals of late, newest first, with what they returned: the group's, or an agent's."""
        query = checked(RetrievalsQuery, agent_id=agent_id, before=before, limit=limit)
        return self._ask("retrieval.list", query, RetrievalRecords)

    @verb
    def related(
        self,
        agent_id: str,
        *,
        subject: str = "",
        predicate: str = "",
        object: str = "",  # noqa: A002 – the third part of a triple, as it is called everywhere
        limit: int = DEFAULT_PAGE,
    ) -> Steps[Found]:
        """Keyword retrieval: ``events`` and ``thoughts`` that share a keyword with a triple."""
        query = checked(RelatedQuery, agent_id=agent_id, subject=subject, predicate=predicate, object=object, limit=limit)
        return self._ask("memory.related", query, Found)


class Archive(Namespace[W]):
    """The group's archived memories."""

    @verb
    def list(self, agent_id: str, *, before: int | None = None, limit: int = DEFAULT_PAGE) -> Steps[Rows[ArchivedRow]]:
        """An agent's archived memories, newest first; those with a ``node_count`` below ``before``."""
        query = checked(ArchivedQuery, agent_id=agent_id, before=before, limit=limit)
        return self._ask("archive.list", query, Rows[ArchivedRow])

    @verb
    def archive(self, *node_ids: Id) -> Steps[int]:
        """Archive memories; returns how many were not archived before."""
        done = yield from self._act("archive.archive", checked(ArchiveRequest, node_ids=list(node_ids)), Archived)
        return done.archived

    @verb
    def restore(self, *node_ids: Id, agent_id: str | None = None) -> Steps[Restored]:
        """Bring archived memories back: these, or up to a thousand of an agent."""
        return self._act("archive.restore", checked(RestoreRequest, node_ids=list(node_ids), agent_id=agent_id), Restored)
