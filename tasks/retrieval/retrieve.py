"""Retrieval, a straight line: question → candidates → relevance → ranking → order → answer. What is returned
counts as accessed.

Every station is a module, called once, from top to bottom; what goes on to the next is plain values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sqlalchemy import Connection

from engine.heads.local import heads
from engine.operations import check_deadline
from engine.retrieval import ordering, ranking
from engine.retrieval.ordering import MemoryView
from engine.retrieval.relevance import Relevance, Words, measure, probabilities
from jiyi import tracing
from jiyi.protocol.agents import AgentSettings
from jiyi.protocol.retrieval import Answer, RetrievalRequest
from models.db.connection import reading
from models.memory import agents
from models.memory.agents import AgentRecord
from models.retrieval import agent_index, index_cache, index_rows, large_agents
from models.retrieval.agent_index import AgentIndex, IndexKey
from models.retrieval.columns import NO_ROWS, Rows
from models.retrieval.index_rows import IndexScope
from tasks.framework.answering import answers
from tasks.retrieval.answer import (
    Result,
    debug_of,
    focal_answer,
    leave_hidden_out,
    no_candidates,
    publish_answer,
    reranked,
    result_of,
    unknown_agent,
    whole_answer,
)
from tasks.retrieval.question import ParsedQuestion, embed, focal_vectors, parse, searches

#: Up to so many memories of a large agent that are visible to a user are indexed in memory: some 40 MB.
MOST_VISIBLE = 20_000


def retrieve(request: RetrievalRequest) -> Answer:
    """What :func:`answer` gives, as the :class:`Answer` that a client makes of it. Nothing is touched."""
    return Answer.model_validate(answer(request))


@dataclass(slots=True)
class SearchOutcome:
    #: Of each focal text; empty without candidates, of which ``nothing`` is the answer.
    results: list[Result] = field(default_factory=list)
    nothing: dict[str, Any] | None = None
    #: Row → its fields in the answer, and what its place depends on.
    fields: dict[int, dict[str, Any]] = field(default_factory=dict)
    described: dict[int, MemoryView] = field(default_factory=dict)


@answers("retrieval.retrieve", RetrievalRequest, scope="read", on_reply=publish_answer)
def answer(request: RetrievalRequest) -> dict[str, Any]:
    """Answer a :class:`RetrievalRequest` with all fields of an :class:`Answer`, plain values.

    Accesses are noted with the reply (:func:`publish_answer`). Safe to repeat because access times only move
    forward.
    """
    with reading() as connection:
        agent = agents.find_agents(connection, request.group_id, request.agent_id)
        if agent is None:
            return _unknown_agent(connection, request)
        question = parse(request, agent)
        search = SearchOutcome() if question.missing else _search(connection, question, agent)
    if question.missing:  # an embedder may take its time: no connection and no lock waits for it
        question = embed(question)
        with reading() as connection:  # an erasure in the meantime makes another agent of it
            agent = agents.find_agents(connection, request.group_id, request.agent_id)
            if agent is None:
                return _unknown_agent(connection, request)
            search = _search(connection, question, agent)
    if search.nothing is not None:
        return search.nothing
    # May take its time, too.
    results = reranked(question, search.results, search.described) if question.reranks else search.results
    returned = {row for result in results for row in result.best_rows.tolist()}
    nodes = {row: fields for row, fields in search.fields.items() if row in returned}
    index_cache.make_room()
    index_cache.report()
    return whole_answer(
        [focal_answer(text, result, nodes) for text, result in zip(request.texts, results, strict=True)]
    )


def _unknown_agent(connection: Connection, request: RetrievalRequest) -> dict[str, Any]:
    message = agents.why_unknown(connection, request.group_id, request.agent_id)
    return unknown_agent(parse(request, AgentRecord(AgentSettings())), message)


def _search(connection: Connection, question: ParsedQuestion, agent: AgentRecord) -> SearchOutcome:
    with tracing.part("search"), candidates(connection, question, agent) as index:
        filter_values = question.filter_values
        rows = index.select(filter_values)
        if not rows.size:  # before the focal vectors are looked at, as the original does
            return SearchOutcome(nothing=no_candidates(connection, question, index))
        results = best_of(question, index, rows, index.superseded(filter_values))
        fields, described = agent_index.describe(
            connection, index, np.concatenate([result.best_rows for result in results])
        )
        leave_hidden_out(connection, question.request, fields.values())
        if question.request.newer_first and not question.original:
            texts = question.request.texts
            results = [
                _in_order(question, text, result, index, described)
                for text, result in zip(texts, results, strict=True)
            ]
        return SearchOutcome(results, None, fields, described)


@contextmanager
def candidates(connection: Connection, question: ParsedQuestion, agent: AgentRecord) -> Iterator[AgentIndex]:
    """The agent's memories visible to the user; of a large agent those that may be the best. The original
    needs all.
    """
    request = question.request
    archived = request.filters.include_archived
    key = IndexKey(
        request.group_id, request.agent_id, question.model, question.dimensions, archived, request.user_id
    )
    if agent.large and not question.original and not _fits(connection, key):
        yield likely_best(connection, question, agent)
        return
    if (past := question.past) is not None:  # kept for nobody else
        index = AgentIndex(key)
        index.load_past(connection, agent.node_count, past)
        yield index
        return
    index = index_cache.index_of(key)
    with index.lock:
        index.reset_if_stale(agent.identity)
        index.refresh(connection, agent)
        yield index
    index_cache.used(index)


def _fits(connection: Connection, key: IndexKey) -> bool:
    """Whether few enough memories of a large agent are visible to the user for an index in memory."""
    if key.user_id is None:
        return False
    return index_cache.has(key) or index_rows.few_visible(
        connection, IndexScope(key.group_id, key.agent_id, key.model, key.user_id), MOST_VISIBLE
    )


def likely_best(connection: Connection, question: ParsedQuestion, agent: AgentRecord) -> AgentIndex:
    request, conditions = question.request, question.filter_values
    key = IndexKey(
        request.group_id, request.agent_id, question.model, question.dimensions, user_id=request.user_id
    )
    parts, count = list(searches(question)), agent.node_count
    return large_agents.candidates(connection, key, count, conditions, parts, request.top_k, question.past)


def best_of(
    question: ParsedQuestion, index: AgentIndex, rows: Rows, superseded: Rows = NO_ROWS
) -> list[Result]:
    """The best of ``rows`` for each focal text; those of ``superseded`` that match are counted."""
    vectors, note = focal_vectors(question, index.models, index.sizes, index.vectors.shape[1])
    debug = debug_of(question, index, rows, note)
    pool = index.candidates(rows, with_vectors=question.original)
    now, filters = question.now.timestamp(), question.request.filters
    if question.original:
        nothing = np.zeros(index.vectors.shape[1], dtype=np.float32)  # similar to none
        query_vectors = [nothing if vector is None else vector for vector in vectors]
        top_k = question.request.top_k
        rankings = ranking.rank_in_turn(
            pool, query_vectors, question.weights, top_k=top_k, now=now, min_similarity=filters.min_similarity
        )
        return [result_of(rows, ranked, None, debug) for ranked in rankings]
    order = index.access_order(rows)
    results = []
    for text, vector in zip(question.request.texts, vectors, strict=True):
        check_deadline()
        words = question.words(text)
        relevance, cosine = measure(
            index.corpus(),
            question.relevance,
            text,
            words,
            vector,
            question.sentence_vectors(text, vector),
            question.now,
            dialogue=question.dialogue,
            with_neighbours=question.request.neighbours,
        )
        least = filters.min_similarity
        eligible = (
            np.arange(rows.size) if least is None or cosine is None else np.flatnonzero(cosine[rows] >= least)
        )
        total = relevance.total if rows.size == index.size else relevance.total[rows]
        ranked = ranking.rank_by(
            pool, total, eligible, question.weights, top_k=question.candidate_count, now=now, order=order
        )
        likely = _probability(question, words, index, relevance, rows[ranked.retained[ranked.best]])
        ranked = ranking.only_likely(ranked, likely, rows, question.request.min_probability)
        if question.request.diversity:
            ranked = ranking.only_diverse(
                ranked, index.vectors, rows, question.request.top_k, question.request.diversity
            )
        best_rows = rows[ranked.retained[ranked.best]]
        words_only = debug if vector is not None else debug.model_copy(update={"relevance": "lexical"})
        if count := _superseded(question, words, index, relevance, superseded, best_rows):
            words_only = words_only.model_copy(update={"left_out": {"superseded": count}})
        results.append(result_of(rows, ranked, relevance, words_only, likely))
    return results


def _probability(
    question: ParsedQuestion, words: Words, index: AgentIndex, relevance: Relevance, best: Rows
) -> dict[int, float]:
    """How likely each of the best rows is to answer; nothing where that was not calibrated."""
    if question.relevance != "hybrid" or not best.size:
        return {}
    likely = probabilities(index.corpus(), relevance, words, best, question.model)
    return dict(zip(best.tolist(), likely.tolist(), strict=True))


def _superseded(
    question: ParsedQuestion, words: Words, index: AgentIndex, relevance: Relevance, rows: Rows, matches: Rows
) -> int:
    """How many superseded ``rows`` would stand among those that were found, were they not left out."""
    if matches.size >= question.request.top_k:
        rows = rows[relevance.total[rows] >= relevance.total[matches].min()]
    least = question.request.min_probability
    if not least:
        return int(rows.size)
    return sum(likely >= least for likely in _probability(question, words, index, relevance, rows).values())


def _in_order(
    question: ParsedQuestion,
    text: str,
    result: Result,
    index: AgentIndex,
    described: Mapping[int, MemoryView],
) -> Result:
    """The newer before the older and thoughts behind their evidence, cut to the number requested."""
    # Erased meanwhile: not described, and nothing in the answer.
    there = np.flatnonzero([row in described for row in result.best_rows.tolist()])
    there, rest = there[: ordering.MOST_COMPARED], there[ordering.MOST_COMPARED :]
    rows = result.best_rows[there]
    memories = [described[row] for row in rows.tolist()]
    order, replaced_by = ordering.order(
        text,
        memories,
        lambda: index.corpus().similarity_matrix(rows),
        lambda: ordering.above_ordinary(result.ranked.scores.relevance.normalised, result.ranked.best)[there],
        heads,
        np.array([result.probability[row] for row in rows.tolist()]) if result.probability else None,
    )
    positions = np.concatenate([there[order], rest])[: question.result_count]
    in_answer = set(result.best_rows[positions].tolist())
    replaced = {
        int(rows[older]): memories[newer].node_id
        for older, newer in replaced_by.items()
        if int(rows[newer]) in in_answer
    }
    return result.only(positions, replaced)
