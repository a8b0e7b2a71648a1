"""The interface of every store, wherever it is kept: of the built-in types, and of third-party ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from jiyi.client.client import Client
from jiyi.errors import ConfigError
from jiyi.protocol.retrieval import Filters, ScoredMemory
from jiyi.protocol.stores import Hit, MemoryItem, Snapshot, WrittenItem
from jiyi.stores.declarations import Stage
from jiyi.stores.registry import register_memory_store
from jiyi.stores.types import (
    BlackboardMemoryConfig,
    FileMemoryConfig,
    LongTermConfig,
    Mem0MemoryConfig,
    SimpleMemoryConfig,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreQuestion:
    """What a node asks a store at a stage."""

    role: str
    query: str
    top_k: int
    #: Least cosine; -1: no limit.
    threshold: float
    stage: Stage


@dataclass(frozen=True, slots=True, kw_only=True)
class Payload:
    """What a node has to store."""

    role: str
    inputs_text: str
    input_snapshot: Snapshot | None = None
    output_snapshot: Snapshot | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """Where a store is made: for which graph and run, and the way to the service."""

    graph: str
    run_id: str
    client: Client | None = None


class Store(Protocol):
    """A store of a graph. Methods may raise any error: the manager notes it, and no node fails for it but in
    :meth:`load`.

    One with ``durable = True`` keeps what :meth:`update` took when it returns, and is saved at the end of a
    run; others after each update.
    """

    def load(self) -> None:
        """Make ready for use. An error here is the graph's."""

    def retrieve(self, question: StoreQuestion) -> list[Hit]:
        """The items that fit best, best first (a blackboard: oldest first), with scores if it has any."""

    def update(self, payload: Payload) -> WrittenItem:
        """Store what a node said."""

    def save(self) -> None:
        """Write what is not yet kept for good."""


class LongTermStore:
    """An agent's memories. What a node says becomes an event of the agent; what it asks, a retrieval."""

    durable = True

    def __init__(self, config: LongTermConfig, surroundings: Surroundings) -> None:
        self._agent = config.agent_id
        self._client = surroundings.client

    def load(self) -> None:
        if self._client is None:
            raise ConfigError("memory: a store of type `memory` needs a client of the service")

    def retrieve(self, question: StoreQuestion) -> list[Hit]:
        assert self._client is not None, "it was loaded"
        filters = Filters() if question.threshold < 0 else Filters(min_similarity=question.threshold)
        answer = self._client.retrieve(
            self._agent or question.role, question.query, top_k=question.top_k, filters=filters
        )
        return [_hit(node) for node in answer.retrieved_nodes]

    def update(self, payload: Payload) -> WrittenItem:
        assert self._client is not None, "it was loaded"
        text = payload.output_snapshot.text if payload.output_snapshot is not None else payload.inputs_text
        if not text.strip():
            return WrittenItem(item_id=None, reason="nothing was said")
        return WrittenItem(item_id=str(self._client.observe(self._agent or payload.role, text)))

    def save(self) -> None:
        """Events are kept when they are published."""


def _hit(node: ScoredMemory) -> Hit:
    item = MemoryItem(
        id=str(node.node_id),
        content_summary=node.description,
        timestamp=node.created_at.timestamp(),
        metadata={"agent_role": node.agent_id, "type": node.type},
    )
    return Hit(item=item, score=node.score)


class ServiceStore:
    """Asks the service for everything; each run of a graph has its own of those without a path."""

    durable = True

    def __init__(self, client: Client, name: str, run_id: str, *, saved: bool) -> None:
        """``saved``: it has a file that :meth:`save` writes."""
        self._stores, self._name, self._run_id, self._saved = client.stores, name, run_id, saved

    def load(self) -> None:
        self._stores.load(name=self._name, run_id=self._run_id)

    def retrieve(self, question: StoreQuestion) -> list[Hit]:
        return self._stores.retrieve(
            name=self._name,
            query=question.query,
            role=question.role,
            top_k=question.top_k,
            similarity_threshold=question.threshold,
            run_id=self._run_id,
        ).hits

    def update(self, payload: Payload) -> WrittenItem:
        return self._stores.update(
            name=self._name,
            role=payload.role,
            inputs_text=payload.inputs_text,
            input_snapshot=payload.input_snapshot,
            output_snapshot=payload.output_snapshot,
            run_id=self._run_id,
        )

    def save(self) -> None:
        if self._saved:
            self._stores.save(name=self._name, run_id=self._run_id)


for _name, _config, _summary in (
    ("simple", SimpleMemoryConfig, "What agents said, found by meaning and by words; read and written."),
    ("file", FileMemoryConfig, "The texts of files, indexed in chunks and kept up to date; only read."),
    ("blackboard", BlackboardMemoryConfig, "The latest that agents said, oldest first; no vectors."),
    ("mem0", Mem0MemoryConfig, "A store that mem0 keeps: it searches, and what is written is sent to it."),
):
    register_memory_store(_name, config_cls=_config, summary=_summary)
register_memory_store(
    "memory",
    config_cls=LongTermConfig,
    factory=LongTermStore,
    summary="Jiyi's long-term memory of an agent: its retrieval and its events.",
)
