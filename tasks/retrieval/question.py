"""The first station of a retrieval: a question with nothing left open, that is weights, model, time, and the
vectors of its texts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from engine.providers.embedder_specs import configured_spec, model_of, sized
from engine.providers.embedders import cached_query_vectors, embedder, embedder_of, query_vectors
from engine.providers.llms import MOST_DOCUMENTS, OFF
from engine.retrieval.ordering import LOOKED_AT
from engine.retrieval.query import WeightedMessage, parts_of, sentences_of, texts_of, vector_of, words_of
from engine.retrieval.ranking import RankingWeights
from engine.retrieval.relevance import Words
from engine.text.keywords import query_tokens
from engine.times.past import MAX_SPANS, named_spans
from jiyi.errors import EmbeddingUnavailable, ModelMismatch
from jiyi.protocol.base import NodeType
from jiyi.protocol.conversations import CONTEXT_KINDS, AnyKind, ContextRequest
from jiyi.protocol.recall import RecallRequest
from jiyi.protocol.retrieval import Filters, RetrievalRequest
from jiyi.protocol.wire.vectors import BYTES_PER_VALUE, Float32, to_array
from jiyi.settings import RelevanceMode, get_settings
from jiyi.text.words import tokens
from jiyi.zones import by_clock
from models.db.connection import reading
from models.memory.agents import AgentRecord, find_agents
from models.memory.filters import FilterValues, of_question
from models.operations.embedding_models import ActiveModel, default_size
from models.retrieval import index_cache
from models.retrieval.index_rows import Past
from models.retrieval.large_agents import CandidateSearch

#: Near-duplicates are thinned among this many times ``top_k`` of the best.
POOL_FACTOR = 4


@dataclass(frozen=True, slots=True)
class ParsedQuestion:
    request: RetrievalRequest
    weights: RankingWeights
    relevance: RelevanceMode
    model: str
    #: Embeds texts with that model; None where only the caller could.
    embedder: Callable[[Sequence[str]], Mapping[str, Float32]] | None
    now: datetime
    #: The messages that are looked for together; none where texts are. One message alone is a text.
    dialogue: tuple[WeightedMessage, ...]
    #: Values of that model's vectors, where the service knows: never what some stored vector has.
    known_size: int | None = None
    #: Texts whose vectors are to be made (:func:`embed`); none if all were asked for lately.
    missing: tuple[str, ...] = ()
    #: Vectors of the focal texts and of their sentences, and why there are none.
    vectors: Mapping[str, Float32] = field(default_factory=dict)
    away: EmbeddingUnavailable | None = None

    @property
    def original(self) -> bool:
        """Whether the original's formula ranks (Park et al. 2023)."""
        return self.weights.mode == "stanford"

    @property
    def past(self) -> Past | None:
        """The time that is asked about, if it is not the present."""
        return None if self.request.as_of is None else Past(self.request.as_of, self.now)

    @property
    def filter_values(self) -> FilterValues:
        request = self.request
        return of_question(
            request.filters, self.now, user_id=request.user_id, as_of=request.as_of, original=self.original
        )

    @property
    def reranks(self) -> bool:
        """Whether a reranker orders what is found: never in the original's mode."""
        return get_settings().reranker != OFF and not self.original

    @property
    def result_count(self) -> int:
        """How many of the best are to be found: as many as are asked for, or as many as are reranked."""
        return max(self.request.top_k, MOST_DOCUMENTS) if self.reranks else self.request.top_k

    @property
    def candidate_count(self) -> int:
        """How many of the best are looked at, to find as many as are :attr:`result_count`."""
        if self.request.diversity:
            return self.request.top_k * POOL_FACTOR
        return max(self.result_count, LOOKED_AT) if self.request.newer_first else self.result_count

    @property
    def dimensions(self) -> int:
        """Values of the vectors that are compared: what the service knows of the model, else those of the
        request's; 0 where there is nothing to compare with.
        """
        if self.known_size is not None:
            return self.known_size
        if self.request.vectors:
            return len(self.request.vectors[0]) // BYTES_PER_VALUE
        return next((vector.size for vector in self.vectors.values()), 0)

    @property
    def dialogue_texts(self) -> tuple[str, ...]:
        return texts_of(self.request.messages) if self.dialogue else ()

    def words(self, text: str) -> Words:
        """The words to look for: a focal text's, or the dialogue's."""
        return words_of(self.dialogue) if self.dialogue else query_tokens(text)

    def sentences(self, text: str) -> list[str]:
        """Those of a focal text's sentences that count by themselves."""
        splits = self.embedder is not None and self.relevance == "hybrid" and not self.dialogue
        sentences = sentences_of(text) if splits else []
        return sentences if len(sentences) > 1 else []

    def sentence_vectors(self, text: str, query: Float32 | None) -> Callable[[str], Float32] | None:
        """What gives the vectors of a text's sentences; None where some have none."""
        has_all = query is None or all(sentence in self.vectors for sentence in self.sentences(text))
        return self.vectors.__getitem__ if has_all and self.embedder is not None else None


