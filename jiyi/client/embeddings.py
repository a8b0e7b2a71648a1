"""``client.embeddings``: which model makes the vectors, and moving the deployment to another."""

from __future__ import annotations

from jiyi.client.calls import Calls, checked
from jiyi.protocol.operations import EmbeddersRequest
from jiyi.protocol.providers import EmbedderReport
from jiyi.protocol.reembedding import DEFAULT_BATCH, QUEUE, STEP_SECONDS, MoveState, ReembeddingStep


class Embeddings:
    """The deployment's embedding models."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def show(self) -> EmbedderReport:
        """Which embedders there are, which is in use, and how many memories each model has embedded."""
        return EmbedderReport.model_validate(self._calls.ask("embedders.show", EmbeddersRequest()))

    def move(
        self,
        to: str | None = None,
        *,
        batch: int = DEFAULT_BATCH,
        everything: bool = False,
        count: bool = False,
        cancel: bool = False,
        timeout: float = STEP_SECONDS,
    ) -> MoveState:
        """One step of moving the deployment to another embedding model (:class:`jiyi.protocol.reembedding.ReembeddingStep`).

        Repeat it until its ``phase`` is ``done``.

        Raises:
            EmbeddingUnavailable, TextRefused: the new model's provider; the step may be repeated.
        """
        request = checked(ReembeddingStep, to=to, batch=batch, everything=everything, count=count, cancel=cancel)
        return MoveState.model_validate(self._calls.act("reembedding.step", request, timeout, queue=QUEUE))
