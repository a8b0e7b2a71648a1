"""Retrieval: candidates → scores → the best, explained; what was returned counts as accessed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import numpy as np
from redis.client import Pipeline
from sqlalchemy import Connection

from jiyi.errors import EmbeddingUnavailable, ModelMismatch
from jiyi.protocol.agents import AgentSettings
from jiyi.protocol.retrieval import Answer, Debug, FocalAnswer, RelevanceParts, RetrievalRequest
from jiyi.protocol.wire.vectors import Float32, to_array
from jiyi.providers.embedders import embedder, embedder_of
from jiyi.providers.embedders.cache import query_vector
from jiyi.providers.embedders.choice import chosen, model_of
from jiyi.retrieval import relevance
from jiyi.retrieval.ranking import Candidates, Ranked, Weights, diverse, rank_by, rank_in_turn
from jiyi.retrieval.relevance import Relevance
from jiyi.retrieval.scoring import Component, Floats
from jiyi.settings import RelevanceMode, get_settings
from jiyi.text.tokens import tokens
from models.db.connection import reading
from models.memory import agents
from models.memory.agents import AgentRecord
from models.operations import meters
from models.operations.embedding_models import ActiveModel
from models.queue import stream
from models.retrieval import descriptions, index_cache, large_agents, touches
from models.retrieval.agent_index import TYPES, AgentIndex, IndexKey, Rows
from models.retrieval.large_agents import CandidateSearch
from tasks.framework.answering import Answered, answers
from tasks.memory.access import buffer

#: Near-duplicates are thinned among this many times ``top_k`` of the best.
POOL_FACTOR = 4

NO_CANDIDATES = "no candidate memories for this agent"


@dataclass(frozen=True, slots=True)
class ParsedQuestion:
    """A request with nothing left open."""

    request: RetrievalRequest
    weights: Weights
    relevance: RelevanceMode
    model: str
    #: Makes a text's vector by that model; None where only whoever asks could.
    embed: Callable[[str], Float32] | None
    now: datetime


@dataclass(frozen=True, slots=True)
class SearchResult:
    """One focal text's result: the ranking, positions in which are positions in ``rows`` of the index."""

    ranked: Ranked
    relevance: Relevance | None
    node_ids: list[UUID]
    #: Rows of the index that the best ones are, for the relevance's parts.
    best_rows: Rows
    debug: Debug


def _tell(pipe: Pipeline, request: RetrievalRequest, answer: dict[str, Any], seconds: float) -> None:
    """Whoever watches the group learns of it; no trip of its own."""
    meters.retrieved(seconds)
    found = sum(len(group["retrieved_nodes"]) for group in answer["groups"])
    told = {"agent": request.agent_id, "found": found, "ms": round(seconds * 1_000, 1)}
    stream.publish_many(pipe, [(request.group_id, "retrieval.answered", told)])


def retrieve(request: RetrievalRequest) -> Answer | Answered:
    """What :func:`answer` gives, as the :class:`Answer` that a client makes of it: for tasks that need one themselves."""
    found = answer(request)
    if isinstance(found, Answered):
        return replace(found, value=Answer.model_validate(found.value))
    return Answer.model_validate(found)


@answers("retrieval.retrieve", RetrievalRequest, tell=_tell)
def answer(request: RetrievalRequest) -> dict[str, Any] | Answered:
    """Answer a :class:`RetrievalRequest` with all fields of an :class:`Answer`; if it touches memories, with what that takes.

    They are plain values: whoever receives them validates them.
    Safe to repeat because reading changes nothing but access times, which only move forward.
    """
    with reading() as connection:
        agent = agents.find_agents(connection, request.group_id, request.agent_id) or AgentRecord(AgentSettings())
        asked = resolve(request, agent)
        with _index(connection, asked, agent) as index:
            rows = index.select(request.filters, mode=asked.weights.mode, now=asked.now)
            if not rows.size:  # before the focal vectors are looked at, as GA-34 has it
                return _answer([_nothing(text, NO_CANDIDATES, _debug(asked, index, rows)) for text in request.focal_texts])
            found = find(asked, index, rows)
            described = descriptions.describe(connection, index, np.concatenate([one.best_rows for one in found]).tolist())
    touched = list(described)
    index_cache.make_room()
    index_cache.report()
    fields = _answer([_group(text, one, described) for text, one in zip(request.focal_texts, found, strict=True)])
    if not request.touch or not touched:
        return fields
    at = asked.now.timestamp()
    return Answered(
        fields, tell=lambda pipe: touches.tell_with(pipe, request.group_id, request.agent_id, touched, at), then=lambda: buffer(touched, at)
    )


