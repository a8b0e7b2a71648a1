"""Embedders and LLMs: their states, vendors that speak OpenAI's protocol, the move to another embedding model
(``jiyi reembed``).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, Field

from jiyi.protocol.base import Request


class BreakerState(BaseModel):
    """A circuit breaker: ``closed``, ``open``, ``half-open``, or ``unknown`` without Valkey."""

    state: str
    failures: int | None = None
    #: When it lets a call through again.
    until: datetime | None = None
    last_error: str | None = None
    last_error_at: datetime | None = None
    #: It took longer than it was given.
    last_error_late: bool = False
    #: A request that alone was at fault is an error before the next success, and no failure of the breaker.
    last_success_at: datetime | None = None


class PromptByRules(BaseModel):
    """A prompt that rules answer in the LLM's place: in one ``language`` only, ``until`` some time only."""

    prompt: str
    why: str
    language: Literal["zh"] | None = None
    until: datetime | None = None


class ActiveLLM(BaseModel):
    vendor: str | None
    model: str
    breaker: BreakerState | None
    #: Why it cannot be used.
    problem: str | None
    #: What it was asked to find out what it can do; a model is asked when that is needed first.
    tried: list[str] = []
    left_to_rules: list[PromptByRules] = []


class Vendor(BaseModel):
    """A vendor of embedders or LLMs. ``ready``: whether there is a key or package; ``breaker`` None: it needs
    no network.
    """

    vendor: str
    spec: str | None = None
    model: str | None = None
    dimensions: int | None = None
    ready: str = ""
    needs_key: bool | None = None
    #: Whether there is a key.
    key: bool | None = None
    breaker: BreakerState | None = None
    active: bool = False


class LLMUsage(BaseModel):
    """What questions by one prompt to one model have used, and what became of them."""

    prompt: str
    model: str
    #: Questions that were answered, those whose answer could not be used, usable answers that were not the
    #: first, questions that rules answered in the LLM's place, entries of usable answers that were left out.
    questions: int
    unusable: int
    repaired: int
    by_rules: int
    dropped: int
    #: Of all questions together.
    seconds: float
    #: Requests, and those without a usable answer.
    calls: int
    failures: int
    prompt_tokens: int
    completion_tokens: int
    cost: float


UsageKey = Literal["model", "task", "group", "month"]


class LLMReport(BaseModel):
    active: ActiveLLM
    vendors: list[Vendor]
    days: int
    usage: list[LLMUsage]


class EmbeddingModel(BaseModel):
    """A model that is in use, set, moved to, known or has vectors, as far as each of that is known."""

    model: str
    #: The setting that names it.
    spec: str | None = None
    since: datetime | None = Field(None, description="Since when it is the one in use.")
    left: int | None = Field(None, description="Of the one moved to: memories not embedded yet.")
    dimensions: int | None = None
    state: str | None = None
    replaces: str | None = None
    everything: bool | None = None
    memories: int | None = Field(None, description="In the list of models: memories that it embedded.")
    beside: int | None = Field(None, description="In that list: memories that a move to it has embedded.")


class EmbedderReport(BaseModel):
    active: EmbeddingModel | None
    setting: EmbeddingModel
    move: EmbeddingModel | None
    notes: list[str]
    vendors: list[Vendor]
    models: list[EmbeddingModel]


QUEUE = "embedding"
#: Memories of one step: a few seconds on one machine, so that new memories are embedded in between.
DEFAULT_BATCH = 256
#: Seconds that a step may take: longer than an embedder may for a batch (``engine.providers.remote``).
STEP_SECONDS = 120.0

#: ``filling``: the new model embeds the memories; ``waiting``: for the last questions by the old model;
#: ``folding``: the vectors take the old ones' place; ``done``; ``cancelled``.
Phase = Literal["filling", "waiting", "folding", "done", "cancelled"]


