"""Retrieval: candidates → scores → the best, explained; what was returned counts as accessed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
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
from jiyi.providers.embedders.cache import query_vectors
from jiyi.providers.embedders.choice import chosen, model_of
from jiyi.retrieval import ordering, relevance
from jiyi.retrieval.ordering import Shown
from jiyi.retrieval.ranking import Candidates, Ranked, Weights, diverse, rank_by, rank_in_turn
from jiyi.retrieval.relevance import Relevance
from jiyi.retrieval.scoring import Component, Floats
from jiyi.settings import RelevanceMode, get_settings
from jiyi.text.tokens import asked_tokens, tokens
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
    #: Makes texts' vectors by that model; None where only whoever asks could.
    embed: Callable[[Sequence[str]], Mapping[str, Float32]] | None
    now: datetime
    #: Vectors of the focal texts and of their sentences (:func:`embedded`), and why there are none.
    vectors: Mapping[str, Float32] = field(default_factory=dict)
    away: EmbeddingUnavailable | None = None


@dataclass(frozen=True, slots=True)
class SearchResult:
    """One focal text's result: the ranking, positions in which are positions in ``rows`` of the index."""

    ranked: Ranked
    relevance: Relevance | None
    node_ids: list[UUID]
    #: Rows of the index that the best ones are, for the relevance's parts.
    best_rows: Rows
    debug: Debug
    #: The newer memory of each that one says anew.
    replaced: Mapping[UUID, UUID] = field(default_factory=dict)


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
        texts = _to_embed(asked)
        if texts and not agent.large:
            with _index(connection, asked, agent) as index:
                if not index.select(request.filters, mode=asked.weights.mode, now=asked.now).size:
                    return _without_candidates(asked, index)
    # An embedder may take its time: no connection and no lock waits for it.
    asked = embedded(asked, texts)
    with reading() as connection:
        if texts:  # an erasure in the meantime makes another agent of it
            agent = agents.find_agents(connection, request.group_id, request.agent_id) or AgentRecord(AgentSettings())
        with _index(connection, asked, agent) as index:
            rows = index.select(request.filters, mode=asked.weights.mode, now=asked.now)
            if not rows.size:  # before the focal vectors are looked at, as GA-34 has it
                return _without_candidates(asked, index)
            found = find(asked, index, rows)
            described = descriptions.describe(connection, index, np.concatenate([one.best_rows for one in found]).tolist())
            found = [_ordered(asked, one, index, described) for one in found]
    shown = {node_id for one in found for node_id in one.node_ids}
    described = {node_id: fields for node_id, fields in described.items() if node_id in shown}
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
    given = asked.request.vectors
    for place, text in enumerate(asked.request.focal_texts):
        for part in [text, *_sentences(asked, text)]:
            vector = to_array(given[place]) if given is not None and part == text else asked.vectors.get(part)
            yield CandidateSearch(vector, tokens(part))


def _sentences(asked: ParsedQuestion, text: str) -> list[str]:
    """Those of a focal text's sentences that count by themselves."""
    sentences = relevance.sentences_of(text) if asked.embed is not None and asked.relevance == "hybrid" else []
    return sentences if len(sentences) > 1 else []


def _to_embed(asked: ParsedQuestion) -> list[str]:
    """The texts of the request whose vectors are to be made."""
    request = asked.request
    if asked.embed is None or (asked.relevance == "lexical" and request.filters.min_similarity is None):
        return []
    sentences = [part for text in request.focal_texts for part in _sentences(asked, text)]
    return sentences if request.vectors is not None else [*request.focal_texts, *sentences]


def embedded(asked: ParsedQuestion, texts: Sequence[str] | None = None) -> ParsedQuestion:
    """With the vectors of all texts of the request, made in one call; without any if the embedder is away."""
    texts = _to_embed(asked) if texts is None else texts
    if not texts or asked.embed is None:
        return asked
    try:
        return replace(asked, vectors=asked.embed(texts))
    except EmbeddingUnavailable as error:
        return replace(asked, away=error)


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


