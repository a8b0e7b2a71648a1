"""Retrieval: candidates → scores → the best, explained; what was returned counts as accessed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import numpy as np
from celery import current_app

from jiyi import relevance
from jiyi.agents import AgentSettings
from jiyi.embedders import embedder
from jiyi.embedders.cache import query_vector
from jiyi.errors import EmbeddingUnavailable, ModelMismatch
from jiyi.relevance import Relevance
from jiyi.requests import Answer, Debug, FocalAnswer, RelevanceParts, RetrievalRequest, RetrievedNode, ScoreComponent
from jiyi.retrieval import Candidates, Ranked, Weights, rank_by, rank_in_turn
from jiyi.scoring import Component, Floats
from jiyi.settings import RelevanceMode, get_settings
from jiyi.tokens import tokens
from jiyi.vectors import Float32, to_array
from models import access, agents, candidates, indexes, touches
from models.base import unit_of_work
from models.index import TYPES, AgentIndex, Rows
from tasks.answering import answers

NO_CANDIDATES = "no candidate memories for this agent"


@dataclass(frozen=True, slots=True)
class Asked:
    """A request with nothing left open."""

    request: RetrievalRequest
    weights: Weights
    relevance: RelevanceMode
    model: str
    now: datetime


@dataclass(frozen=True, slots=True)
class Found:
    """One focal text's result: the ranking, positions in which are positions in ``rows`` of the index."""

    ranked: Ranked
    relevance: Relevance | None
    node_ids: list[UUID]
    #: Rows of the index that the best ones are, for the relevance's parts.
    best_rows: Rows
    debug: Debug


@answers("retrieval.retrieve", RetrievalRequest)
def retrieve(request: RetrievalRequest) -> dict[str, Any]:
    """Answer a :class:`RetrievalRequest` with an :class:`Answer`.

    Safe to repeat because reading changes nothing but access times, which only move forward.
    """
    with unit_of_work() as connection:
        asked = resolve(request, agents.agent_settings(connection, request.group_id, request.agent_id) or AgentSettings())
        archived = request.filters.include_archived
        index = indexes.index_of(request.group_id, request.agent_id, asked.model, archived=archived)
        with index.lock:
            index.refresh(connection)
            rows = index.select(request.filters, mode=asked.weights.mode, now=asked.now)
            if not rows.size:  # before the focal vectors are looked at, as GA-34 has it
                return _answer([_nothing(text, NO_CANDIDATES, _debug(asked, index, rows)) for text in request.focal_texts])
            found = find(asked, index, rows)
        touched = list(dict.fromkeys(node_id for one in found for node_id in one.node_ids))
        described = candidates.describe(connection, request.group_id, touched)
    indexes.make_room()
    if request.touch:
        _touch(request, touched, asked.now.timestamp())
    return _answer([_group(text, one, described) for text, one in zip(request.focal_texts, found, strict=True)])


def resolve(request: RetrievalRequest, own: AgentSettings) -> Asked:
    """The request's settings, over the agent's, over the deployment's (GA-36)."""
    fallback = own.over(get_settings())

    def pick(name: str) -> Any:
        given = getattr(request, name)
        return getattr(fallback, name) if given is None else given

    weights = Weights(
        mode=pick("mode"), recency=pick("recency_w"), relevance=pick("relevance_w"), importance=pick("importance_w"),
        decay=pick("recency_decay"),
    )  # fmt: skip
    kind = "dense" if weights.mode == "stanford" else request.relevance or get_settings().relevance
    return Asked(request, weights, kind, request.embedding_model or embedder().model, request.now or datetime.now(UTC))


def find(asked: Asked, index: AgentIndex, rows: Rows) -> list[Found]:
    """The best of the rows for each focal text."""
    queries, note = _queries(asked, index)
    debug = _debug(asked, index, rows).model_copy(update={"note": note})
    now, top_k, least = asked.now.timestamp(), asked.request.top_k, asked.request.filters.min_similarity
    columns = index.columns
    original = asked.weights.mode == "stanford"
    pool = Candidates(
        node_count=columns["node_count"][rows], is_thought=columns["type"][rows] == TYPES.index("thought"),
        last_accessed=columns["last_accessed"][rows], poignancy=columns["poignancy"][rows],
        vectors=index.vectors[rows] if original else index.vectors[:0],
    )  # fmt: skip
    if original:
        vectors = [query for query in queries if query is not None]
        ranked = rank_in_turn(pool, vectors, asked.weights, top_k=top_k, now=now, min_similarity=least)
        return [_found(index, rows, one, None, debug) for one in ranked]
    order = _within(index.access_order(), rows, index.size)
    results = []
    for text, query in zip(asked.request.focal_texts, queries, strict=True):
        measured, cosine = _measure(asked, index, text, query)
        kept = np.arange(rows.size) if least is None or cosine is None else np.flatnonzero(cosine[rows] >= least)
        ranked_one = rank_by(pool, measured.total[rows], kept, asked.weights, top_k=top_k, now=now, order=order)
        used = debug.model_copy(update={"relevance": "lexical"}) if query is None else debug
        results.append(_found(index, rows, ranked_one, measured, used))
    return results


