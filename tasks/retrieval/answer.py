"""The last station of a retrieval: the answer, each memory with every component of its score."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

import numpy as np

from engine.retrieval.ranking import Component, Order, Ranked
from engine.retrieval.relevance import Relevance
from jiyi.protocol.retrieval import Debug, FocalAnswer, RelevanceParts, Status
from models.retrieval.agent_index import AgentIndex
from models.retrieval.columns import Rows
from tasks.retrieval.question import ParsedQuestion

NO_CANDIDATES = "no candidate memories for this agent"


@dataclass(frozen=True, slots=True)
class Result:
    """What a focal text has found, best first."""

    #: The ranking; its ``best`` are those that are answered.
    ranked: Ranked
    #: Rows of the index that these are.
    best_rows: Rows
    #: None in the original's mode.
    relevance: Relevance | None
    debug: Debug
    #: Row → the newer memory that says it anew.
    replaced: Mapping[int, UUID] = field(default_factory=dict)
    #: Row → how likely it is to answer; empty where relevance is not ``hybrid``.
    probability: Mapping[int, float] = field(default_factory=dict)
    #: Row → the reranker's score; empty without one.
    reranked: Mapping[int, float] = field(default_factory=dict)

    def only(self, kept: Order, replaced: Mapping[int, UUID] | None = None) -> Result:
        """Of the best only these, by their places, in this order."""
        return replace(
            self,
            ranked=replace(self.ranked, best=self.ranked.best[kept]),
            best_rows=self.best_rows[kept],
            replaced=self.replaced if replaced is None else replaced,
            debug=self.debug.model_copy(update={"retrieved_count": int(kept.size)}),
        )


_NO_PARTS: dict[str, float | None] = dict.fromkeys(RelevanceParts.model_fields)


def focal_answer(text: str, result: Result, described: dict[int, dict[str, Any]]) -> dict[str, Any]:
    """The fields of a :class:`FocalAnswer`."""
    if not result.ranked.kept.size:
        return nothing_found(text, "no memory is as similar as asked", result.debug)
    if not result.best_rows.size:
        return nothing_found(text, "no memory is as likely to answer as asked", result.debug)
    nodes = _nodes(result, described)
    return {
        "focal_text": text,
        "status": "ok",
        "message": "",
        "retrieved_nodes": nodes,
        "accessed_ids": [node["node_id"] for node in nodes],
        "debug": result.debug,
    }


def _nodes(result: Result, described: dict[int, dict[str, Any]]) -> list[dict[str, Any]]:
    """The fields of each :class:`RetrievedNode`, best first."""
    best, scores = result.ranked.best, result.ranked.scores
    explained = zip(
        result.best_rows.tolist(),
        scores.total[best].tolist(),
        _components(scores.recency, best),
        _components(scores.relevance, best),
        _components(scores.importance, best),
        _parts(result),
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
            "replaced_by": result.replaced.get(row),
            "probability": result.probability.get(row),
            "reranked": result.reranked.get(row),
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


def _parts(result: Result) -> list[dict[str, float | None]]:
    if result.relevance is None:
        return [_NO_PARTS | {"dense": raw} for raw in result.ranked.scores.relevance.raw[result.ranked.best].tolist()]
    measured = {name: getattr(result.relevance, name) for name in RelevanceParts.model_fields}
    columns = {name: values[result.best_rows].tolist() for name, values in measured.items() if values is not None}
    return [_NO_PARTS | dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def no_candidates(question: ParsedQuestion, index: AgentIndex) -> dict[str, Any]:
    """The answer that there is nothing to choose from."""
    debug = debug_of(question, index, np.zeros(0, dtype=np.intp))
    return whole_answer([nothing_found(text, NO_CANDIDATES, debug) for text in question.request.texts])


def unknown_agent(question: ParsedQuestion, message: str) -> dict[str, Any]:
    """The answer that there is no such agent, which ``message`` says."""
    debug = Debug(mode=question.weights.mode, relevance=question.relevance, embedding_model=question.model)
    return whole_answer([nothing_found(text, message, debug, "unknown_agent") for text in question.request.texts])


def nothing_found(text: str, message: str, debug: Debug, status: Status = "no_candidates") -> dict[str, Any]:
    return FocalAnswer(focal_text=text, status=status, message=message, debug=debug).model_dump()


def whole_answer(groups: list[dict[str, Any]]) -> dict[str, Any]:
    ok = any(group["status"] == "ok" for group in groups)
    return {"status": "ok" if ok else groups[0]["status"], "message": "" if ok else groups[0]["message"], "groups": groups}


def debug_of(question: ParsedQuestion, index: AgentIndex, rows: Rows, note: str = "") -> Debug:
    """What the candidates, ``rows`` of the index, have to tell of how they were ranked."""
    has_vector = index.columns["has_vector"]
    without = int(rows.size - np.count_nonzero(has_vector if rows.size == index.size else has_vector[rows]))
    return Debug(
        mode=question.weights.mode,
        relevance=question.relevance,
        embedding_model=question.model,
        note=note,
        without_comparable_vector=without,
        exact=index.complete,
    )
