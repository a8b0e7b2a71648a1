"""``client.embeddings``: moving the deployment to another embedding model."""

from __future__ import annotations

from jiyi.client.calls import Calls, checked
from jiyi.protocol.reembedding import DEFAULT_BATCH, QUEUE, STEP_SECONDS, TASK, MoveRequest, MoveState


class Embeddings:
    """The deployment's embedding models."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

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
        """One step of moving the deployment to another embedding model (:class:`jiyi.protocol.reembedding.MoveRequest`).

        Repeat it until its ``phase`` is ``done``.

        Raises:
            EmbeddingUnavailable, TextRefused: the new model's provider; the step may be repeated.
        """
        request = checked(MoveRequest, group_id=self._calls.group, to=to, batch=batch, everything=everything, count=count, cancel=cancel)
        return MoveState.model_validate(self._calls.call(TASK, QUEUE, request, timeout))