def _within(order: Rows, rows: Rows, size: int) -> Rows:
    """An order of all rows as positions in some of them."""
    position = np.full(size, -1, dtype=np.intp)
    position[rows] = np.arange(rows.size)
    found = position[order]
    return found[found >= 0]


def _measure(asked: Asked, index: AgentIndex, text: str, query: Float32 | None) -> tuple[Relevance, Floats | None]:
    """Relevance of all of the index's rows, and their cosines where there are any."""
    corpus = index.corpus()
    if asked.relevance == "lexical":
        lexical = corpus.lexicon.bm25(tokens(text))
        return Relevance(lexical, None, lexical, None, None, None), None if query is None else relevance.dense(corpus, query)
    if asked.relevance == "dense" and query is not None:
        cosine = relevance.dense(corpus, query)
        return Relevance(cosine, cosine, None, None, None, None), cosine
    own_model = asked.request.embedding_model in (None, embedder().model)
    try:
        measured = relevance.hybrid(corpus, text, query, query_vector if own_model else None, asked.now)
    except EmbeddingUnavailable:  # went away between the question and its sentences: the question as a whole will do
        measured = relevance.hybrid(corpus, text, query, None, asked.now)
    return measured, measured.dense


def _queries(asked: Asked, index: AgentIndex) -> tuple[list[Float32 | None], str]:
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
        queries = [query_vector(text) for text in texts] if given is None else [to_array(vector) for vector in given]
    except EmbeddingUnavailable as error:
        if asked.weights.mode == "stanford" or asked.relevance == "dense":
            raise
        return [None] * len(texts), f"the embedder is away, found by words only: {error}"
    width = index.vectors.shape[1]
    wrong = next((query.size for query in queries if query.size != width), None)
    if wrong is not None:
        raise ModelMismatch(f"vectors of {width} values cannot be compared with one of {wrong}")
    return list(queries), ""


def _found(index: AgentIndex, rows: Rows, ranked: Ranked, measured: Relevance | None, debug: Debug) -> Found:
    best_rows = rows[ranked.kept[ranked.best]]
    total = ranked.scores.total
    if total.size:
        debug = debug.model_copy(update={
            "total_candidates": int(total.size), "retrieved_count": int(ranked.best.size),
            "min_score": float(total.min()), "max_score": float(total.max()),
        })  # fmt: skip
    return Found(ranked, measured, [index.node_ids[row] for row in best_rows], best_rows, debug)


def _debug(asked: Asked, index: AgentIndex, rows: Rows) -> Debug:
    without = int(rows.size - np.count_nonzero(index.columns["has_vector"][rows]))
    return Debug(
        mode=asked.weights.mode, relevance=asked.relevance, embedding_model=asked.model, without_comparable_vector=without
    )


def _touch(request: RetrievalRequest, node_ids: Sequence[UUID], at: float) -> None:
    if node_ids:
        touches.tell(request.group_id, request.agent_id, node_ids, at)
    if access.touch(node_ids, at):
        current_app.send_task("access.flush", queue="upkeep", countdown=get_settings().access_flush_seconds)


def _group(text: str, found: Found, described: dict[UUID, dict[str, Any]]) -> FocalAnswer:
    if not found.ranked.kept.size:
        return _nothing(text, "no memory is as similar as asked", found.debug)
    nodes = [
        _node(int(position), int(row), found, described[node_id])
        for position, row, node_id in zip(found.ranked.best, found.best_rows, found.node_ids, strict=True)
        if node_id in described  # erased meanwhile
    ]
    return FocalAnswer(
        focal_text=text, status="ok", retrieved_nodes=nodes, accessed_ids=[node.node_id for node in nodes], debug=found.debug
    )


def _node(position: int, row: int, found: Found, described: dict[str, Any]) -> RetrievedNode:
    scores = found.ranked.scores
    return RetrievedNode.model_construct(
        **described,
        score=float(scores.total[position]),
        recency=_component(scores.recency, position),
        relevance=_component(scores.relevance, position),
        importance=_component(scores.importance, position),
        relevance_parts=_parts(found, position, row),
    )


def _parts(found: Found, position: int, row: int) -> RelevanceParts:
    measured = found.relevance
    if measured is None:
        return RelevanceParts.model_construct(dense=float(found.ranked.scores.relevance.raw[position]))
    names = ("dense", "lexical", "second_hop", "neighbours", "named")
    return RelevanceParts.model_construct(**{
        name: None if (values := getattr(measured, name)) is None else float(values[row]) for name in names
    })  # fmt: skip


def _component(component: Component, position: int) -> ScoreComponent:
    normalised = float(component.normalised[position])
    return ScoreComponent.model_construct(
        raw=float(component.raw[position]),
        normalised=normalised,
        weight=component.weight,
        contribution=normalised * component.weight,
    )


def _nothing(text: str, message: str, debug: Debug) -> FocalAnswer:
    return FocalAnswer(focal_text=text, status="no_candidates", message=message, debug=debug)


def _answer(groups: list[FocalAnswer]) -> dict[str, Any]:
    ok = any(group.status == "ok" for group in groups)
    answer = Answer(status="ok" if ok else "no_candidates", message="" if ok else groups[0].message, groups=groups)
    return answer.model_dump(mode="json")
