"""Options of the client's verbs, with their types.

``python -m tools.client`` writes this from :mod:`jiyi.protocol`: edit that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, TypedDict
from uuid import UUID

from pydantic import BaseModel

from jiyi.protocol.base import NodeType, Visibility
from jiyi.protocol.conversations import AnyKind, Kind
from jiyi.protocol.events import (
    Configuration,
    Ending,
    ImportedCounters,
    MemoryObserved,
    Observation,
    SessionEnded,
    TurnRecorded,
)
from jiyi.protocol.knowledge import IngestBody
from jiyi.protocol.origins import Claimed, Origin
from jiyi.protocol.recall import Archived, ListMemories, RecallRequest, UpdateMemory
from jiyi.protocol.retrieval import DialogueMessage, Filters, Question
from jiyi.protocol.tier_questions import MemoryQuestion, Order, SearchType
from jiyi.settings import Dedupe, Derive, DeriveKeywords, Mode, RelevanceMode


class EventArguments(TypedDict, total=False):
    """Of :class:`jiyi.protocol.events.TurnRecorded`."""

    event_id: UUID | str
    occurred_at: datetime | str
    group_id: str
    correlation_id: str | None


class Envelope(EventArguments, total=False):
    """Of :class:`jiyi.protocol.events.MemoryObserved`."""

    session_id: str | None


class ObservationArguments(Envelope, total=False):
    """Of :class:`jiyi.protocol.events.MemoryObserved` and :class:`jiyi.protocol.events.Observation`."""

    node_type: NodeType
    embedding_key: str | None
    subject: str | None
    predicate: str | None
    object: str | None
    keywords: Sequence[str] | None
    poignancy: float | None
    evidence: Sequence[UUID | str]
    utterances: Sequence[tuple[str, str]]
    retention: int | None
    expires_at: datetime | str | None
    historic: bool
    vector: Any | None
    embedding_model: str | None
    provenance: Mapping[str, Any]
    kind: Kind | None
    uri: str | None
    abstract: str | None
    overview: str | None
    user_id: str | None
    visibility: Visibility | None
    origin: Claimed | None
    trust: float | None


class AgentArguments(TypedDict, total=False):
    """Of :class:`jiyi.protocol.events.Configuration`."""

    mode: Mode | None
    recency_w: float | None
    relevance_w: float | None
    importance_w: float | None
    recency_decay: float | None
    dedupe: Dedupe | None
    importance_trigger_max: int | None
    derive_poignancy: Derive | None
    derive_triple: Derive | None
    derive_keywords: DeriveKeywords | None
    tz: str | None
    counters: ImportedCounters | Mapping[str, Any] | None


class EndingArguments(EventArguments, total=False):
    """Of :class:`jiyi.protocol.events.SessionEnded` and :class:`jiyi.protocol.events.Ending`."""

    user_id: str | None
    partner: str | None
    chat_ids: Sequence[UUID | str]


class RetrievalArguments(TypedDict, total=False):
    """Of :class:`jiyi.protocol.retrieval.Question`."""

    user_id: str | None
    messages: Sequence[DialogueMessage | Mapping[str, Any]]
    top_k: int
    mode: Mode | None
    relevance: RelevanceMode | None
    recency_w: float | None
    relevance_w: float | None
    importance_w: float | None
    recency_decay: float | None
    filters: Filters | Mapping[str, Any]
    diversity: float
    min_probability: float
    neighbours: bool
    newer_first: bool
    now: datetime | str | None
    tz: str | None
    as_of: datetime | str | None
    touch: bool
    vectors: Sequence[Any] | None
    embedding_model: str | None


class RecallArguments(TypedDict, total=False):
    """Of :class:`jiyi.protocol.recall.RecallRequest`."""

    origins: Sequence[Origin]
    min_trust: float | None
    user_id: str | None
    max_tokens: int
    kinds: Sequence[AnyKind]
    session_id: str | None
    superseded: bool
    now: datetime | str | None
    tz: str | None
    as_of: datetime | str | None
    touch: bool


class ListArguments(TypedDict, total=False):
    """Of :class:`jiyi.protocol.recall.ListMemories`."""

    origins: Sequence[Origin]
    min_trust: float | None
    user_id: str | None
    types: Sequence[NodeType]
    kinds: Sequence[AnyKind]
    words: str
    keyword: str | None
    session_id: str | None
    from_user: str | None
    created_after: datetime | str | None
    created_before: datetime | str | None
    superseded: bool
    archived: Archived
    as_of: datetime | str | None


class UpdateArguments(TypedDict, total=False):
    """Of :class:`jiyi.protocol.recall.UpdateMemory`."""

    user_id: str | None
    poignancy: float | None
    keywords: Sequence[str] | None
    subject: str | None
    predicate: str | None
    object: str | None
    expires_at: datetime | str | None
    visibility: Visibility | None
    provenance: Mapping[str, Any] | None
    occurred_at: datetime | str | None
    event_id: UUID | str


class MemoryArguments(TypedDict, total=False):
    """Of :class:`jiyi.protocol.tier_questions.MemoryQuestion`."""

    max_results: int | None
    order: Order
    relevance_threshold: float | None
    time_range_days: float | None
    include_verdicts: bool
    session_id: str | None
    agent_id: str | None
    web_results: int
    search_type: SearchType
    domains: Sequence[str]
    asking_session: str | None
    now: datetime | str | None


class IngestArguments(TypedDict, total=False):
    """Of :class:`jiyi.protocol.knowledge.IngestBody`."""

    agent_id: str | None
    session_id: str | None
    node_id: str
    confidence: float | None
    flags: Sequence[str]
    metadata: Mapping[str, Any]
    occurred_at: datetime | str | None
    event_id: UUID | str


#: The models that say what each means, and check it.
MODELS: Mapping[Any, tuple[type[BaseModel], ...]] = {
    EventArguments: (TurnRecorded,),
    Envelope: (MemoryObserved,),
    ObservationArguments: (MemoryObserved, Observation),
    AgentArguments: (Configuration,),
    EndingArguments: (SessionEnded, Ending),
    RetrievalArguments: (Question,),
    RecallArguments: (RecallRequest,),
    ListArguments: (ListMemories,),
    UpdateArguments: (UpdateMemory,),
    MemoryArguments: (MemoryQuestion,),
    IngestArguments: (IngestBody,),
}
