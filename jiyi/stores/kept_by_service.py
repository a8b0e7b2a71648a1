"""A store that the service keeps, as a graph's program sees it."""

from __future__ import annotations

from jiyi.client.client import Client
from jiyi.protocol.stores.items import Hit
from jiyi.stores.store import Payload, Question, Written


class ServiceStore:
    """Asks the service for everything; each run of a graph has its own of those without a path."""

    def __init__(self, client: Client, name: str, run_id: str) -> None:
        self._stores, self._name, self._run_id = client.stores, name, run_id

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
        self._stores.save(self._name, run_id=self._run_id)
