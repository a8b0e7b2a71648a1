"""What one asks of the service and what comes back: the retrieval's request and answer."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self
from uuid import UUID

from pydantic import AfterValidator, AwareDatetime, BaseModel, BeforeValidator, Field, model_validator

from jiyi.protocol import limits
from jiyi.protocol.base import (
    AS_OF_DESCRIPTION,
    NOT_BLANK,
    SUPERSEDED,
    SUPERSEDED_DESCRIPTION,
    AsOf,
    ForUser,
    Fraction,
    Keyword,
    Name,
    NodeType,
    Request,
)
from jiyi.protocol.conversations import CONTEXT_KINDS, KINDS_DESCRIPTION, Kinds
from jiyi.protocol.limits import QUESTION_CHARS
from jiyi.protocol.memory import Memory
from jiyi.protocol.origins import BySource
from jiyi.protocol.wire.vectors import Vector
from jiyi.settings import Decay, Mode, RelevanceMode, Weight
from jiyi.text.words import nfkc
from jiyi.zones import TZ_DESCRIPTION, TimeZone

DEFAULT_TOP_K = 30
#: Seconds that an answer may be waited for: a worker gives up after a minute.
MAX_TIMEOUT = 60.0

#: ``no_candidates``: the agent has no memory that may be one. ``unknown_agent``: there is no such agent in
#: the group. A question that cannot be answered has no status; it is raised as an error.
Status = Literal["ok", "no_candidates", "unknown_agent"]


def _within_focal_limit(text: str) -> str:
    limit = limits.MAX_FOCAL_CHARS
    if len(text) > limit:
        raise ValueError(f"{len(text):,} characters are more than {limit:,}; ask with a summary")
    if (size := _size(text)) > limit:
        raise ValueError(
            f"{size:,} characters after Unicode normalisation are more than {limit:,}; ask with a summary"
        )
    return text


def _size(text: str) -> int:
    """Characters of a text as written or as normalised, where words are looked for: whichever is more."""
    return len(text) if text.isascii() else max(len(text), len(nfkc(text)))


def _few_enough_focal_texts(texts: list[str]) -> list[str]:
    limit = limits.MAX_FOCAL_TEXTS
    if len(texts) > limit:
        raise ValueError(f"{len(texts):,} focal texts are more than {limit:,}; ask in several requests")
    _refuse_too_long(sum(map(_size, texts)))
    return texts


def _short_enough_together(texts: Any) -> Any:
    """Looked at as written first: to normalise what is far too long would be most of the work."""
    if isinstance(texts, list):
        _refuse_too_long(sum(len(text) for text in texts if isinstance(text, str)))
    return texts


def _refuse_too_long(total: int) -> None:
    most = _most_characters()
    if total > most:
        raise ValueError(
            f"{total:,} characters of all focal texts together are more than {most:,}; ask in several"
            " requests"
        )


def _most_characters() -> int:
    return max(QUESTION_CHARS, limits.MAX_FOCAL_CHARS)


FocalText = Annotated[str, Field(pattern=NOT_BLANK), AfterValidator(_within_focal_limit)]
FocalTexts = Annotated[
    list[FocalText],
    Field(fail_fast=True),
    BeforeValidator(_short_enough_together),
    AfterValidator(_few_enough_focal_texts),
]


class DialogueMessage(BaseModel, frozen=True, extra="forbid"):
    """One message of a dialogue."""

    role: Literal["user", "assistant"] = Field(description="Who says it.")
    content: FocalText = Field(description="What is said.")
    name: Name | None = Field(
        None, description="The speaker's name, as the memories have it. It counts as part of what is said."
    )

    @property
    def text(self) -> str:
        """What is looked for: the content, with the speaker's name where it is given."""
        return f"{self.name}: {self.content}" if self.name else self.content


def _few_enough_messages(messages: list[DialogueMessage]) -> list[DialogueMessage]:
    total, most = sum(_size(message.text) for message in messages), _most_characters()
    if total > most:
        raise ValueError(
            f"{total:,} characters of all messages together are more than {most:,}; give the latest ones, or"
            " shorten them"
        )
    if messages and not any(message.role == "user" for message in messages):
        raise ValueError(
            "no message has the role user: the user's latest message is what memories are looked for by"
        )
    return messages


Messages = Annotated[
    list[DialogueMessage], Field(max_length=limits.MAX_FOCAL_TEXTS), AfterValidator(_few_enough_messages)
]