class ReembeddingStep(Request):
    """Do the next step of the move to ``to``. It concerns the whole deployment, whichever the group."""

    #: A provider as in ``JIYI_EMBEDDER``; what this names at the service unless given.
    to: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    batch: int = Field(DEFAULT_BATCH, ge=1, le=10_000)
    #: Also re-embed what has a vector by a model other than the active one: imports.
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


#: How a chat model is held to a form: by a JSON schema, to some JSON object, or by words alone.
Structured: TypeAlias = Literal["schema", "object", "words"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Preset:
    """What is known of a vendor before it is asked anything."""

    name: str
    #: Empty: the setting has to name one.
    base_url: str = ""
    #: Variables that may hold the key, in the order they are looked at.
    key_variables: tuple[str, ...] = ()
    needs_key: bool = True
    #: Empty: the setting has to name one.
    embedding_model: str = ""
    #: Of the default embedding model, where that is known.
    dimensions: int | None = None
    #: Most texts of one embeddings call.
    max_texts: int = 64
    #: Tokens of one text that the default embedding model reads.
    max_tokens: int = 8_192
    #: Empty: the setting has to name one.
    chat_model: str = ""
    #: What is tried first; what a server does not take is left out.
    structured: Structured = "schema"
    #: What to say to those who want embeddings from a vendor that has none; empty where it has.
    no_embeddings: str = ""


#: Vendors by name. Where the council's default is no longer offered, its successor stands here
#: (docs/decisions.md).
PRESETS = {
    preset.name: preset
    for preset in (
        Preset(
            name="openai",
            base_url="https://api.openai.com/v1",
            key_variables=("OPENAI_API_KEY",),
            embedding_model="text-embedding-3-small",
            dimensions=1_536,
            max_texts=2_048,
            chat_model="gpt-4.1-mini",
        ),
        Preset(
            name="gemini",
            base_url="https://generativelanguage.googleapis.com/v1beta/openai/",
            key_variables=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
            embedding_model="gemini-embedding-001",
            dimensions=3_072,
            max_texts=100,
            max_tokens=2_048,
            chat_model="gemini-3.5-flash",
        ),
        Preset(
            name="ollama",
            base_url="http://localhost:11434/v1",
            key_variables=("OLLAMA_API_KEY",),
            needs_key=False,
            embedding_model="bge-m3",
            dimensions=1_024,
            chat_model="qwen3",
        ),
        Preset(
            name="deepseek",
            base_url="https://api.deepseek.com",
            key_variables=("DEEPSEEK_API_KEY",),
            chat_model="deepseek-v4-flash",
            structured="object",
            no_embeddings="DeepSeek offers no embeddings",
        ),
        Preset(
            name="dashscope",
            base_url="https://dashscope.aliyuncs.com/compatible-mode/v1",
            key_variables=("DASHSCOPE_API_KEY",),
            embedding_model="text-embedding-v4",
            dimensions=1_024,
            max_texts=10,
            chat_model="qwen-plus",
            structured="object",
        ),
        Preset(
            name="siliconflow",
            base_url="https://api.siliconflow.cn/v1",
            key_variables=("SILICONFLOW_API_KEY",),
            # The model's own 4,096 values fill an index four times as fast; it is trained to be cut.
            embedding_model="Qwen/Qwen3-Embedding-8B@1024",
            dimensions=1_024,
            max_texts=32,
            chat_model="deepseek-ai/DeepSeek-V3.2",
            structured="object",
        ),
        # Anything else that speaks the protocol: vLLM, TEI, LM Studio, a gateway. Nothing is known of it; 512
        # tokens are what the smallest common models read.
        Preset(
            name="compatible",
            key_variables=("COMPATIBLE_API_KEY",),
            needs_key=False,
            max_tokens=512,
            max_texts=32,
        ),
    )
}

#: Other names for the same vendor.
ALIASES = {"google": "gemini", "openai-compatible": "compatible"}