@contextmanager
def _index(connection: Connection, asked: ParsedQuestion, agent: AgentRecord) -> Iterator[AgentIndex]:
    """The agent's memories; of a large agent those that may be the best. The original's order needs them all."""
    request = asked.request
    if agent.large and asked.weights.mode != "stanford":
        yield likely_best(connection, asked, agent)
        return
    archived = request.filters.include_archived
    index = index_cache.index_of(request.group_id, request.agent_id, asked.model, archived=archived)
    with index.lock:
        index.reset_if_stale(agent.identity)
        index.refresh(connection)
        yield index


def likely_best(connection: Connection, asked: ParsedQuestion, agent: AgentRecord) -> AgentIndex:
    """An index of a large agent's likely best memories."""
    request = asked.request
    key = IndexKey(request.group_id, request.agent_id, asked.model)
    return large_agents.candidates(connection, key, agent.node_count, request.filters, list(_sought(asked)), asked.now, request.top_k)


def _sought(asked: ParsedQuestion) -> Iterator[CandidateSearch]:
    """The focal texts and their sentences, which also count by themselves; without vectors if the embedder is away."""
    given, embed = asked.request.vectors, asked.embed
    for place, text in enumerate(asked.request.focal_texts):
        sentences = relevance.sentences_of(text) if embed is not None and asked.relevance == "hybrid" else []
        for part in [text, *(sentences if len(sentences) > 1 else [])]:
            if given is not None and part == text:
                vector: Float32 | None = to_array(given[place])
            else:
                vector = None if embed is None else _vector_or_none(embed, part)
            yield CandidateSearch(vector, tokens(part))


def _vector_or_none(embed: Callable[[str], Float32], text: str) -> Float32 | None:
    try:
        return embed(text)
    except EmbeddingUnavailable:
        return None


def resolve(request: RetrievalRequest, agent: AgentRecord) -> ParsedQuestion:
    """The request's settings, over the agent's, over the deployment's (GA-36)."""
    fallback = agent.settings.over(get_settings())

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
    return ParsedQuestion(request, weights, kind, model, embed, request.now or datetime.now(UTC))


def _embedding(used: ActiveModel | None) -> tuple[str, Callable[[str], Float32]]:
    """The deployment's model, and what makes questions' vectors: looked for when it is needed, since it may be away."""
    if used is None:
        return model_of(chosen(get_settings())), lambda text: query_vector(embedder(), text)
    index_cache.follow(used.model, used.since)
    return used.model, lambda text: query_vector(embedder_of(used.spec), text)


