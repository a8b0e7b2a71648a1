"""What of the tiers travels over the REST API only: bodies, queries and answers beside those of the other modules here.

As in :mod:`jiyi.protocol.rest` the group is never part of them: it belongs to the key.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from jiyi.protocol.base import Name
from jiyi.protocol.rest import Cursor
from jiyi.protocol.retrieval import MAX_TIMEOUT
from jiyi.protocol.tiers.knowledge import Change, DigestState, Knowledge, Layer, LayerFilter
from jiyi.protocol.tiers.query import Item, Kind, MemoryQuestion

#: Seconds that workers get for an answer unless told otherwise. A web process that then answers by itself takes up to
#: three more, so that both stay below the original's ten.
QUERY_SECONDS = 5.0
#: Seconds that a text's sender may wait for the filters (30 for the whole request).
SCREEN_SECONDS, MAX_SCREEN_SECONDS = 5.0, 30.0

Wait = Annotated[float, Field(gt=0, le=MAX_TIMEOUT, allow_inf_nan=False)]
Words = Annotated[str, Field(max_length=200, description="Only texts with all of these words.")]
SessionId = Annotated[Name | None, Field(description="Only what this session said.")]


class QueryBody(MemoryQuestion):
    """What do the group's working and long-term memory know about this?"""

    timeout: Wait = Field(QUERY_SECONDS, description="Seconds that the workers get; after that the web answers by itself, by words only.")


class IngestQuery(BaseModel):
    model_config = ConfigDict(extra="forbid")

    wait: float = Field(
        SCREEN_SECONDS,
        ge=0,
        le=MAX_SCREEN_SECONDS,
        allow_inf_nan=False,
        description="Seconds to wait for what the filters say; the text is stored either way.",
    )


class KnowledgeDetail(BaseModel):
    """A piece of long-term memory, in force or not, and what became of it."""

    knowledge_id: UUID
    content: str
    kind: Kind
    agent_id: str | None = Field(description="Null: the whole group's.")
    session_id: str | None
    created_at: datetime
    promoted_at: datetime
    demoted_at: datetime | None = Field(description="Null: it is in force.")
    replaced_by: UUID | None = Field(description="The version that took its place.")
    embedded: str | None = Field(description="The model of its vector; null while it is found by its words only.")
    metadata: dict[str, Any]
    history: list[Change] = Field(description="Oldest first.")


class KnowledgeParameters(Cursor):
    """What is in the tiers, newest first."""

    layer: LayerFilter = Field(
        "all", description="Only this tier. Quarantine needs the right `admin`; without it `all` means the other two."
    )
    q: Words = ""


class GroupKnowledgeParameters(KnowledgeParameters):
    session_id: SessionId = None


class QuarantineParameters(Cursor):
    """What never became knowledge, newest first."""

    q: Words = ""
    session_id: SessionId = None
    reason: Annotated[str, Field(max_length=40)] | None = Field(
        None, description="Only what this filter kept out of working memory: `low_confidence`, `too_short` …"
    )


class KnowledgeRows(BaseModel):
    """Newest first."""

    knowledge: list[Knowledge]
    counts: dict[Layer, int] = Field(description="Entries of each tier that the filter lets through, whatever the page.")
    next: str | None = Field(description="Give it as `after` for the following page; null on the last one.")


class WorkingMemory(BaseModel):
    """Newest first. `source`: whether Valkey told it, or, while that is away, the database."""

    entries: list[Item]
    source: Literal["valkey", "database"]
    message: str = Field("", description="What is away, if something is.")


class DigestRows(BaseModel):
    """Newest first."""

    digests: list[DigestState]
    next: str | None
