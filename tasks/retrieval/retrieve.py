"""Retrieval: candidates → scores → the best, explained; what was returned counts as accessed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
from redis.client import Pipeline
from sqlalchemy import Connection

from engine.retrieval.ordering import Shown
from engine.retrieval.query import vector_of
from jiyi.protocol.agents import AgentSettings
from jiyi.protocol.retrieval import Answer, RetrievalRequest
from jiyi.protocol.wire.calls import NOBODY
from jiyi.protocol.wire.vectors import to_array
from jiyi.text.tokens import tokens
from models.db.actions import Actor
from models.db.connection import reading
from models.memory import agents
from models.memory.agents import AgentRecord
from models.operations import meters
from models.queue import stream
from models.retrieval import agent_index, index_cache, large_agents, records
from models.retrieval.agent_index import AgentIndex, IndexKey
from models.retrieval.large_agents import CandidateSearch
from tasks.framework.answering import Answered, answers
from tasks.memory.access import flush_soon, note_with
from tasks.retrieval.explanation import focal_answer, of_unknown_agent, whole_answer, without_candidates
from tasks.retrieval.question import ParsedQuestion, counted_sentences, embedded, resolve, with_remembered
from tasks.retrieval.reranking import reranked
from tasks.retrieval.search import SearchResult, find, newer_first, reranks


def _tell(pipe: Pipeline, actor: Actor, request: RetrievalRequest, answer: dict[str, Any], seconds: float) -> None:
    """Whoever watches the group learns of it, and it is noted unless nobody asked; no trip of its own."""
    meters.retrieved(seconds)
    found = sum(len(group["retrieved_nodes"]) for group in answer["groups"])
    told = {"agent": request.agent_id, "found": found, "ms": round(seconds * 1_000, 1)}
    stream.publish_many(pipe, [(request.group_id, "retrieval.answered", told)])
    if actor.name != NOBODY and answer["status"] != "unknown_agent":
        returned = [[(node["node_id"], node["score"]) for node in group["retrieved_nodes"]] for group in answer["groups"]]
        records.note(pipe, actor, request.agent_id, request.texts, records.options_of(request), returned, seconds)


def retrieve(request: RetrievalRequest) -> Answer | Answered:
    """What :func:`answer` gives, as the :class:`Answer` that a client makes of it: for tasks that need one themselves."""
    found = answer(request)
    if isinstance(found, Answered):
        return replace(found, value=Answer.model_validate(found.value))
    return Answer.model_validate(found)


@answers("retrieval.retrieve", RetrievalRequest, scope="read", tell=_tell)
def answer(request: RetrievalRequest) -> dict[str, Any] | Answered:
    """Answer a :class:`RetrievalRequest` with all fields of an :class:`Answer`; if it touches memories, with what that takes.

    They are plain values: whoever receives them validates them.
    Safe to repeat because reading changes nothing but access times, which only move forward.
    """
    with reading() as connection:
        agent = agents.find_agents(connection, request.group_id, request.agent_id)
        if agent is None:
            return _unknown_agent(connection, request)
        asked, texts = with_remembered(resolve(request, agent))
        if not texts:
            found, described, shown = _search(connection, asked, agent)
        elif not agent.large:
            with _index(connection, asked, agent) as index:
                if not index.select(request.filters, mode=asked.weights.mode, now=asked.now).size:
                    return without_candidates(asked, index)
    if texts:  # an embedder may take its time: no connection and no lock waits for it
        asked = embedded(asked, texts)
        with reading() as connection:  # an erasure in the meantime makes another agent of it
            agent = agents.find_agents(connection, request.group_id, request.agent_id)
            if agent is None:
                return _unknown_agent(connection, request)
            found, described, shown = _search(connection, asked, agent)
    if isinstance(found, dict):
        return found
    if reranks(asked):  # a reranker may take its time, too
        found = reranked(asked, found, shown)
    returned = {row for one in found for row in one.best_rows.tolist()}
    described = {row: fields for row, fields in described.items() if row in returned}
    touched = [fields["node_id"] for fields in described.values()]
    index_cache.make_room()
    index_cache.report()
    fields = whole_answer([focal_answer(text, one, described) for text, one in zip(request.texts, found, strict=True)])
    if not request.touch or not touched:
        return fields
    at = asked.now.timestamp()
    return Answered(
        fields,
        tell=lambda pipe: note_with(pipe, request.group_id, request.agent_id, touched, at),
        then=lambda answers: flush_soon(due=answers[-1]),
    )


def _unknown_agent(connection: Connection, request: RetrievalRequest) -> dict[str, Any]:
    message = agents.why_unknown(connection, request.group_id, request.agent_id)
    return of_unknown_agent(resolve(request, AgentRecord(AgentSettings())), message)


def _search(
    connection: Connection, asked: ParsedQuestion, agent: AgentRecord
) -> tuple[list[SearchResult] | dict[str, Any], dict[int, dict[str, Any]], dict[int, Shown]]:
    """What is found for each focal text, what is shown of it, and what its places depend on; or the answer that there are no candidates."""
    with _index(connection, asked, agent) as index:
        rows = index.select(asked.request.filters, mode=asked.weights.mode, now=asked.now)
        if not rows.size:  # before the focal vectors are looked at, as the original does
            return without_candidates(asked, index), {}, {}
        found = find(asked, index, rows)
        described, shown = agent_index.describe(connection, index, np.concatenate([one.best_rows for one in found]))
        texts = asked.request.texts
        return [newer_first(asked, text, one, index, shown) for text, one in zip(texts, found, strict=True)], described, shown


@contextmanager
def _index(connection: Connection, asked: ParsedQuestion, agent: AgentRecord) -> Iterator[AgentIndex]:
    """The agent's memories; of a large agent those that may be the best. The original's order needs them all."""
    request = asked.request
    if agent.large and asked.weights.mode != "stanford":
        yield likely_best(connection, asked, agent)
        return
    key = IndexKey(request.group_id, request.agent_id, asked.model, asked.dimensions, request.filters.include_archived)
    index = index_cache.index_of(key)
    with index.lock:
        index.reset_if_stale(agent.identity)
        index.refresh(connection, agent)
        yield index
    index_cache.used(index)


def likely_best(connection: Connection, asked: ParsedQuestion, agent: AgentRecord) -> AgentIndex:
    """An index of a large agent's likely best memories."""
    request = asked.request
    key = IndexKey(request.group_id, request.agent_id, asked.model, asked.dimensions)
    return large_agents.candidates(connection, key, agent.node_count, request.filters, list(_sought(asked)), asked.now, request.top_k)


def _sought(asked: ParsedQuestion) -> Iterator[CandidateSearch]:
    """The focal texts and their sentences, which also count by themselves, or the dialogue; without vectors if the embedder is away."""
    given = asked.request.vectors
    if asked.dialogue:
        vector = to_array(given[0]) if given is not None else vector_of(asked.dialogue, asked.vectors) if asked.vectors else None
        yield CandidateSearch(vector, [token for part in asked.dialogue for token in tokens(part.text)])
        return
    for place, text in enumerate(asked.request.texts):
        for part in [text, *counted_sentences(asked, text)]:
            vector = to_array(given[place]) if given is not None and part == text else asked.vectors.get(part)
            yield CandidateSearch(vector, tokens(part))
