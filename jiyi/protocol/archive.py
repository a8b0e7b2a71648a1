"""The archive: memories that are found only when they are asked for; how they get there, and back."""

from __future__ import annotations

from datetime import datetime
from typing import Self
from uuid import UUID

from pydantic import BaseModel, Field, model_validator

from jiyi.protocol.base import DEFAULT_PAGE, Name, Number, PageSize, Request

#: Most memories that one request archives or restores.
MAX_RESTORED = 1_000


class ArchivedQuery(Request):
    """One agent's archived memories, newest first; ``before`` is the last page's smallest ``node_count``."""

    agent_id: Name
    before: Number | None = None
    limit: PageSize = DEFAULT_PAGE


class ArchivedRow(BaseModel):
    """A memory of the archive."""

    node_id: UUID
    agent_id: str
    node_count: int
    type: str
    created_at: datetime
    expires_at: datetime | None
    archived_at: datetime
    archived_reason: str
    poignancy: float | None
    description: str
    last_accessed: datetime | None


class ArchiveRequest(Request):
    """Memories that are to be archived."""

    node_ids: list[UUID] = Field(min_length=1, max_length=MAX_RESTORED)


class Archived(BaseModel):
    """How many memories were archived that were not before."""

    archived: int


class RestoreRequest(Request):
    """Archived memories that are to come back: those named, or (at most a thousand at a time) all of an agent's."""

    node_ids: list[UUID] = Field(default_factory=list, max_length=MAX_RESTORED)
    agent_id: Name | None = None

    @model_validator(mode="after")
    def _names_some(self) -> Self:
        if bool(self.node_ids) == (self.agent_id is not None):
            raise ValueError("give either node_ids or agent_id")
        return self


class Restored(BaseModel):
    """How many memories came back, of all agents and of each."""

    restored: int
    agents: dict[str, int]