#: Kinds and types of memories that prompts may have: all there are.
PROMPT_KINDS: tuple[AnyKind, ...] = (*CONTEXT_KINDS, "session")
PROMPT_TYPES: tuple[NodeType, ...] = ("event", "thought", "chat")


def for_prompt(
    group_id: str,
    request: RecallRequest | ContextRequest,
    texts: list[str],
    *,
    top_k: int,
    now: datetime,
    **filters: Any,
) -> RetrievalRequest:
    """What a prompt asks of an agent's memory: everything that the user may see, but turns that only ask or
    say nothing. Not validated: the limits are those of clients.
    """
    return RetrievalRequest.model_construct(
        group_id=group_id,
        agent_id=request.agent_id,
        user_id=request.user_id,
        queries=texts,
        top_k=top_k,
        now=now,
        as_of=request.as_of,
        touch=False,
        min_probability=get_settings().min_probability,
        filters=Filters(
            types=list(PROMPT_TYPES),
            origins=request.origins,
            min_trust=request.min_trust,
            small_talk=False,
            **filters,
        ),
    )


def parse(request: RetrievalRequest, agent: AgentRecord) -> ParsedQuestion:
    """The request's settings, over the agent's, over the deployment's; with its texts' vectors if all are
    remembered.
    """
    fallback = agent.settings.over(get_settings(), request.mode)

    def pick(name: str) -> Any:
        value = getattr(request, name)
        return getattr(fallback, name) if value is None else value

    weights = RankingWeights(
        mode=pick("mode"),
        recency=pick("recency_w"),
        relevance=pick("relevance_w"),
        importance=pick("importance_w"),
        decay=pick("recency_decay"),
    )
    kind = request.relevance or get_settings().agent_defaults.relevance
    if weights.mode == "stanford":
        kind = "dense"
    parts = parts_of(request.messages)
    dialogue = parts if len(parts) > 1 else ()
    now = by_clock(request.now or request.as_of, request.tz or fallback.tz)
    model, make = _embedding(agent.embedding)
    if request.embedding_model not in (None, model):
        return ParsedQuestion(request, weights, kind, request.embedding_model, None, now, dialogue)
    size = default_size().get(model) if agent.embedding is None else agent.embedding.dimensions
    question = ParsedQuestion(request, weights, kind, model, make, now, dialogue, size)
    texts = _texts_to_embed(question)
    vectors = cached_query_vectors(model, texts, size) if texts else {}
    return replace(question, missing=tuple(texts)) if vectors is None else replace(question, vectors=vectors)


def _embedding(used: ActiveModel | None) -> tuple[str, Callable[[Sequence[str]], Mapping[str, Float32]]]:
    """The deployment's model, and what makes questions' vectors: looked for when needed, since it may be
    away.
    """
    if used is None:
        return model_of(configured_spec(get_settings())), lambda texts: query_vectors(embedder(), texts)
    index_cache.follow(used.model, used.since)
    return used.model, lambda texts: query_vectors(sized(embedder_of(used.spec), used.dimensions), texts)


