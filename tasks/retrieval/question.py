"""A retrieval with nothing left open: weights, model, time, and the vectors of its texts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from engine.providers.embedder_specs import chosen, model_of
from engine.providers.embedders import embedder, embedder_of, query_vectors, remembered
from engine.retrieval.dialogue import Part, parts_of
from engine.retrieval.ranking import Weights
from engine.retrieval.sentences import sentences_of
from jiyi.errors import EmbeddingUnavailable
from jiyi.protocol.retrieval import RetrievalRequest
from jiyi.protocol.wire.vectors import BYTES_PER_VALUE, Float32
from jiyi.settings import RelevanceMode, get_settings
from models.memory.agents.agents import AgentRecord
from models.operations.embedding_models import ActiveModel, default_size
from models.retrieval import index_cache


@dataclass(frozen=True, slots=True)
class ParsedQuestion:
    """A request with nothing left open."""

    request: RetrievalRequest
    weights: Weights
    relevance: RelevanceMode
    model: str
    #: Makes texts' vectors by that model; None where only whoever asks could.
    embed: Callable[[Sequence[str]], Mapping[str, Float32]] | None
    now: datetime
    #: Values of that model's vectors, where the service knows: never what some stored vector has.
    known_size: int | None = None
    #: Vectors of the focal texts and of their sentences (:func:`embedded`), and why there are none.
    vectors: Mapping[str, Float32] = field(default_factory=dict)
    away: EmbeddingUnavailable | None = None

    @property
    def dialogue(self) -> tuple[Part, ...]:
        """The messages that are looked for together; none where texts are. One message alone is a text."""
        parts = parts_of(self.request.messages)
        return parts if len(parts) > 1 else ()

    @property
    def dimensions(self) -> int:
        """Values of the vectors that are compared; 0 where there is nothing to compare with.

        What the service knows of the model; of one that only callers use, as many as the request's own vectors have.
        """
        if self.known_size is not None:
            return self.known_size
        if self.request.vectors:
            return len(self.request.vectors[0]) // BYTES_PER_VALUE
        return next((vector.size for vector in self.vectors.values()), 0)


def resolve(request: RetrievalRequest, agent: AgentRecord) -> ParsedQuestion:
    """The request's settings, over the agent's, over the deployment's."""
    fallback = agent.settings.over(get_settings(), request.mode)

    def pick(name: str) -> Any:
        given = getattr(request, name)
        return getattr(fallback, name) if given is None else given

    weights = Weights(
        mode=pick("mode"),
        recency=pick("recency_w"),
        relevance=pick("relevance_w"),
        importance=pick("importance_w"),
        decay=pick("recency_decay"),
    )
    kind = "dense" if weights.mode == "stanford" else request.relevance or get_settings().relevance
    model, embed = _embedding(agent.embedding)
    if request.embedding_model not in (None, model):
        return ParsedQuestion(request, weights, kind, request.embedding_model, None, request.now or datetime.now(UTC))
    size = default_size().get(model) if agent.embedding is None else agent.embedding.dimensions
    return ParsedQuestion(request, weights, kind, model, embed, request.now or datetime.now(UTC), size)


def _embedding(used: ActiveModel | None) -> tuple[str, Callable[[Sequence[str]], Mapping[str, Float32]]]:
    """The deployment's model, and what makes questions' vectors: looked for when it is needed, since it may be away."""
    if used is None:
        return model_of(chosen(get_settings())), lambda texts: query_vectors(embedder(), texts)
    index_cache.follow(used.model, used.since)
    return used.model, lambda texts: query_vectors(embedder_of(used.spec), texts)


def counted_sentences(asked: ParsedQuestion, text: str) -> list[str]:
    """Those of a focal text's sentences that count by themselves."""
    splits = asked.embed is not None and asked.relevance == "hybrid" and not asked.dialogue
    sentences = sentences_of(text) if splits else []
    return sentences if len(sentences) > 1 else []


def with_remembered(asked: ParsedQuestion) -> tuple[ParsedQuestion, list[str]]:
    """With the vectors of its texts, if all were asked for lately; else the texts whose vectors are to be made."""
    texts = texts_to_embed(asked)
    known = remembered(asked.model, texts) if texts else None
    return (asked, texts) if known is None else (replace(asked, vectors=known), [])


def texts_to_embed(asked: ParsedQuestion) -> list[str]:
    """The texts of the request whose vectors are to be made."""
    request = asked.request
    if asked.embed is None or (asked.relevance == "lexical" and request.filters.min_similarity is None):
        return []
    if asked.dialogue:
        return [] if request.vectors is not None else [part.text for part in asked.dialogue]
    sentences = [part for text in request.texts for part in counted_sentences(asked, text)]
    return sentences if request.vectors is not None else [*request.texts, *sentences]


def embedded(asked: ParsedQuestion, texts: Sequence[str] | None = None) -> ParsedQuestion:
    """With the vectors of all texts of the request, made in one call; without any if the embedder is away."""
    texts = texts_to_embed(asked) if texts is None else texts
    if not texts or asked.embed is None:
        return asked
    try:
        return replace(asked, vectors=asked.embed(texts))
    except EmbeddingUnavailable as error:
        return replace(asked, away=error)
