"""Jiyi's long-term memory as a store of a graph: the service's retrieval, and its events."""

from __future__ import annotations

from datetime import UTC, datetime

from jiyi.errors import ConfigError
from jiyi.protocol.retrieval import Filters, RetrievedNode
from jiyi.protocol.stores.items import Hit, MemoryItem
from jiyi.stores.config.types import LongTermConfig
from jiyi.stores.store import Payload, Question, Surroundings, Written


class LongTermStore:
    """An agent's memories. What a node says becomes an event of the agent; what it asks, a retrieval."""

    def __init__(self, config: LongTermConfig, surroundings: Surroundings) -> None:
        self._agent = config.agent_id
        self._client = surroundings.client

    def load(self) -> None:
        if self._client is None:
            raise ConfigError(["memory: a store of type `memory` needs a client of the service"])

    def retrieve(self, question: Question) -> list[Hit]:
        assert self._client is not None, "it was loaded"
        filters = Filters() if question.threshold < 0 else Filters(min_similarity=question.threshold)
        answer = self._client.retrieve(self._agent or question.role, question.query, top_k=question.top_k, filters=filters)
        return [_hit(node) for node in answer.retrieved_nodes]

    def update(self, payload: Payload) -> Written:
        assert self._client is not None, "it was loaded"
        said = payload.output_snapshot.text if payload.output_snapshot is not None else payload.inputs_text
        if not said.strip():
            return Written(None, "nothing was said")
        now = datetime.now(UTC)
        event = self._client.observe(self._agent or payload.role, said, occurred_at=now)
        return Written(str(event), at=now)

    def save(self) -> None:
        """Events are kept when they are published."""


def _hit(node: RetrievedNode) -> Hit:
    metadata = {"agent_role": node.agent_id, "type": node.type}
    at = node.created_at.timestamp()
    return Hit(item=MemoryItem(id=str(node.node_id), content_summary=node.description, timestamp=at, metadata=metadata), score=node.score)