def _texts_to_embed(question: ParsedQuestion) -> list[str]:
    request = question.request
    if question.relevance == "lexical" and request.filters.min_similarity is None:
        return []
    if question.dialogue:
        return [] if request.vectors is not None else list(question.dialogue_texts)
    sentences = [part for text in request.texts for part in question.sentences(text)]
    return sentences if request.vectors is not None else [*request.texts, *sentences]


def embed(question: ParsedQuestion) -> ParsedQuestion:
    """With the vectors that are missing, made in one call; without any if the embedder is away."""
    if not question.missing or question.embedder is None:
        return question
    try:
        return replace(question, missing=(), vectors=question.embedder(question.missing))
    except EmbeddingUnavailable as error:
        return replace(question, missing=(), away=error)


def embed_ahead(request: RetrievalRequest) -> None:
    """Have a request's texts embedded and remembered, for the retrieval that asks for them next."""
    with reading() as connection:
        agent = find_agents(connection, request.group_id, request.agent_id)
    if agent is not None:
        embed(parse(request, agent))


def focal_vectors(
    question: ParsedQuestion, models: Collection[str], sizes: Collection[int], width: int
) -> tuple[list[Float32 | None], str]:
    """A vector for each focal text, or None for all with the reason.

    Args:
        question: whose texts.
        models: those that the agent's memories are embedded with.
        sizes: values of the question's model's stored vectors, those included that cannot be compared.
        width: values of those that can; 0 if there are none.

    Raises:
        ModelMismatch: there are vectors, but none that the question's can be compared with.
    """
    texts, own_vectors = question.request.texts, question.request.vectors
    comparable = question.model in models
    if not comparable and models:
        raise ModelMismatch(
            f"the agent's memories are embedded with {', '.join(sorted(models))}, the question with"
            f" {question.model}: give vectors and embedding_model with the request, or embed the memories"
            " again"
        )
    if question.relevance == "lexical" and question.request.filters.min_similarity is None:
        return [None] * len(texts), ""
    if not comparable:
        return [None] * len(texts), "no memory is embedded yet: found by words only"
    may_do_without = own_vectors is None and not question.original and question.relevance != "dense"
    if may_do_without and question.away is not None:
        return [None] * len(texts), f"the embedder is away, found by words only: {question.away}"
    queries = _vectors(question)
    if not width:  # all that are stored have another size
        if own_vectors is not None:
            raise _sizes_differ(sizes, question.dimensions)
        note = f"no memory has a vector of {question.dimensions:,} values: found by words only"
        return [None] * len(texts), note
    for query in queries:
        if query.size != width:
            raise _sizes_differ({width}, query.size)
    return list(queries), ""


def _vectors(question: ParsedQuestion) -> list[Float32]:
    if question.request.vectors is not None:
        return [to_array(vector) for vector in question.request.vectors]
    if question.away is not None:
        raise question.away
    if question.dialogue:
        return [vector_of(question.dialogue_texts, question.vectors)]
    return [question.vectors[text] for text in question.request.texts]


def _sizes_differ(stored_sizes: Collection[int], query_size: int) -> ModelMismatch:
    sizes = " or ".join(f"{size:,}" for size in sorted(stored_sizes) if size)
    return ModelMismatch(f"vectors of {sizes} values cannot be compared with one of {query_size:,}")


def searches(question: ParsedQuestion) -> Iterator[CandidateSearch]:
    """The focal texts and their sentences, or the dialogue; without vectors if the embedder is away."""
    own_vectors, vectors = question.request.vectors, question.vectors
    if question.dialogue:
        vector = vector_of(question.dialogue_texts, vectors) if vectors else None
        vector = vector if own_vectors is None else to_array(own_vectors[0])
        days = [span for part in question.dialogue for span in named_spans(part.text, question.now)]
        words = [token for part in question.dialogue for token in tokens(part.text)]
        yield CandidateSearch(vector, words, days[:MAX_SPANS])
        return
    for place, text in enumerate(question.request.texts):
        for part in [text, *question.sentences(text)]:
            vector = (
                to_array(own_vectors[place])
                if own_vectors is not None and part == text
                else vectors.get(part)
            )
            yield CandidateSearch(vector, tokens(part), named_spans(part, question.now))
