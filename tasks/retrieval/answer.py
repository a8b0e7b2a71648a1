"""The last stations of a retrieval: a reranker's order, where one is set up, and the answer with every
component of the scores.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import numpy as np
from redis.client import Pipeline
from sqlalchemy import Connection

from engine.operations import seconds_left
from engine.providers import llms
from engine.retrieval import ordering
from engine.retrieval.ordering import MemoryView
from engine.retrieval.ranking import Component, Order, RankedCandidates
from engine.retrieval.relevance import Relevance
from jiyi.errors import RerankerUnavailable, SettingsError
from jiyi.protocol.retrieval import Debug, FocalAnswer, RelevanceParts, RetrievalRequest, Status
from jiyi.protocol.wire.calls import NOBODY
from models.db.actions import Actor
from models.memory.filters import left_out, with_left_out
from models.memory.reads import hidden_of
from models.operations import meters
from models.queue import stream
from models.retrieval import records
from models.retrieval.agent_index import AgentIndex
from models.retrieval.columns import Rows
from tasks.framework.answering import Then
from tasks.memory import note_accesses_with
from tasks.retrieval.question import ParsedQuestion

NO_CANDIDATES = "no candidate memories for this agent"
#: Seconds that reranking one retrieval may take before its order stays unchanged: somebody waits for the
#: answer.
SECONDS = 2.0
#: Of the time that is left for the whole answer reranking takes this share at most.
MOST_OF_TIME = 0.5


@dataclass(frozen=True, slots=True)
class Result:
    """What a focal text has found, best first."""

    #: The ranking; its ``best`` are those that are answered.
    ranked: RankedCandidates
    #: Rows of the index that these are.
    best_rows: Rows
    #: None in the original's mode.
    relevance: Relevance | None
    debug: Debug
    #: How many memories passed the filters that come before the scoring.
    candidates: int = 0
    #: Row → the newer memory that repeats it.
    replaced: Mapping[int, UUID] = field(default_factory=dict)
    #: Row → how likely it is to answer; empty where relevance is not ``hybrid``.
    probability: Mapping[int, float] = field(default_factory=dict)
    #: Row → the reranker's score; empty without one.
    reranked: Mapping[int, float] = field(default_factory=dict)

    def only(self, positions: Order, replaced: Mapping[int, UUID] | None = None) -> Result:
        """Of the best only these, by their places, in this order."""
        return replace(
            self,
            ranked=replace(self.ranked, best=self.ranked.best[positions]),
            best_rows=self.best_rows[positions],
            replaced=self.replaced if replaced is None else replaced,
            debug=self.debug.model_copy(update={"retrieved_count": int(positions.size)}),
        )


def focal_answer(text: str, result: Result, described: dict[int, dict[str, Any]]) -> dict[str, Any]:
    if not result.ranked.retained.size:
        without = {**result.debug.left_out, "min_similarity": result.candidates}
        return nothing_found(text, "no memory is as similar as asked", result.debug, without=without)
    if not result.best_rows.size:
        without = {**result.debug.left_out, "min_probability": int(result.ranked.retained.size)}
        return nothing_found(text, "no memory is as likely to answer as asked", result.debug, without=without)
    nodes = _nodes(result, described)
    return {
        "query": text,
        "status": "ok",
        "message": with_left_out("", result.debug.left_out),
        "retrieved_nodes": nodes,
        "accessed_ids": [node["node_id"] for node in nodes],
        "debug": result.debug,
    }


def _nodes(result: Result, described: dict[int, dict[str, Any]]) -> list[dict[str, Any]]:
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
    measured = zip(
        component.raw[best].tolist(),
        normalised.tolist(),
        (normalised * component.weight).tolist(),
        strict=True,
    )
    return [
        {"raw": raw, "normalised": stretched, "weight": component.weight, "contribution": contribution}
        for raw, stretched, contribution in measured
    ]


def _parts(result: Result) -> list[dict[str, float | None]]:
    if result.relevance is None:
        return [
            _NO_PARTS | {"dense": raw}
            for raw in result.ranked.scores.relevance.raw[result.ranked.best].tolist()
        ]
    measured = {name: getattr(result.relevance, name) for name in RelevanceParts.model_fields}
    columns = {
        name: values[result.best_rows].tolist() for name, values in measured.items() if values is not None
    }
    return [_NO_PARTS | dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def no_candidates(connection: Connection, question: ParsedQuestion, index: AgentIndex) -> dict[str, Any]:
    """The answer that there is nothing to choose from, and what the filters leave out."""
    request, debug = question.request, debug_of(question, index, np.zeros(0, dtype=np.intp))
    without = left_out(connection, request.group_id, request.agent_id, question.filter_values)
    message = (
        NO_CANDIDATES
        if request.user_id is None
        else f"{NO_CANDIDATES} that are visible to the user {request.user_id!r}"
    )
    return whole_answer([nothing_found(text, message, debug, without=without) for text in request.texts])


def unknown_agent(question: ParsedQuestion, message: str) -> dict[str, Any]:
    debug = Debug(mode=question.weights.mode, relevance=question.relevance, embedding_model=question.model)
    return whole_answer(
        [nothing_found(text, message, debug, "unknown_agent") for text in question.request.texts]
    )


def nothing_found(
    text: str,
    message: str,
    debug: Debug,
    status: Status = "no_candidates",
    without: Mapping[str, int] | None = None,
) -> dict[str, Any]:
    debug = debug.model_copy(update={"left_out": dict(without or {})})
    return FocalAnswer(
        query=text, status=status, message=with_left_out(message, debug.left_out), debug=debug
    ).model_dump()


def whole_answer(groups: list[dict[str, Any]]) -> dict[str, Any]:
    ok = any(group["status"] == "ok" for group in groups)
    return {"status": "ok" if ok else groups[0]["status"], "message": groups[0]["message"], "groups": groups}


def debug_of(question: ParsedQuestion, index: AgentIndex, rows: Rows, note: str = "") -> Debug:
    """Debug fields on how the candidates, ``rows`` of the index, were ranked."""
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


def reranked(
    question: ParsedQuestion, results: list[Result], described: Mapping[int, MemoryView]
) -> list[Result]:
    """The results in the reranker's order, cut to the number requested, within :data:`SECONDS`.

    ``described``: the memories by row.
    """
    remaining = seconds_left()
    until = time.monotonic() + (SECONDS if remaining is None else min(SECONDS, remaining * MOST_OF_TIME))
    reordered, why = [], ""
    for text, result in zip(question.request.texts, results, strict=True):
        scores: list[float] | None = None
        rows = [row for row in result.best_rows.tolist() if row in described][: llms.MOST_DOCUMENTS]
        if len(rows) > 1 and not why:
            try:
                scores = _scores(
                    question, text, [described[row].text for row in rows], until - time.monotonic()
                )
            except (RerankerUnavailable, SettingsError) as error:
                why = f"not reranked: {error}"
        note = "; ".join(part for part in (result.debug.note, why) if part)
        debug = result.debug.model_copy(
            update={"note": note, "reranker": llms.reranker().model if scores else ""}
        )
        order = (
            np.arange(result.best_rows.size) if scores is None else _order(result, rows, scores, described)
        )
        by_row = {} if scores is None else dict(zip(rows, scores, strict=True))
        reordered.append(replace(result, debug=debug, reranked=by_row).only(order[: question.request.top_k]))
    return reordered


def _scores(question: ParsedQuestion, text: str, documents: list[str], seconds: float) -> list[float]:
    if seconds <= 0:
        raise RerankerUnavailable("there was no time left for it")
    counted = {part.text for part in question.dialogue}
    query = (
        "\n".join(message.text for message in question.request.messages if message.text in counted) or text
    )
    return llms.reranker().relevance(query, documents, seconds)


def _order(
    result: Result, rows: list[int], scores: list[float], described: Mapping[int, MemoryView]
) -> Order:
    """What was reranked first, by its scores; still with the newer before the older and thoughts behind their
    evidence.
    """
    places = {row: place for place, row in enumerate(result.best_rows.tolist())}
    order = np.argsort(-np.array(scores), kind="stable")
    memories = [described[rows[place]] for place in order.tolist()]
    by_id = {memory.node_id: place for place, memory in enumerate(memories)}
    replaces = np.zeros((len(rows), len(rows)), dtype=bool)
    for place, at in enumerate(order.tolist()):
        newer = result.replaced.get(rows[at])
        if newer in by_id:
            replaces[by_id[newer], place] = True
    renewed, _ = ordering.in_order(memories, replaces)
    order = order[renewed]
    order = order[ordering.behind_evidence([described[rows[place]] for place in order.tolist()])]
    first = [places[rows[place]] for place in order.tolist()]
    rest = [place for place in places.values() if place not in set(first)]
    return np.array([*first, *rest], dtype=np.intp)


_NO_PARTS: dict[str, float | None] = dict.fromkeys(RelevanceParts.model_fields)


def leave_hidden_out(
    connection: Connection, request: RetrievalRequest, memories: Collection[dict[str, Any]]
) -> None:
    """What is shared may rest on what another user said in private, which is not even named."""
    shared = [fields for fields in memories if fields["filling"] and fields["user_id"] != request.user_id]
    entries = [entry for fields in shared for entry in fields["filling"]]
    hidden = hidden_of(connection, request.group_id, entries)
    for fields in shared if hidden else ():
        fields["filling"] = [entry for entry in fields["filling"] if entry not in hidden]


def result_of(
    rows: Rows,
    ranked: RankedCandidates,
    relevance: Relevance | None,
    debug: Debug,
    likely: Mapping[int, float] | None = None,
) -> Result:
    total = ranked.scores.total
    if total.size:
        scores = {
            "total_candidates": int(total.size),
            "min_score": float(total.min()),
            "max_score": float(total.max()),
        }
        debug = debug.model_copy(update=scores | {"retrieved_count": int(ranked.best.size)})
    best = rows[ranked.retained[ranked.best]]
    return Result(ranked, best, relevance, debug, int(rows.size), probability=likely or {})


def publish_answer(
    pipe: Pipeline, actor: Actor, request: RetrievalRequest, answer: dict[str, Any], seconds: float
) -> Then:
    """Publish the retrieval, record it if it has a caller, and note what it touches, all with the reply."""
    answered_at = datetime.now(UTC)
    meters.retrieved(seconds)
    count = sum(len(group["retrieved_nodes"]) for group in answer["groups"])
    live_event = {"agent": request.agent_id, "found": count, "ms": round(seconds * 1_000, 1)}
    stream.publish_many(pipe, [(request.group_id, "retrieval.answered", live_event)])
    if actor.name != NOBODY and answer["status"] != "unknown_agent":
        returned = [
            [(node["node_id"], node["score"]) for node in group["retrieved_nodes"]]
            for group in answer["groups"]
        ]
        options = records.options_of(request)
        records.note(pipe, actor, request.agent_id, request.texts, options, returned, seconds, answered_at)
    touched = {node["node_id"] for group in answer["groups"] for node in group["retrieved_nodes"]}
    if not touched or not request.touch or request.as_of is not None:
        return None
    at = (request.now or answered_at).timestamp()
    return note_accesses_with(pipe, request.group_id, request.agent_id, list(touched), at)
