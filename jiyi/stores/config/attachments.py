"""How a node uses a store: what it reads and writes of it, at which stages."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, StrictBool, field_validator

from jiyi.protocol.events import Name
from jiyi.stores.config.checking import Config
from jiyi.stores.config.stages import Stage, stage_of

#: Items of one search, unless told otherwise, and at most.
TOP_K, MAX_TOP_K = 3, 1_000
#: No threshold.
NO_THRESHOLD = -1.0

TopK = Annotated[int, Field(strict=True, ge=1, le=MAX_TOP_K)]
Threshold = Annotated[float, Field(ge=-1, le=1, allow_inf_nan=False)]


class MemoryAttachmentConfig(Config):
    """An entry of a node's ``memories``."""

    name: Name = Field(description="The store, by its name in `memory`.")
    retrieve_stage: list[Stage] | None = Field(None, description="Stages at which the store is searched; all of them unless given.")
    top_k: TopK = Field(TOP_K, description="Most items of one search.")
    similarity_threshold: Threshold = Field(NO_THRESHOLD, description="Least cosine of an item; -1: no limit.")
    read: StrictBool = Field(True, description="Whether the node searches the store.")
    write: StrictBool = Field(True, description="Whether what the node says is stored in it.")

    @field_validator("retrieve_stage", mode="before")
    @classmethod
    def _stages(cls, given: Any) -> Any:
        if isinstance(given, str):
            given = [given]
        if not isinstance(given, list):
            return given
        if not all(isinstance(one, str) for one in given):
            return given  # refused by the field's type
        return list(dict.fromkeys(map(stage_of, given)))

    def reads_at(self, stage: Stage) -> bool:
        """Whether the node searches this store at the stage."""
        return self.read and (self.retrieve_stage is None or stage in self.retrieve_stage)
