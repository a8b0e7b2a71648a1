"""What answers tell of a memory, said once: every list, every retrieval and every page of a memory has these fields.

A field that is a column of ``memory_nodes`` is read by each SELECT whose rows have it, see docs/architecture.md.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import BaseModel, Field

from jiyi.protocol.base import NodeType
from jiyi.protocol.conversations.types import Kind


class MemoryBrief(BaseModel):
    """A memory as another one's evidence or neighbour."""

    node_id: UUID
    agent_id: str
    type: NodeType
    created_at: datetime
    description: str
    poignancy: float | None = Field(description="Importance, 1 … 10; null while it is not known.")
    depth: int = Field(description="Of a thought: how many levels of evidence it rests on.")


class MemoryFields(MemoryBrief):
    """A memory as an answer of its own."""

    session_id: str | None
    node_count: int = Field(description="Its number within its agent, from 1.")
    expires_at: datetime | None
    keywords: list[str]
    kind: Kind | None = Field(None, description="Of what was taken from conversations: which kind it is.")
    uri: str | None = Field(None, description="Its address, if it has a kind.")
    superseded_by: UUID | None = Field(None, description="The newer memory that corrects or contradicts it.")
    superseded_at: datetime | None = Field(None, description="When that was said, or corrected.")


class MemoryStatement(MemoryFields):
    """With its triple, and what was said or what it rests on."""

    subject: str | None
    predicate: str | None
    object: str | None
    embedding_key: str
    filling: list[Any] = Field(description="Ids of the memories it rests on, or of a conversation [speaker, text] pairs.")
    provenance: dict[str, Any]