class Filters(BySource, frozen=True, extra="forbid", use_attribute_docstrings=True):
    """Which memories may be candidates; all given filters must hold. They come before the scoring."""

    types: Annotated[list[NodeType], Field(min_length=1, fail_fast=True)] = Field(["event", "thought"])
    """Only these types."""
    created_after: AwareDatetime | None = Field(None, description="Only what happened at this time or later.")
    created_before: AwareDatetime | None = Field(None, description="Only what happened before this time.")
    session_id: Name | None = Field(None, description="Only this session.")
    keywords: Annotated[list[Keyword], Field(max_length=100)] = Field([])
    """Only memories with any of these keywords, compared in lower case."""
    min_similarity: float | None = Field(None, ge=-1, le=1, allow_inf_nan=False)
    """Least cosine similarity with the focal text, -1 … 1."""
    kinds: Kinds = Field([*CONTEXT_KINDS], description=KINDS_DESCRIPTION)
    superseded: bool = Field(False, validation_alias=SUPERSEDED, description=SUPERSEDED_DESCRIPTION)
    small_talk: bool = True
    """Of turns also those that only ask something, or say nothing; prompts have none of them."""
    include_archived: bool = Field(False, description="Archived memories, too.")
    include_expired: bool = False
    """Memories past their expiry, too. The `stanford` mode always has them, as the original does."""

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        return self  # frozen: all requests that give none share the default


class Question(Request, ForUser, use_attribute_docstrings=True):
    """What matters to this agent now?

    What is left out comes from the agent's settings, then from the deployment's.
    """

    agent_id: Name = Field(description="The agent that is queried.")
    queries: FocalTexts = Field([])
    """What the memories are to be about: each query is answered separately."""
    messages: Messages = Field([])
    """Instead of focal texts: a dialogue in its order. The user's latest message leads; earlier ones add
    names and topics, the assistant's little."""
    top_k: int = Field(DEFAULT_TOP_K, ge=1, le=limits.MAX_TOP_K, description="Most memories of each answer.")
    mode: Mode | None = None
    """How recency is measured: by rank, by hours, or as in the original."""
    relevance: RelevanceMode | None = None
    """How relevance is measured: by meaning, by words, or both."""
    recency_w: Weight | None = Field(None, description="Weight of recency; 1 unless the agent has its own.")
    relevance_w: Weight | None = None
    """Weight of relevance; 1 unless the agent has its own."""
    importance_w: Weight | None = None
    """Weight of importance; 1 unless the agent has its own."""
    recency_decay: Decay | None = Field(None, description="Decay of recency per rank or per hour.")
    filters: Filters = Field(Filters(), description="Which memories may be candidates.")
    #: See :func:`engine.retrieval.ranking.diverse`.
    diversity: Fraction = 0.0
    """Thins out what says nearly the same, 0 (not at all) … 1."""
    min_probability: Fraction = 0.0
    """Least probability that a memory answers, 0 (all) … 1; for `hybrid` relevance only. An answer may be
    empty."""
    neighbours: bool = True
    """Whether what was said right before and after a memory in its session counts towards its relevance."""
    newer_first: bool = True
    """Whether a memory that replaces an older one comes before it, and a thought behind its evidence; never
    in the mode `stanford`."""
    now: AwareDatetime | None = Field(None, description="The agent's present, if it lives in simulated time.")
    tz: TimeZone | None = Field(None, description=TZ_DESCRIPTION)
    as_of: AsOf | None = Field(None, description=f"{AS_OF_DESCRIPTION} Nothing counts as accessed.")
    touch: bool = Field(True, description="Whether what is returned counts as accessed.")
    vectors: Annotated[list[Vector], Field(fail_fast=True)] | None = None
    """The focal texts' own vectors, one each, by embedding_model."""
    embedding_model: Name | None = Field(None, description="The model that made the vectors.")

    @property
    def texts(self) -> list[str]:
        """What each group of the answer is for: the focal texts, or the leading message of the dialogue."""
        return self.queries or [
            next(message.text for message in reversed(self.messages) if message.role == "user")
        ]

    @model_validator(mode="after")
    def _texts_or_dialogue(self) -> Self:
        if self.queries and self.messages:
            raise ValueError("messages: give either this or focal texts")
        if not self.queries and not self.messages:
            raise ValueError("queries: give at least 1, or a dialogue as messages")
        return self

    @model_validator(mode="after")
    def _original_is_not_thinned(self) -> Self:
        if self.mode == "stanford" and self.diversity:
            raise ValueError(
                "diversity: the stanford mode ranks as the original does, which thins nothing: leave one out"
            )
        return self

    @model_validator(mode="after")
    def _vectors_match_texts(self) -> Self:
        if (self.vectors is None) != (self.embedding_model is None):
            raise ValueError("vectors: needs embedding_model, and the other way round: give both or neither")
        if self.vectors is not None and len(self.vectors) != (count := len(self.texts)):
            what = "one dialogue; give one" if self.messages else f"{count} focal texts; give one each"
            raise ValueError(f"vectors: {len(self.vectors)} given for {what}")
        return self


