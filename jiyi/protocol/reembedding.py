"""What is asked and answered while a deployment moves to another embedding model (``jiyi reembed``)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from jiyi.protocol.base import Request

QUEUE = "embedding"
#: Memories of one step: a few seconds on one machine, so that new memories are embedded in between.
DEFAULT_BATCH = 256
#: Seconds that a step may take: longer than an embedder may for a batch (``engine.providers.remote_embedder``).
STEP_SECONDS = 120.0

#: ``filling``: the new model embeds the memories; ``waiting``: for the last questions by the old model; ``folding``:
#: the vectors take the old ones' place; ``done``; ``cancelled``.
Phase = Literal["filling", "waiting", "folding", "done", "cancelled"]


class ReembeddingStep(Request):
    """Do the next step of the move to ``to``, whatever it is. It concerns the whole deployment, whichever the group."""

    #: A provider as in ``JIYI_EMBEDDER``; what this names at the service unless given.
    to: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    batch: int = Field(DEFAULT_BATCH, ge=1, le=10_000)
    #: Also embed anew what has a vector by a model other than the active one: imports.
    everything: bool = False
    #: Count what is left, which takes a look at every memory.
    count: bool = False
    #: End a move that has not switched yet.
    cancel: bool = False


class MoveState(BaseModel):
    """What the step did, and what comes next."""

    phase: Phase
    #: The model that is moved to, and the one before.
    model: str
    replaces: str = ""
    #: Memories of this step.
    done: int = 0
    #: Memories that this phase has yet to do, if they were counted.
    left: int | None = None
    #: Seconds to wait before the next step.
    wait: float = 0.0
