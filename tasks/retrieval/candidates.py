"""The memories that may be returned: all in the agent's index; of a large agent the most likely."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection

from engine.retrieval.query import vector_of
from engine.times.past import MAX_SPANS, named_spans
from jiyi.protocol.wire.vectors import to_array
from jiyi.text.words import tokens
from models.memory.agents import AgentRecord
from models.retrieval import index_cache, index_rows, large_agents
from models.retrieval.agent_index import AgentIndex, IndexKey
from models.retrieval.index_rows import IndexScope
from models.retrieval.large_agents import CandidateSearch
from tasks.retrieval.question import ParsedQuestion

#: Up to so many memories of a large agent that are visible to a user are indexed in memory: some 40 MB.
MOST_VISIBLE = 20_000


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
    searches, count = list(_searches(question)), agent.node_count
    return large_agents.candidates(connection, key, count, conditions, searches, request.top_k, question.past)


def _searches(question: ParsedQuestion) -> Iterator[CandidateSearch]:
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