class RetrievalRequest(Question):
    """A question with the group that it is asked for."""

    group_id: Name


class RetrieveBody(Question):
    """A question to one agent's memory."""

    query: FocalText | None = None
    """What the memories are to be about: a question, or what goes on now."""
    queries: FocalTexts = Field(default_factory=list)
    """Several of them, answered one by one in one request."""
    flat: bool = False
    """Of one focal text: `retrieved_nodes`, `accessed_ids` and `debug` stand at the answer's top instead
    of in `groups`."""
    timeout: float | None = Field(None, gt=0, le=MAX_TIMEOUT)
    """Seconds to wait for the answer; the deployment's request time-out unless given."""

    @model_validator(mode="before")
    @classmethod
    def _one_or_many(cls, body: Any) -> Any:
        if not isinstance(body, dict):
            return body
        sources = {
            name: body[name] for name in ("query", "queries", "messages") if body.get(name) not in (None, [])
        }
        if len(sources) > 1:
            raise ValueError(f"{next(iter(sources))}: give only one of {', '.join(sources)}")
        if not sources:
            raise ValueError(
                "query: required, but missing: a text, or several as queries, or a dialogue as messages"
            )
        if body.get("flat") is True and len(sources.get("queries", ())) > 1:
            raise ValueError(
                f"flat: is for one focal text, but {len(sources['queries'])} are given; leave it out and read"
                " groups"
            )
        rest = {name: value for name, value in body.items() if name not in ("query", "queries", "messages")}
        return {**rest, **({"queries": [sources["query"]]} if "query" in sources else sources)}


class ScoreComponent(BaseModel):
    """One part of a score: measured, stretched to [0, 1] over the candidates, weighted, and the product."""

    raw: float
    normalised: float
    #: Setting × fixed gain.
    weight: float
    contribution: float


class RelevanceParts(BaseModel):
    """What relevance is made of: cosine and BM25 as measured; the rest in standard scores added to their sum.

    ``second_hop``: like the best memories found. ``neighbours``: what was said right before and after.
    ``named``: the question names the memory's subject or day. None where it played no part.
    """

    dense: float | None = None
    lexical: float | None = None
    second_hop: float | None = None
    neighbours: float | None = None
    named: float | None = None


class ScoredMemory(Memory):
    """A memory, with the reason why it was retrieved."""

    score: float
    recency: ScoreComponent
    relevance: ScoreComponent
    importance: ScoreComponent
    relevance_parts: RelevanceParts = RelevanceParts()
    #: A newer memory of this answer that replaces this one, as far as can be judged without a model.
    replaced_by: UUID | None = None
    #: How likely it is to answer, 0 … 1, as calibrated on questions whose answers are known; null unless
    #: relevance is ``hybrid``.
    probability: float | None = None
    #: How relevant the reranker takes it to be, on its model's own scale; null unless it was reranked.
    reranked: float | None = None


class Debug(BaseModel):
    """Minimum and maximum are over all candidates, not only those returned."""

    total_candidates: int = 0
    retrieved_count: int = 0
    min_score: float | None = None
    max_score: float | None = None
    mode: str = ""
    embedding_model: str = ""
    #: How relevance was measured; ``lexical`` also where vectors were asked for, but are not to be had: see
    #: ``note``.
    relevance: str = ""
    note: str = ""
    #: The reranker of the best; empty where none was used: see ``note`` if one should have been.
    reranker: str = ""
    #: Whether every memory that the filters allow was a candidate: of a large agent only those likely to be
    #: the best are.
    exact: bool = True
    #: Candidates without a vector by this model: found by their words; in ``dense`` their cosine counts as 0.
    without_comparable_vector: int = 0
    #: Of an empty answer: how many memories each filter alone leaves out, by the filter's name
    #: (``kinds.session``); of others how many superseded ones would be among those that were found
    #: (``superseded``). Of large agents' answers these are not counted.
    left_out: dict[str, int] = {}


class FocalAnswer(BaseModel):
    """The ranked memories for one focal text. All five fields are always there."""

    query: str
    status: Status
    message: str = ""
    retrieved_nodes: list[ScoredMemory] = []
    accessed_ids: list[UUID] = []
    debug: Debug = Debug()


class Answer(BaseModel):
    """One group a focal text, in the order asked. ``status`` is ``ok`` if any group's is."""

    status: Status
    message: str = ""
    groups: list[FocalAnswer]

    @property
    def retrieved_nodes(self) -> list[ScoredMemory]:
        """The first focal text's memories: all there are when one was asked about."""
        return self.groups[0].retrieved_nodes

    @property
    def accessed_ids(self) -> list[UUID]:
        return self.groups[0].accessed_ids

    @property
    def debug(self) -> Debug:
        return self.groups[0].debug
