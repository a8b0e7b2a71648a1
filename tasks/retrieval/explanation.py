"""The answer to a retrieval: each memory found, with every component of its score."""

from __future__ import annotations

from typing import Any

import numpy as np

from engine.retrieval.ranking import Component
from jiyi.protocol.retrieval import Debug, FocalAnswer, RelevanceParts, Status
from models.retrieval.agent_index import AgentIndex
from models.retrieval.columns import Rows
from tasks.retrieval.question import ParsedQuestion
from tasks.retrieval.search import SearchResult, debug_of

NO_CANDIDATES = "no candidate memories for this agent"

_NO_PARTS: dict[str, float | None] = dict.fromkeys(RelevanceParts.model_fields)


def focal_answer(text: str, found: SearchResult, described: dict[int, dict[str, Any]]) -> dict[str, Any]:
    """The fields of a :class:`FocalAnswer`."""
    if not found.ranked.kept.size:
        return nothing_found(text, "no memory is as similar as asked", found.debug)
    if not found.best_rows.size:
        return nothing_found(text, "no memory is as likely to answer as asked", found.debug)
    nodes = _nodes(found, described)
    return {
        "focal_text": text,
        "status": "ok",
        "message": "",
        "retrieved_nodes": nodes,
        "accessed_ids": [node["node_id"] for node in nodes],
        "debug": found.debug,
    }


def _nodes(found: SearchResult, described: dict[int, dict[str, Any]]) -> list[dict[str, Any]]:
    """The fields of each :class:`RetrievedNode`, best first."""
    best, scores = found.ranked.best, found.ranked.scores
    explained = zip(
        found.best_rows.tolist(),
        scores.total[best].tolist(),
        _components(scores.recency, best),
        _components(scores.relevance, best),
        _components(scores.importance, best),
        _parts(found),
        strict=True,
    )
    return [
        {
            **described[row],
            "score": score,
            "recency": recency,
            "relevance": relevance,
            "importance": importance,
            "relevance_parts": parts,
            "replaced_by": found.replaced.get(row),
            "probability": found.probability.get(row),
            "reranked": found.reranked.get(row),
        }
        for row, score, recency, relevance, importance, parts in explained
        if row in described  # erased meanwhile
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


def without_candidates(asked: ParsedQuestion, index: AgentIndex) -> dict[str, Any]:
    debug = debug_of(asked, index, np.zeros(0, dtype=np.intp))
    return whole_answer([nothing_found(text, NO_CANDIDATES, debug) for text in asked.request.texts])


def of_unknown_agent(asked: ParsedQuestion, message: str) -> dict[str, Any]:
    """The answer that there is no such agent, which ``message`` says."""
    debug = Debug(mode=asked.weights.mode, relevance=asked.relevance, embedding_model=asked.model)
    return whole_answer([nothing_found(text, message, debug, "unknown_agent") for text in asked.request.texts])


def nothing_found(text: str, message: str, debug: Debug, status: Status = "no_candidates") -> dict[str, Any]:
    return FocalAnswer(focal_text=text, status=status, message=message, debug=debug).model_dump()


def whole_answer(groups: list[dict[str, Any]]) -> dict[str, Any]:
    ok = any(group["status"] == "ok" for group in groups)
    return {"status": "ok" if ok else groups[0]["status"], "message": "" if ok else groups[0]["message"], "groups": groups}
