"""Agent indexes are kept ready in the retrieval workers; and whether a large agent's search still finds what an exact one would."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import mean, median
from typing import TypeVar
from uuid import UUID

from celery import current_app
from sqlalchemy import Connection
from uuid6 import uuid7

from jiyi.errors import NotFound
from jiyi.protocol.operations import RecallRequest
from jiyi.protocol.providers import RecallReport
from jiyi.protocol.retrieval import RetrievalRequest
from jiyi.protocol.wire.calls import NOBODY, retrieval_queue
from jiyi.settings import get_settings
from models.db.actions import Actor
from models.db.connection import reading
from models.memory import agents, reads
from models.memory.agents import AgentRecord
from models.operations.actions import check_recall
from models.queue.wakeups import service_headers
from models.retrieval import records
from models.retrieval.agent_index import AgentIndex, IndexKey
from tasks.framework.jobs import Run, job
from tasks.framework.rpc import implements
from tasks.retrieval.question import ParsedQuestion, embed, parse
from tasks.retrieval.retrieve import best_of, likely_best

T = TypeVar("T")
#: Agents whose indexes are kept ready.
WARM_AGENTS = 20
#: Of no meaning: what counts is that the index is brought up to date.
QUESTION = "warm"
#: Seconds; a worker that is so far behind has better things to do.
EXPIRES = 30


@implements(check_recall)
def recall(actor: Actor, query: RecallRequest) -> RecallReport:
    """Ask with the texts of some of the agent's own memories, both ways, and compare.

    All of its memories are read for it, once, beside the worker's own indexes. Safe to repeat because it only reads.
    """
    group_id = actor.group_id
    with reading() as connection:
        agent = agents.find_agents(connection, group_id, query.agent_id)
        if agent is None:
            raise NotFound(f"agent_id: no agent {query.agent_id!r} in the group {group_id!r}; see `jiyi agents`")
        if not agent.large:
            return RecallReport(large=False, memories=agent.node_count)
        texts = reads.some_texts(connection, group_id, query.agent_id, query.questions)
        asked = [_asked(group_id, query, agent, text) for text in texts]
        model, dimensions = (asked[0].model, asked[0].dimensions) if asked else ("", 0)
        everything = AgentIndex(IndexKey(group_id, query.agent_id, model, dimensions))
        everything.refresh(connection, agent)
        compared = [_compare(connection, question, agent, everything) for question in asked]
    shares = [comparison.recall for comparison in compared if comparison.recall is not None]
    return RecallReport(
        large=True,
        memories=agent.node_count,
        questions=len(asked),
        top_k=query.top_k,
        recall=mean(shares) if shares else None,
        worst=min(shares, default=None),
        short=sum(comparison.short for comparison in compared),
        exact_ms=median(comparison.exact_ms for comparison in compared) if compared else None,
        large_ms=median(comparison.large_ms for comparison in compared) if compared else None,
    )


@dataclass(frozen=True, slots=True)
class Compared:
    """One question, answered both ways."""

    #: Share of the exact answer that was found; None if there is none.
    recall: float | None
    short: bool
    exact_ms: float
    large_ms: float


def _compare(connection: Connection, asked: ParsedQuestion, agent: AgentRecord, everything: AgentIndex) -> Compared:
    exact, exact_ms = _timed(lambda: _best(asked, everything))
    approximate, large_ms = _timed(lambda: _best(asked, likely_best(connection, asked, agent)))
    share = len(set(approximate) & set(exact)) / len(exact) if exact else None
    return Compared(share, len(approximate) < len(exact), exact_ms, large_ms)


def _asked(group_id: str, query: RecallRequest, agent: AgentRecord, text: str) -> ParsedQuestion:
    request = RetrievalRequest(
        group_id=group_id, agent_id=query.agent_id, focal_texts=[text], top_k=query.top_k, mode="recent", touch=False
    )
    return embed(parse(request, agent))


def _best(asked: ParsedQuestion, index: AgentIndex) -> list[UUID]:
    rows = index.select(asked.wanted_memories)
    return [index.node_id(row) for row in best_of(asked, index, rows)[0].best_rows.tolist()] if rows.size else []


def _timed(action: Callable[[], T]) -> tuple[T, float]:
    """What it gives, and the milliseconds that it took."""
    begun = time.perf_counter()
    return action(), (time.perf_counter() - begun) * 1_000


@job("warm")
def warm(run: Run) -> None:
    """Have the indexes of the agents that were asked last brought up to date in a retrieval worker.

    Safe to repeat because nothing counts as accessed.
    """
    agents = records.asked_lately(WARM_AGENTS)
    run.summary["agents"] = len(agents)
    for group_id, agent_id in reversed(agents):  # the latest last: indexes make room for others in order of their use
        request = RetrievalRequest(
            group_id=group_id, agent_id=agent_id, focal_texts=[QUESTION], top_k=1, mode="recent", relevance="lexical", touch=False
        )
        options = {"actor": NOBODY}
        args = [str(uuid7()), request.model_dump(mode="json", exclude_none=True)]
        current_app.send_task(
            "retrieval.retrieve",
            args=args,
            kwargs=options,
            queue=retrieval_queue(group_id, agent_id, get_settings().retrieval_shards),
            expires=EXPIRES,
            retry=False,
            headers=service_headers("retrieval.retrieve", args, options),
        )