def find(asked: ParsedQuestion, index: AgentIndex, rows: Rows) -> list[SearchResult]:
    """The best of the rows for each focal text."""
    queries, note = _queries(asked, index)
    debug = _debug(asked, index, rows).model_copy(update={"note": note})
    now, top_k, least = asked.now.timestamp(), asked.request.top_k, asked.request.filters.min_similarity
    columns = index.columns
    original = asked.weights.mode == "stanford"
    pool = Candidates(
        node_count=columns["node_count"][rows],
        is_thought=columns["type"][rows] == TYPES.index("thought"),
        last_accessed=columns["last_accessed"][rows],
        poignancy=columns["poignancy"][rows],
        vectors=index.vectors[rows] if original else index.vectors[:0],
    )
    if original:
        vectors = [query for query in queries if query is not None]
        ranked = rank_in_turn(pool, vectors, asked.weights, top_k=top_k, now=now, min_similarity=least)
        return [_found(index, rows, one, None, debug) for one in ranked]
    order = _within(index.access_order(), rows, index.size)
    results = []
    for text, query in zip(asked.request.focal_texts, queries, strict=True):
        measured, cosine = _measure(asked, index, text, query)
        kept = np.arange(rows.size) if least is None or cosine is None else np.flatnonzero(cosine[rows] >= least)
        ranked_one = rank_by(pool, measured.total[rows], kept, asked.weights, top_k=_pool_of(asked.request), now=now, order=order)
        ranked_one = _thinned(asked.request, ranked_one, index.vectors, rows)
        used = debug.model_copy(update={"relevance": "lexical"}) if query is None else debug
        results.append(_found(index, rows, ranked_one, measured, used))
    return results


def _pool_of(request: RetrievalRequest) -> int:
    """How many of the best are looked at, to return ``top_k``."""
    return request.top_k * POOL_FACTOR if request.diversity else request.top_k


def _thinned(request: RetrievalRequest, ranked: Ranked, vectors: Float32, rows: Rows) -> Ranked:
    if not request.diversity:
        return ranked
    best = ranked.best
    kept = diverse(ranked.scores.total[best], vectors[rows[ranked.kept[best]]], request.top_k, request.diversity)
    return replace(ranked, best=best[kept])


def _within(order: Rows, rows: Rows, size: int) -> Rows:
    """An order of all rows as positions in some of them."""
    position = np.full(size, -1, dtype=np.intp)
    position[rows] = np.arange(rows.size)
    found = position[order]
    return found[found >= 0]


def _measure(asked: ParsedQuestion, index: AgentIndex, text: str, query: Float32 | None) -> tuple[Relevance, Floats | None]:
    """Relevance of all of the index's rows, and their cosines where there are any."""
    corpus = index.corpus()
    if asked.relevance == "lexical":
        lexical = corpus.lexicon.bm25(tokens(text))
        return Relevance(lexical, None, lexical, None, None, None), None if query is None else relevance.dense(corpus, query)
    if asked.relevance == "dense" and query is not None:
        cosine = relevance.dense(corpus, query)
        return Relevance(cosine, cosine, None, None, None, None), cosine
    try:
        measured = relevance.hybrid(corpus, text, query, asked.embed, asked.now)
    except EmbeddingUnavailable:  # went away between the question and its sentences: the question as a whole will do
        measured = relevance.hybrid(corpus, text, query, None, asked.now)
    return measured, measured.dense


def _queries(asked: ParsedQuestion, index: AgentIndex) -> tuple[list[Float32 | None], str]:
    """A vector for each focal text, or None for all with the reason.

    Raises:
        ModelMismatch: there are vectors, but none that the question's can be compared with.
    """
    texts, given = asked.request.focal_texts, asked.request.vectors
    comparable = asked.model in index.models
    if not comparable and index.models:
        raise ModelMismatch(
            f"the agent's memories are embedded with {', '.join(sorted(index.models))}, the question with {asked.model}: "
            "give vectors and embedding_model with the request, or embed the memories anew"
        )
    if asked.relevance == "lexical" and asked.request.filters.min_similarity is None:
        return [None] * len(texts), ""
    if not comparable:
        return [None] * len(texts), "no memory is embedded yet: found by words only"
    try:
        if given is None:
            assert asked.embed is not None  # who asks by another model brings its vectors
            queries = [asked.embed(text) for text in texts]
        else:
            queries = [to_array(vector) for vector in given]
    except EmbeddingUnavailable as error:
        if asked.weights.mode == "stanford" or asked.relevance == "dense":
            raise
        return [None] * len(texts), f"the embedder is away, found by words only: {error}"
    width = index.vectors.shape[1]
    wrong = next((query.size for query in queries if query.size != width), None)
    if wrong is not None:
        raise ModelMismatch(f"vectors of {width} values cannot be compared with one of {wrong}")
    return list(queries), ""


