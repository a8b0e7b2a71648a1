"""``client.memory``: looking into what agents remember, and what became of events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from jiyi.client.calls import Calls, checked
from jiyi.protocol.queries import DEFAULT_PAGE, EventState, EventStatesQuery, RelatedQuery


class Memory:
    """What agents remember."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def event_states(self, event_ids: Sequence[UUID], timeout: float | None = None) -> list[EventState]:
        """What became of these events (at most 1,000), in their order."""
        query = checked(EventStatesQuery, group_id=self._calls.group, event_ids=list(event_ids))
        return [EventState.model_validate(row) for row in self._calls.inspect("event_states", query, timeout)]

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
        query = checked(
            RelatedQuery, group_id=self._calls.group, agent_id=agent_id, subject=subject, predicate=predicate, object=object, limit=limit
        )
        found: dict[str, list[dict[str, Any]]] = self._calls.inspect("related", query)
        return found
