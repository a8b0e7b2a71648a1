"""Bodies, queries and answers of the tiers over REST only, and of the memory-retrieval node for workflow engines.

As in :mod:`jiyi.protocol.rest` the group is never part of them: it belongs to the key.
"""

from __future__ import annotations

import math
from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import AfterValidator, BaseModel, Field

from jiyi.protocol.base import JsonObject, Name
from jiyi.protocol.knowledge import Change, DigestState, Knowledge, Layer, LayerFilter
from jiyi.protocol.rest import Cursor, OnceQuery
from jiyi.protocol.retrieval import MAX_TIMEOUT
from jiyi.protocol.tier_questions import Kind, MemoryQuestion, TierItem
from jiyi.tiers.retrieval_node import EventName, NodeProperties

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


class IngestQuery(OnceQuery, extra="forbid"):
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

    entries: list[TierItem]
    source: Literal["valkey", "database"]
    message: str = Field("", description="What is away, if something is.")


class DigestRows(BaseModel):
    """Newest first."""

    digests: list[DigestState]
    next: str | None


MAX_NODE_ID_CHARS = 128


def _finite(value: JsonObject) -> JsonObject:
    """Other numbers could not go back as JSON."""
    waiting: list[Any] = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, float) and not math.isfinite(item):
            raise ValueError("every number in it must be finite")
        if isinstance(item, dict | list):
            waiting.extend(item.values() if isinstance(item, dict) else item)
    return value


class NodeBody(BaseModel, frozen=True, extra="forbid"):
    """A run of the node: what a workflow engine has in its hands when it comes to it."""

    inputs: Annotated[dict[str, Any], AfterValidator(_finite)] = Field(
        description="The state of the workflow. The question is the first text that is not blank of `topic`, `content` and "
        "`document`; `session_id` may name the session. Everything comes back unchanged."
    )
    properties: NodeProperties = Field(NodeProperties(), description="The node's settings: see describe_memory_node.")
    node_id: Annotated[str, Field(max_length=MAX_NODE_ID_CHARS)] = Field("", description="The node's id, for the events.")


class NodeRunEvent(BaseModel):
    """What the node has to tell: as on the callback of the Python library."""

    event: EventName
    timestamp: datetime
    node_id: str = ""
    data: dict[str, Any]


class NodeRun(BaseModel):
    """`outputs`: the inputs and `history_context`, markdown, which is empty where there is no history."""

    outputs: dict[str, Any]
    events: list[NodeRunEvent]


class NodeDescription(BaseModel):
    """What an editor of workflows needs to offer the node."""

    type: str
    label: str
    icon: str
    colour: str
    shape: str
    inputs: list[str]
    outputs: list[str]
    properties: dict[str, Any] = Field(description="JSON schema of its settings.")


class NodeDescriptionParameters(BaseModel, extra="forbid"):
    language: Literal["zh", "en"] = Field("en", description="Of the label.")