def _found(index: AgentIndex, rows: Rows, ranked: Ranked, measured: Relevance | None, debug: Debug) -> SearchResult:
    best_rows = rows[ranked.kept[ranked.best]]
    total = ranked.scores.total
    if total.size:
        debug = debug.model_copy(
            update={
                "total_candidates": int(total.size),
                "retrieved_count": int(ranked.best.size),
                "min_score": float(total.min()),
                "max_score": float(total.max()),
            }
        )
    return SearchResult(ranked, measured, [index.node_ids[row] for row in best_rows], best_rows, debug)


def _debug(asked: ParsedQuestion, index: AgentIndex, rows: Rows) -> Debug:
    without = int(rows.size - np.count_nonzero(index.columns["has_vector"][rows]))
    return Debug(
        mode=asked.weights.mode,
        relevance=asked.relevance,
        embedding_model=asked.model,
        without_comparable_vector=without,
        exact=index.complete,
    )


def _group(text: str, found: SearchResult, described: dict[UUID, dict[str, Any]]) -> dict[str, Any]:
    """The fields of a :class:`FocalAnswer`."""
    if not found.ranked.kept.size:
        return _nothing(text, "no memory is as similar as asked", found.debug)
    nodes = _nodes(found, described)
    return {
        "focal_text": text,
        "status": "ok",
        "message": "",
        "retrieved_nodes": nodes,
        "accessed_ids": [node["node_id"] for node in nodes],
        "debug": found.debug,
    }


def _nodes(found: SearchResult, described: dict[UUID, dict[str, Any]]) -> list[dict[str, Any]]:
    """The fields of each :class:`RetrievedNode`, best first."""
    best, scores = found.ranked.best, found.ranked.scores
    explained = zip(
        found.node_ids,
        scores.total[best].tolist(),
        _components(scores.recency, best),
        _components(scores.relevance, best),
        _components(scores.importance, best),
        _parts(found),
        strict=True,
    )
    return [
        {
            **described[node_id],
            "score": score,
            "recency": recency,
            "relevance": relevance,
            "importance": importance,
            "relevance_parts": parts,
        }
        for node_id, score, recency, relevance, importance, parts in explained
        if node_id in described  # erased meanwhile
    ]


def _components(component: Component, best: Rows) -> list[dict[str, float]]:
    normalised = component.normalised[best]
    measured = zip(component.raw[best].tolist(), normalised.tolist(), (normalised * component.weight).tolist(), strict=True)
    return [
        {"raw": raw, "normalised": stretched, "weight": component.weight, "contribution": contribution}
        for raw, stretched, contribution in measured
    ]


def _parts(found: SearchResult) -> list[dict[str, float | None]]:
    if found.relevance is None:
        return [_NO_PARTS | {"dense": raw} for raw in found.ranked.scores.relevance.raw[found.ranked.best].tolist()]
    measured = {name: getattr(found.relevance, name) for name in RelevanceParts.model_fields}
    columns = {name: values[found.best_rows].tolist() for name, values in measured.items() if values is not None}
    return [_NO_PARTS | dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


_NO_PARTS: dict[str, float | None] = dict.fromkeys(RelevanceParts.model_fields)


def _nothing(text: str, message: str, debug: Debug) -> dict[str, Any]:
    return FocalAnswer(focal_text=text, status="no_candidates", message=message, debug=debug).model_dump()


def _answer(groups: list[dict[str, Any]]) -> dict[str, Any]:
    ok = any(group["status"] == "ok" for group in groups)
    return {"status": "ok" if ok else "no_candidates", "message": "" if ok else groups[0]["message"], "groups": groups}
