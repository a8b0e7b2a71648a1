"""Jiyi's long-term memory as a store of a graph: the service's retrieval, and its events."""

from __future__ import annotations

from datetime import UTC, datetime

from jiyi.client.client import Client
from jiyi.errors import ConfigError
from jiyi.protocol.retrieval import Filters, RetrievedNode
from jiyi.protocol.stores import Hit, MemoryItem
from jiyi.stores.registry import register_memory_store
from jiyi.stores.store import Payload, Question, Surroundings, Written
from jiyi.stores.types import BlackboardMemoryConfig, FileMemoryConfig, LongTermConfig, Mem0MemoryConfig, SimpleMemoryConfig


class LongTermStore:
    """An agent's memories. What a node says becomes an event of the agent; what it asks, a retrieval."""

    durable = True

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


class ServiceStore:
    """Asks the service for everything; each run of a graph has its own of those without a path."""

    durable = True

    def __init__(self, client: Client, name: str, run_id: str, *, saved: bool) -> None:
        """``saved``: it has a file that :meth:`save` writes."""
        self._stores, self._name, self._run_id, self._saved = client.stores, name, run_id, saved

    def load(self) -> None:
        self._stores.load(self._name, run_id=self._run_id)

    def retrieve(self, question: Question) -> list[Hit]:
        found = self._stores.retrieve(
            self._name,
            question.query,
            role=question.role,
            top_k=question.top_k,
            similarity_threshold=question.threshold,
            run_id=self._run_id,
        )
        return found.hits

    def update(self, payload: Payload) -> Written:
        done = self._stores.update(
            self._name,
            role=payload.role,
            inputs_text=payload.inputs_text,
            input_snapshot=payload.input_snapshot,
            output_snapshot=payload.output_snapshot,
            run_id=self._run_id,
        )
        return Written(done.item_id, done.reason)

    def save(self) -> None:
        if self._saved:
            self._stores.save(self._name, run_id=self._run_id)


register_memory_store("simple", config_cls=SimpleMemoryConfig, summary="What agents said, found by meaning and by words; read and written.")
register_memory_store("file", config_cls=FileMemoryConfig, summary="The texts of files, indexed in chunks and kept up to date; only read.")
register_memory_store("blackboard", config_cls=BlackboardMemoryConfig, summary="The latest that agents said, oldest first; no vectors.")
register_memory_store(
    "memory", config_cls=LongTermConfig, factory=LongTermStore, summary="Jiyi's long-term memory of an agent: its retrieval and its events."
)
register_memory_store(
    "mem0", config_cls=Mem0MemoryConfig, summary="A store that mem0 keeps: it searches, and what is written is sent to it."
)
