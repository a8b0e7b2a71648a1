"""Keyword arguments of the client's verbs, with their types.

The models of :mod:`jiyi.protocol` say what each means and check it; a test keeps the two alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, TypedDict
from uuid import UUID

from jiyi.protocol.base import NodeType, Visibility
from jiyi.protocol.conversations import AnyKind, Format, Kind
from jiyi.protocol.origins import Claimed, Origin
from jiyi.protocol.recall import Archived
from jiyi.protocol.retrieval import DialogueMessage, Filters
from jiyi.protocol.tier_questions import Order, SearchType
from jiyi.settings import AgentWeight, Decay, Dedupe, Derive, DeriveKeywords, Mode, RelevanceMode, Weight

#: A vector as one has it: numbers, a numpy array, base64 or packed little-endian float32.
VectorLike = Any
#: ISO 8601 with its offset, or a datetime with its time zone.
Moment = datetime | str
Id = UUID | str


class EventArguments(TypedDict, total=False):
    """Of every event."""

    event_id: Id
    occurred_at: Moment
    group_id: str
    correlation_id: str | None


class Envelope(EventArguments, total=False):
    """Of every event that may belong to a session."""

    session_id: str | None


class ObservationArguments(Envelope, total=False):
    """Of :class:`jiyi.protocol.events.Observation`."""

    node_type: NodeType
    embedding_key: str | None
    subject: str | None
    predicate: str | None
    object: str | None
    keywords: Sequence[str] | None
    poignancy: float | None
    evidence: Sequence[Id]
    utterances: Sequence[tuple[str, str]]
    retention: int | None
    expires_at: Moment | None
    historic: bool
    vector: VectorLike | None
    embedding_model: str | None
    provenance: dict[str, Any]
    kind: Kind | None
    uri: str | None
    abstract: str | None
    overview: str | None
    user_id: str | None
    visibility: Visibility | None
    origin: Claimed | None
    trust: float | None


class AgentArguments(TypedDict, total=False):
    """Of :class:`jiyi.protocol.agents.AgentSettings`. None: not set for this agent any more."""

    mode: Mode | None
    recency_w: AgentWeight | None
    relevance_w: AgentWeight | None
    importance_w: AgentWeight | None
    recency_decay: Decay | None
    dedupe: Dedupe | None
    importance_trigger_max: int | None
    derive_poignancy: Derive | None
    derive_triple: Derive | None
    derive_keywords: DeriveKeywords | None
    tz: str | None
    counters: dict[str, float] | None


class EndingArguments(EventArguments, total=False):
    """Of :class:`jiyi.protocol.events.Ending`."""

    user_id: str | None
    partner: str | None
    chat_ids: Sequence[Id]


class RetrievalArguments(TypedDict, total=False):
    """Of :class:`jiyi.protocol.retrieval.Question`."""

    user_id: str | None
    messages: Sequence[DialogueMessage | Mapping[str, str]]
    top_k: int
    mode: Mode | None
    relevance: RelevanceMode | None
    recency_w: Weight | None
    relevance_w: Weight | None
    importance_w: Weight | None
    recency_decay: Decay | None
    filters: Filters | dict[str, Any]
    diversity: float
    min_probability: float
    neighbours: bool
    newer_first: bool
    now: Moment | None
    as_of: Moment | None
    touch: bool
    vectors: Sequence[VectorLike] | None
    embedding_model: str | None
    tz: str | None


class RecallArguments(TypedDict, total=False):
    """Of :class:`jiyi.protocol.recall.RecallRequest`."""

    user_id: str | None
    max_tokens: int
    kinds: Sequence[AnyKind]
    origins: Sequence[Origin]
    min_trust: float | None
    session_id: str | None
    superseded: bool
    now: Moment | None
    as_of: Moment | None
    touch: bool
    tz: str | None


class ListArguments(TypedDict, total=False):
    """Of :class:`jiyi.protocol.recall.ListMemories`."""

    user_id: str | None
    types: Sequence[NodeType]
    kinds: Sequence[AnyKind]
    origins: Sequence[Origin]
    min_trust: float | None
    words: str
    keyword: str | None
    session_id: str | None
    created_after: Moment | None
    created_before: Moment | None
    superseded: bool
    archived: Archived
    from_user: str | None
    as_of: Moment | None


class UpdateArguments(TypedDict, total=False):
    """Of :class:`jiyi.protocol.recall.UpdateMemory`."""

    user_id: str | None
    visibility: Visibility
    poignancy: float
    keywords: Sequence[str]
    subject: str
    predicate: str
    object: str
    expires_at: Moment
    provenance: dict[str, Any]
    occurred_at: Moment
    event_id: Id


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
    now: Moment | None


class InjectionArguments(TypedDict, total=False):
    """Of :class:`jiyi.protocol.conversations.ContextRequest`."""

    user_id: str | None
    session_id: str | None
    origins: Sequence[Origin]
    min_trust: float | None
    max_tokens: int
    format: Format
    template: str | None
    now: Moment | None
    tz: str | None
    as_of: Moment | None
    note: bool
    grown: bool
    tiers: bool
    split: bool
    turn: int | None
    renew: bool


class ContextArguments(TypedDict, total=False):
    """Of :class:`jiyi.protocol.tier_questions.ContextBody`."""

    system: str
    persona: str
    query: str | None
    budget: int
    agent_id: str | None
    session_id: str | None
    order: Order
    relevance_threshold: float | None
    time_range_days: float | None
    include_verdicts: bool
    now: Moment | None


class IngestArguments(TypedDict, total=False):
    """Of :class:`jiyi.protocol.knowledge.IngestBody`."""

    agent_id: str | None
    session_id: str | None
    node_id: str
    confidence: float | None
    flags: Sequence[str]
    metadata: dict[str, Any]
    occurred_at: Moment
    event_id: Id