def _embedding(used: ActiveModel | None) -> tuple[str, Callable[[Sequence[str]], Mapping[str, Float32]]]:
    """The deployment's model, and what makes questions' vectors: looked for when it is needed, since it may be away."""
    if used is None:
        return model_of(chosen(get_settings())), lambda texts: query_vectors(embedder(), texts)
    index_cache.follow(used.model, used.since)
    return used.model, lambda texts: query_vectors(embedder_of(used.spec), texts)


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
    if request.diversity:
        return request.top_k * POOL_FACTOR
    return max(request.top_k, ordering.LOOKED_AT) if request.newer_first else request.top_k


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
        lexical = corpus.lexicon.bm25(asked_tokens(text))
        return Relevance(lexical, None, lexical, None, None, None), None if query is None else relevance.dense(corpus, query)
    if asked.relevance == "dense" and query is not None:
        cosine = relevance.dense(corpus, query)
        return Relevance(cosine, cosine, None, None, None, None), cosine
    # Without the sentences' vectors the question as a whole will do.
    known = query is None or all(sentence in asked.vectors for sentence in _sentences(asked, text))
    embed = asked.vectors.__getitem__ if known and asked.embed is not None else None
    measured = relevance.hybrid(corpus, text, query, embed, asked.now, with_neighbours=asked.request.neighbours)
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
    if given is None:
        if asked.away is not None:
            if asked.weights.mode == "stanford" or asked.relevance == "dense":
                raise asked.away
            return [None] * len(texts), f"the embedder is away, found by words only: {asked.away}"
        queries = [asked.vectors[text] for text in texts]
    else:
        queries = [to_array(vector) for vector in given]
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


def _ordered(asked: ParsedQuestion, found: SearchResult, index: AgentIndex, described: dict[UUID, dict[str, Any]]) -> SearchResult:
    """With the newer before the older and thoughts behind their evidence, cut to what was asked for."""
    request = asked.request
    if asked.weights.mode == "stanford" or not request.newer_first or not found.node_ids:
        return found
    # Erased meanwhile: not described, and nothing in the answer.
    there = np.array([place for place, node_id in enumerate(found.node_ids) if node_id in described], dtype=np.intp)
    shown = [_shown(described[found.node_ids[place]]) for place in there]
    relevant = found.ranked.scores.relevance.normalised
    others = np.delete(relevant, found.ranked.best)
    order, by = ordering.newer_first(
        shown, index.corpus().alike(found.best_rows[there]), relevant[found.ranked.best[there]] - (np.median(others) if others.size else 0)
    )
    order = order[ordering.behind_evidence([shown[place] for place in order])]
    kept = there[order][: request.top_k]
    in_answer = {found.node_ids[place] for place in kept}
    replaced = {shown[older].node_id: shown[newer].node_id for older, newer in by.items() if shown[newer].node_id in in_answer}
    return replace(
        found,
        ranked=replace(found.ranked, best=found.ranked.best[kept]),
        node_ids=[found.node_ids[place] for place in kept],
        best_rows=found.best_rows[kept],
        replaced=replaced,
        debug=found.debug.model_copy(update={"retrieved_count": int(kept.size)}),
    )


def _shown(node: dict[str, Any]) -> Shown:
    evidence = node["filling"] if node["type"] == "thought" else []
    return Shown(
        node["node_id"],
        node["embedding_key"],
        node["created_at"].timestamp(),
        node["subject"],
        frozenset(UUID(node_id) for node_id in evidence),
    )


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
            "replaced_by": found.replaced.get(node_id),
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


def _without_candidates(asked: ParsedQuestion, index: AgentIndex) -> dict[str, Any]:
    debug = _debug(asked, index, np.zeros(0, dtype=np.intp))
    return _answer([_nothing(text, NO_CANDIDATES, debug) for text in asked.request.focal_texts])


def _nothing(text: str, message: str, debug: Debug) -> dict[str, Any]:
    return FocalAnswer(focal_text=text, status="no_candidates", message=message, debug=debug).model_dump()


def _answer(groups: list[dict[str, Any]]) -> dict[str, Any]:
    ok = any(group["status"] == "ok" for group in groups)
    return {"status": "ok" if ok else "no_candidates", "message": "" if ok else groups[0]["message"], "groups": groups}
