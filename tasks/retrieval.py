"""Retrieval: candidates → scores → the best, explained; what was returned counts as accessed."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import numpy as np
from celery import current_app

from jiyi.agents import AgentSettings
from jiyi.embedders import embedder
from jiyi.errors import ModelMismatch
from jiyi.requests import Answer, Debug, FocalAnswer, RetrievalRequest, RetrievedNode, ScoreComponent
from jiyi.retrieval import Ranked, Weights, rank_in_turn
from jiyi.scoring import Component
from jiyi.settings import get_settings
from jiyi.vectors import Float32, to_array
from models import access, agents, candidates
from models.base import unit_of_work
from models.candidates import Found
from tasks.answering import answers

NO_CANDIDATES = "no candidate memories for this agent"


@answers("retrieval.retrieve", RetrievalRequest)
def retrieve(request: RetrievalRequest) -> dict[str, Any]:
    """Answer a :class:`RetrievalRequest` with an :class:`Answer`.

    Safe to repeat because reading changes nothing but access times, which only move forward.
    """
    now = request.now or datetime.now(UTC)
    with unit_of_work() as connection:
        own = agents.agent_settings(connection, request.group_id, request.agent_id)
        weights = resolve(request, own or AgentSettings())
        model = request.embedding_model or embedder().model
        found = candidates.find(
            connection, request.group_id, request.agent_id, request.filters, mode=weights.mode, model=model, now=now
        )
        if not found.node_ids:  # before the focal vectors are looked at, as GA-34 has it
            return _no_candidates(request, weights, model)
        queries = _queries(request, found, model)
        ranked = rank_in_turn(
            found.candidates, queries, weights, top_k=request.top_k, now=now.timestamp(),
            min_similarity=request.filters.min_similarity,
        )  # fmt: skip
        wanted = {found.node_ids[position] for one in ranked for position in one.kept[one.best]}
        described = candidates.describe(connection, request.group_id, list(wanted))
    groups = [
        _group(text, one, found, described, weights, model) for text, one in zip(request.focal_texts, ranked, strict=True)
    ]
    if request.touch and access.touch(list(wanted), now.timestamp()):
        current_app.send_task("access.flush", queue="upkeep", countdown=get_settings().access_flush_seconds)
    return _answer(groups)


def resolve(request: RetrievalRequest, own: AgentSettings) -> Weights:
    """The request's settings, over the agent's, over the deployment's (GA-36)."""
    fallback = own.over(get_settings())

    def pick(name: str) -> Any:
        given = getattr(request, name)
        return getattr(fallback, name) if given is None else given

    return Weights(
        mode=pick("mode"), recency=pick("recency_w"), relevance=pick("relevance_w"), importance=pick("importance_w"),
        decay=pick("recency_decay"),
    )  # fmt: skip


def _queries(request: RetrievalRequest, found: Found, model: str) -> list[Float32]:
    if not found.comparable:
        raise ModelMismatch(
            f"the agent's memories are embedded with {', '.join(found.models)}, the question with {model}: "
            "give vectors and embedding_model with the request, or embed the memories anew"
        )
    if request.vectors is None:
        return [embedder().query(text) for text in request.focal_texts]
    return [to_array(vector) for vector in request.vectors]


def _group(
    text: str, ranked: Ranked, found: Found, described: dict[UUID, dict[str, Any]], weights: Weights, model: str
) -> FocalAnswer:
    debug = Debug(mode=weights.mode, embedding_model=model, without_comparable_vector=len(found.node_ids) - found.comparable)
    if not ranked.kept.size:
        return FocalAnswer(focal_text=text, status="no_candidates", message="no memory is as similar as asked", debug=debug)
    nodes = [_node(int(position), ranked, found, described) for position in ranked.best]
    total = ranked.scores.total
    return FocalAnswer(
        focal_text=text, status="ok", retrieved_nodes=nodes, accessed_ids=[node.node_id for node in nodes],
        debug=debug.model_copy(update={
            "total_candidates": int(total.size), "retrieved_count": len(nodes),
            "min_score": float(total.min()), "max_score": float(total.max()),
        }),
    )  # fmt: skip


def _node(position: int, ranked: Ranked, found: Found, described: dict[UUID, dict[str, Any]]) -> RetrievedNode:
    scores = ranked.scores
    return RetrievedNode.model_construct(
        **described[found.node_ids[int(ranked.kept[position])]],
        score=float(scores.total[position]),
        recency=_component(scores.recency, position),
        relevance=_component(scores.relevance, position),
        importance=_component(scores.importance, position),
    )


def _component(component: Component, position: int) -> ScoreComponent:
    return ScoreComponent.model_construct(
        raw=float(component.raw[position]),
        normalised=float(component.normalised[position]),
        weight=component.weight,
        contribution=float(np.float64(component.normalised[position]) * component.weight),
    )


def _no_candidates(request: RetrievalRequest, weights: Weights, model: str) -> dict[str, Any]:
    debug = Debug(mode=weights.mode, embedding_model=model)
    return _answer([
        FocalAnswer(focal_text=text, status="no_candidates", message=NO_CANDIDATES, debug=debug) for text in request.focal_texts
    ])  # fmt: skip


def _answer(groups: list[FocalAnswer]) -> dict[str, Any]:
    ok = any(group.status == "ok" for group in groups)
    answer = Answer(status="ok" if ok else "no_candidates", message="" if ok else groups[0].message, groups=groups)
    return answer.model_dump(mode="json")
