"""What the benchmarks of retrieval quality share: memories in as events, questions out through the queue."""

from __future__ import annotations

import time
from argparse import ArgumentParser
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby
from typing import Any
from uuid import UUID

from rich.console import Console
from rich.progress import track
from sqlalchemy import text

from bench.support.ranking import Figures, figures, mean
from jiyi import Client
from jiyi.client.client import chunks
from jiyi.settings import AgentDefaults, RelevanceMode
from models.db.connection import unit_of_work
from models.db.scope import whole_service

RELEVANCES: tuple[RelevanceMode, ...] = ("hybrid", "dense", "lexical")
TOP_K = 30
#: Enough to keep a worker busy, and few enough that an answer's size stays ordinary.
TEXTS_A_REQUEST = 8
THREADS = 4
REQUEST_SECONDS = 300
EMBEDDING_SECONDS = 3_600
WAIT_CHUNK = 50
#: What is appraised and thought about memories takes seconds; hours would be a fault.
SETTLING_SECONDS = 1_800
SETTLING_PAUSE = 0.5


@dataclass(frozen=True)
class Variant:
    """How a benchmark's service is set up and asked."""

    name: str
    settings: dict[str, str]
    options: dict[str, Any]


#: A deployment's defaults, which are what a user gets: weights, appraisal, reflection, sessions, touches.
AS_SHIPPED = Variant(
    "as shipped",
    {"agent_defaults": f"importance_trigger_max={AgentDefaults().importance_trigger_max}"},
    {"top_k": TOP_K},
)
#: The ablation: nothing but relevance counts, nothing is thought, and no question changes what the next one
#: finds.
RELEVANCE_ONLY = Variant(
    "relevance only",
    {"agent_defaults": "derive_poignancy=off"},
    {"top_k": TOP_K, "recency_w": 0, "importance_w": 0, "touch": False},
)


@dataclass(frozen=True)
class Memory:
    """``key`` is what evidence names it by, within its agent."""

    key: str
    text: str
    occurred_at: datetime
    session_id: str | None = None
    subject: str | None = None
    provenance: dict[str, Any] = field(default_factory=dict)
    vector: bytes | None = None
    embedding_model: str | None = None


@dataclass(frozen=True)
class Question:
    """``messages`` are asked with instead of ``text`` where the query is a dialogue, one or more of the
    user's among them.
    """

    text: str
    evidence: AbstractSet[str]
    kind: str
    now: datetime | None = None
    messages: Sequence[dict[str, str]] = field(default=(), kw_only=True)


@dataclass(frozen=True)
class Agent:
    """One haystack, and the questions asked of it."""

    agent_id: str
    memories: Sequence[Memory]
    questions: Sequence[Question]


def observation(agent_id: str, memory: Memory) -> dict[str, Any]:
    """The arguments of ``Client.observe`` for one memory."""
    optional = {
        "session_id": memory.session_id,
        "subject": memory.subject,
        "vector": memory.vector,
        "embedding_model": memory.embedding_model,
    }
    return {
        "agent_id": agent_id,
        "description": memory.text,
        "occurred_at": memory.occurred_at,
        "provenance": memory.provenance,
    } | {name: value for name, value in optional.items() if value is not None}


def remember(client: Client, agents: Sequence[Agent], console: Console) -> dict[UUID, str]:
    """Publish all memories and wait until they are retrievable; returns each one's key by its id."""
    keys: dict[UUID, str] = {}
    for agent in agents:
        ids = client.observe_many(observation(agent.agent_id, memory) for memory in agent.memories)
        keys.update(zip(ids, (memory.key for memory in agent.memories), strict=True))
    waiting = list(chunks(keys, WAIT_CHUNK))
    for ids in track(waiting, description=f"remembering {len(keys):,}", console=console):
        client.wait_for(ids, EMBEDDING_SECONDS)
    settle()
    return keys


def settle() -> None:
    """Return when nothing is owed any more: memories appraised, added up and thought about. Steps of sessions
    that go on wait on.

    Raises:
        TimeoutError: something is still owed after ``SETTLING_SECONDS``.
    """
    deadline = time.monotonic() + SETTLING_SECONDS
    while time.monotonic() < deadline:
        with whole_service(), unit_of_work() as connection:
            owed = connection.execute(_OWED).scalar_one()
        if not owed:
            return
        time.sleep(SETTLING_PAUSE)
    raise TimeoutError(f"{owed} pieces of work are owed after {SETTLING_SECONDS} s")


def ask(
    client: Client,
    agents: Sequence[Agent],
    keys: dict[UUID, str],
    relevance: RelevanceMode,
    console: Console,
    variant: Variant,
) -> list[tuple[Question, list[str]]]:
    """Each question with the keys it retrieved, best first."""

    def answer(request: tuple[str, list[Question]]) -> list[tuple[Question, list[str]]]:
        agent_id, questions = request
        options = variant.options | {
            "now": questions[0].now,
            "timeout": REQUEST_SECONDS,
            "relevance": relevance,
        }
        if questions[0].messages:
            found = client.retrieve(agent_id, messages=questions[0].messages, **options)
        else:
            found = client.retrieve(agent_id, [question.text for question in questions], **options)
        # A memory of the service's own making is nobody's evidence, but takes its place.
        ranked = [[keys.get(node.node_id, "") for node in group.retrieved_nodes] for group in found.groups]
        return list(zip(questions, ranked, strict=True))

    requests = list(_requests(agents))
    with ThreadPoolExecutor(THREADS) as pool:
        answers = track(
            pool.map(answer, requests),
            description=f"asking ({relevance})",
            total=len(requests),
            console=console,
        )
        return [pair for pairs in answers for pair in pairs]


def by_kind(
    answers: Sequence[tuple[Question, list[str]]],
    recalls: Sequence[int],
    ndcgs: Sequence[int],
    order: Sequence[str] = (),
) -> dict[str, Figures]:
    """Means over all questions, and over each kind's, kinds in ``order`` first."""
    rows: dict[str, list[Figures]] = {}
    for question, ranked in answers:
        rows.setdefault(question.kind, []).append(figures(ranked, question.evidence, recalls, ndcgs))
    kinds = sorted(rows, key=[*order, *sorted(rows)].index)
    return {"overall": mean([row for group in rows.values() for row in group])} | {
        kind: mean(rows[kind]) for kind in kinds
    }


def add_variant(parser: ArgumentParser) -> None:
    """The switch to the ablation, the same for all benchmarks of quality."""
    parser.add_argument(
        "--relevance-only",
        dest="variant",
        action="store_const",
        const=RELEVANCE_ONLY,
        default=AS_SHIPPED,
        help="the ablation: recency and importance off, nothing appraised or thought, no touches",
    )


def _requests(agents: Sequence[Agent]) -> Iterator[tuple[str, list[Question]]]:
    """Questions of one agent at one time, a few at once: a request has one ``now``, and one dialogue."""
    for agent in agents:
        for (_, dialogue), same_time in groupby(
            agent.questions, key=lambda question: (question.now, bool(question.messages))
        ):
            for questions in chunks(same_time, 1 if dialogue else TEXTS_A_REQUEST):
                yield agent.agent_id, questions


_OWED = text("SELECT count(*) FROM pending_work WHERE kind <> 'compress' OR due_at <= clock_timestamp()")
