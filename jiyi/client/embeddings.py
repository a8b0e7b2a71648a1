"""``client.embeddings``: which model makes the vectors, and moving the deployment to another."""

from __future__ import annotations

from jiyi.client.calls import Namespace, W, checked
from jiyi.client.steps import Steps, verb
from jiyi.protocol.operations import EmbeddersRequest
from jiyi.protocol.providers import EmbedderReport
from jiyi.protocol.reembedding import DEFAULT_BATCH, QUEUE, STEP_SECONDS, MoveState, ReembeddingStep


class Embeddings(Namespace[W]):
    """The deployment's embedding models."""

    @verb
    def show(self) -> Steps[EmbedderReport]:
        """Which embedders there are, which is in use, and how many memories each model has embedded."""
        return self._ask("embedders.show", EmbeddersRequest(), EmbedderReport)

    @verb
    def move(
        self,
        to: str | None = None,
        *,
        batch: int = DEFAULT_BATCH,
        everything: bool = False,
        count: bool = False,
        cancel: bool = False,
        timeout: float = STEP_SECONDS,
    ) -> Steps[MoveState]:
        """One step of moving the deployment to another embedding model (:class:`jiyi.protocol.reembedding.ReembeddingStep`).

        Repeat it until its ``phase`` is ``done``.

        Raises:
            EmbeddingUnavailable, TextRefused: the new model's provider; the step may be repeated.
        """
        request = checked(ReembeddingStep, to=to, batch=batch, everything=everything, count=count, cancel=cancel)
        return self._act("reembedding.step", request, MoveState, timeout, queue=QUEUE)
