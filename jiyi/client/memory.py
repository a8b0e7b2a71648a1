"""``client.memory``: looking into what agents remember, and what became of events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from jiyi.client.calls import Calls, checked
from jiyi.protocol.event_states import EventState, EventStatesQuery
from jiyi.protocol.events import NodeType
from jiyi.protocol.memory import ExportQuery, KeywordsQuery, NodesQuery, RelatedQuery
from jiyi.protocol.queries import DEFAULT_PAGE, Page

ALL_TYPES: tuple[NodeType, ...] = ("event", "thought", "chat")


class Memory:
    """What agents remember."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def event_states(
        self, event_ids: Sequence[UUID], timeout: float | None = None, *, digests: Mapping[UUID, str] | None = None
    ) -> list[EventState]:
        """What became of these events (at most 1,000), in their order.

        ``digests`` of what they say (:func:`jiyi.protocol.event_content.digest`) make sure that it is these events that the
        answer is about: ``id_reused`` where an id is another event's.
        """
        said = {event_id: digests[event_id] for event_id in event_ids if event_id in digests} if digests else {}
        query = checked(EventStatesQuery, event_ids=list(event_ids), **({"digests": said} if said else {}))
        return [EventState.model_validate(row) for row in self._calls.ask("events.states", query, timeout)]

    def nodes(self, agent_id: str, *, types: Sequence[NodeType] = ALL_TYPES, before: int | None = None, limit: int = DEFAULT_PAGE) -> Page:
        """An agent's memories, newest first; those with a ``node_count`` below ``before``."""
        query = checked(NodesQuery, agent_id=agent_id, types=list(types), before=before, limit=limit)
        return Page.model_validate(self._calls.ask("memory.nodes", query))

    def keywords(self, agent_id: str, *, offset: int = 0, limit: int = DEFAULT_PAGE) -> Page:
        """An agent's keywords, strongest first, without the first ``offset``."""
        query = checked(KeywordsQuery, agent_id=agent_id, offset=offset, limit=limit)
        return Page.model_validate(self._calls.ask("memory.keywords", query))

    def export(
        self, agent_id: str | None = None, *, after: int | None = None, with_vectors: bool = False, limit: int = DEFAULT_PAGE
    ) -> Page:
        """Events of an agent or of all, in order of arrival, with what their memories have been given since."""
        query = checked(ExportQuery, agent_id=agent_id, after=after, with_vectors=with_vectors, limit=limit)
        return Page.model_validate(self._calls.ask("memory.export", query))

    def related(
        self,
        agent_id: str,
        *,
        subject: str = "",
        predicate: str = "",
        object: str = "",  # noqa: A002 – the third part of a triple, as it is called everywhere
        limit: int = DEFAULT_PAGE,
    ) -> dict[str, list[dict[str, Any]]]:
        """Keyword retrieval (GA-47): ``events`` and ``thoughts`` that share a keyword with a triple."""
        query = checked(RelatedQuery, agent_id=agent_id, subject=subject, predicate=predicate, object=object, limit=limit)
        found: dict[str, list[dict[str, Any]]] = self._calls.ask("memory.related", query)
        return found
