"""Which LLM and which embedders a deployment uses, what they cost, and how well a large agent's search does."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel


class BreakerState(BaseModel):
    """A circuit breaker: ``closed``, ``open``, ``half-open``, or ``unknown`` without Valkey."""

    state: str
    failures: int | None = None
    #: When it lets a call through again.
    until: datetime | None = None
    last_error: str | None = None
    last_error_at: datetime | None = None


class ActiveLLM(BaseModel):
    vendor: str | None
    model: str
    breaker: BreakerState | None
    #: Why it cannot be used.
    problem: str | None


class LLMVendor(BaseModel):
    vendor: str
    model: str | None
    needs_key: bool
    #: Whether there is a key.
    key: bool


class LLMUsage(BaseModel):
    """What questions by one prompt to one model have used."""

    prompt: str
    model: str
    calls: int
    failures: int
    prompt_tokens: int
    completion_tokens: int
    cost: float


class LLMReport(BaseModel):
    active: ActiveLLM
    vendors: list[LLMVendor]
    days: int
    usage: list[LLMUsage]


class ModelInUse(BaseModel):
    model: str
    spec: str
    since: datetime


class ModelOfSetting(BaseModel):
    model: str
    spec: str


class ReembeddingUnderWay(BaseModel):
    model: str
    spec: str
    #: Memories that have yet to be embedded.
    left: int | None


class EmbedderVendor(BaseModel):
    """``ready`` says in words whether there is a key or package; ``breaker`` is None for what is not called over a network."""

    vendor: str
    spec: str | None = None
    model: str | None = None
    dimensions: int | None = None
    ready: str = ""
    key: bool | None = None
    breaker: BreakerState | None = None
    active: bool = False


class EmbeddedByModel(BaseModel):
    """A model that is known or has vectors; ``memories`` have one by it, ``beside`` are those of a re-embedding."""

    model: str
    spec: str | None
    dimensions: int | None
    state: str | None
    active_since: datetime | None
    replaces: str | None
    everything: bool | None
    memories: int
    beside: int


class EmbedderReport(BaseModel):
    active: ModelInUse | None
    setting: ModelOfSetting
    move: ReembeddingUnderWay | None
    notes: list[str]
    vendors: list[EmbedderVendor]
    models: list[EmbeddedByModel]


class RecallReport(BaseModel):
    """How much of the exact answers a large agent's search finds; of any other agent every answer is exact."""

    large: bool
    memories: int
    questions: int | None = None
    top_k: int | None = None
    recall: float | None = None
    worst: float | None = None
    short: int | None = None
    exact_ms: float | None = None
    large_ms: float | None = None
