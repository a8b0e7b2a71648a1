"""Reflection: an agent's latest memories become thoughts; so does a conversation that has ended."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Protocol
from uuid import UUID

from sqlalchemy import Connection

from engine import reflection
from engine.conversations.marks import live, local, marks_of
from engine.memory import source_of_llm
from engine.providers import llms
from engine.reflection import (
    RETRIEVED,
    MemoryStatement,
    Origin,
    ReflectionResult,
    Retrieve,
    Thought,
    events_of,
    is_due,
)
from engine.rules.provider import Rules
from jiyi.errors import EvidenceMissing
from jiyi.protocol.agents import AgentSettings, ResolvedSettings
from jiyi.protocol.retrieval import Filters, RetrievalRequest, ScoredMemory
from jiyi.settings import get_settings
from jiyi.zones import by_clock
from models.db.connection import after_commit, unit_of_work
from models.memory import agents
from models.memory.agents import AgentName, lock_agents
from models.memory.inbox import StoreResult, store
from models.queue import pending_work, stream
from models.queue.wakeups import wake_after
from models.reflection import reflections
from models.reflection.reflections import REFLECT, REFLECT_CONVERSATION, StartedReflection
from tasks.framework.jobs import Run, job
from tasks.framework.work import Batch, LeaseRenewingLLM, or_by_rules, with_llm, work_task
from tasks.memory import note_accesses
from tasks.retrieval.retrieve import retrieve

log = logging.getLogger(__name__)
#: Seconds. The claim is extended before questions, so that it may take longer than a lease: some thirty
#: answers.
REFLECTION_TIME_LIMIT = 900
#: What is taken from conversations is thought about, too; their turns are not.
SEEN = Filters(kinds=["memory", "preference", "knowledge", "experience"])
NOTHING_LATELY = "there are no memories to think about"
NOTHING_NEW = "nothing follows from them that no single memory says"
#: What subjects have agents look at.
LOOKS: list[LookKind] = []
#: Agents that one transaction of the job sees to, and one run, an hour: each asks the LLM some questions.
AGENTS_BATCH, MOST_A_RUN = 100, 500


class Look(Protocol):
    """What an agent looks at when it reflects, besides its memories."""

    @property
    def anything(self) -> bool:
        """Whether it has found anything."""
        ...

    def ask(self, llm: llms.LLM) -> list[Thought]:
        """What follows from it, outside of any transaction. Raises as ``llm`` does."""
        ...

    def finish(self, connection: Connection, begun: StartedReflection) -> bool:
        """Store what was found, under the agent's lock. Whether the agent is to reflect again at once."""
        ...


class LookKind(Protocol):
    """A kind of :class:`Look`, which a subject registers."""

    @property
    def triggers(self) -> Collection[str]:
        """Why agents reflect for its sake alone."""
        ...

    def begin(self, connection: Connection, name: AgentName, *, called_for: bool) -> Look | None:
        """None if the agent is not to look now."""
        ...

    def lock(self, connection: Connection, name: AgentName) -> None:
        """Lock what it changes: after the agent, before its reflections (:mod:`models.db.errors`)."""
        ...


class Superseded(Exception):  # noqa: N818 – its name says what happened
    """Another attempt at the same reflection has begun: this one was taken for dead, and leaves it alone."""


@dataclass(frozen=True, slots=True)
class Reflector:
    group_id: str
    agent_id: str
    settings: ResolvedSettings
    now: datetime

    @property
    def original(self) -> bool:
        return self.settings.mode == "stanford"

    def origin(self, begun: StartedReflection, model: str, session_id: str | None = None) -> Origin:
        return Origin(
            group_id=self.group_id,
            agent_id=self.agent_id,
            now=self.now,
            reflection_id=begun.reflection_id,
            llm=model,
            session_id=session_id,
        )


@work_task(REFLECT, batch=1, time_limit=with_llm(REFLECTION_TIME_LIMIT))
def reflect(batch: Batch) -> None:
    """Think about an agent's latest memories, and what else it looks at; store the thoughts, reset counters.

    The LLM is asked outside of any transaction. Safe to repeat because the thoughts, the counters, the
    reflection's end and the receipt are one transaction, which only the latest attempt gets to write; until
    then nothing is kept, not even that memories were accessed.
    """
    for agent_key in batch.subject_ids:
        with _ignoring_superseded():
            _reflect(batch, agent_key, LeaseRenewingLLM(llms.llm(), batch))


@work_task(REFLECT_CONVERSATION, batch=1, time_limit=with_llm(REFLECTION_TIME_LIMIT))
def reflect_on_conversation(batch: Batch) -> None:
    """Two thoughts about a conversation that has ended; the counters stay as they are.

    Safe to repeat for the same reasons as :func:`reflect`.
    """
    for event_id in batch.subject_ids:
        with _ignoring_superseded():
            _reflect_on_conversation(batch, event_id, LeaseRenewingLLM(llms.llm(), batch))


def _reflect(batch: Batch, agent_key: UUID, patient: LeaseRenewingLLM) -> None:
    with unit_of_work() as connection:
        name = agents.name_of(connection, agent_key)
        if name is not None:
            whose = Reflector(*name, _settings(connection, name), reflections.clock(connection, *name))
            begun = reflections.begin(connection, *name, patient.model)
            counters = agents.counters(connection, agent_key)
            called_for = [begun.trigger in kind.triggers for kind in LOOKS]
            only_looks = any(called_for) and not is_due(counters[0])
            begun_looks = [
                kind.begin(connection, name, called_for=called)
                for kind, called in zip(LOOKS, called_for, strict=True)
            ]
            looks = [look for look in begun_looks if look is not None]
            count = reflection.window(counters[1], original=whose.original)
            mode, statements = whose.settings.mode, list[MemoryStatement]()
            if not only_looks:
                statements = reflections.latest(connection, *name, count, mode=mode, now=whose.now)
    if name is None:  # erased since
        with batch.finish():
            return
    accessed: list[UUID] = []
    llm = llms.ForGroup(patient, whose.group_id)
    with _interrupted(begun):
        result, model = or_by_rules(llm, partial(_think, whose, statements, accessed))
        for look in looks:
            result.thoughts.extend(look.ask(llm if model == llm.model else Rules()))
        evidence = [node_id for thought in result.thoughts for node_id in thought.evidence]
        texts = [thought.description for thought in result.thoughts]
        with unit_of_work() as connection:
            users = reflections.private_users(connection, name[0], evidence)
            existing = reflections.already_thought(connection, *name, [] if whose.original else texts)
        thoughts = reflection.visible_thoughts(result.thoughts, users)
        new = [thought for thought in thoughts if (thought.description, thought.user_id) not in existing]
        result = ReflectionResult(result.focal_points, new)
        events = events_of(result.thoughts, whose.origin(begun, model))
    nothing = NOTHING_NEW if statements else NOTHING_LATELY
    if result.thoughts or any(look.anything for look in looks):
        nothing = ""
    with _finishing(batch, name, begun, result, nothing) as connection:
        saved = store(connection, events, source=source_of_llm(model))
        _notify(connection, *name, begun, saved)
        again = False
        for look in looks:
            again |= look.finish(connection, begun)
        if not only_looks:
            again |= agents.reflected(
                connection, *name, counters, whose.settings.importance_trigger_max, original=whose.original
            )
        if again:
            batch.again.append(agent_key)
            wake_after(connection, REFLECT)
    note_accesses(*name, list(dict.fromkeys(accessed)), whose.now.timestamp())


def _think(
    whose: Reflector, statements: Sequence[MemoryStatement], accessed: list[UUID], llm: llms.LLM
) -> ReflectionResult:
    """What follows from the statements, for each user by themselves."""
    result = ReflectionResult([], [])
    for user_id, of_user in reflection.by_user(statements).items():
        thought_of = reflection.reflect(
            whose.agent_id, of_user, llm, _retrieval(whose, user_id, accessed), original=whose.original
        )
        result.focal_points.extend(thought_of.focal_points)
        result.thoughts.extend(thought_of.thoughts)
    return result


def _reflect_on_conversation(batch: Batch, event_id: UUID, patient: LeaseRenewingLLM) -> None:
    with unit_of_work() as connection:
        ended = reflections.find_ended(connection, event_id)
        if ended is not None:
            name = (ended.group_id, ended.agent_id)
            whose = Reflector(*name, _settings(connection, name), ended.occurred_at)
            begun = reflections.begin_conversation(connection, event_id, *name, patient.model)
            transcript = reflections.load_transcript(connection, ended)
    if ended is None:
        with batch.finish():
            return
    llm = llms.ForGroup(patient, whose.group_id)
    with _interrupted(begun):
        if transcript.missing:  # they were named, so they are on their way
            raise EvidenceMissing(
                f"chat_ids: {', '.join(map(str, transcript.missing))}: no such chat of the agent (yet)"
            )
        thoughts: list[Thought] = []
        model = llm.model
        if transcript.utterances:
            conversation = (ended.agent_id, transcript.chat_ids, transcript.utterances)
            thoughts, model = or_by_rules(
                llm,
                lambda provider: reflection.reflect_on_conversation(
                    *conversation, provider, original=whose.original
                ),
            )
        with unit_of_work() as connection:
            users = reflections.private_users(connection, name[0], transcript.chat_ids)
        thoughts = reflection.visible_thoughts(thoughts, users)
        events = events_of(thoughts, whose.origin(begun, model, ended.session_id))
    nothing = "" if thoughts else transcript.nothing
    with _finishing(batch, name, begun, ReflectionResult([], thoughts), nothing) as connection:
        _notify(connection, *name, begun, store(connection, events, source=source_of_llm(model)))


def _notify(
    connection: Connection, group_id: str, agent_id: str, begun: StartedReflection, saved: StoreResult
) -> None:
    fields = {"agent": agent_id, "id": begun.reflection_id, "thoughts": len(saved.nodes)}
    after_commit(connection, partial(stream.publish, group_id, "reflection.done", **fields))


def _settings(connection: Connection, name: AgentName) -> ResolvedSettings:
    return (agents.agent_settings(connection, *name) or AgentSettings()).over(get_settings())


def _retrieval(whose: Reflector, user_id: str | None, accessed: list[UUID]) -> Retrieve:
    """Retrieval as for any question: all focal texts at once, so on one state of the memory."""
    zone = by_clock(None, whose.settings.tz).tzinfo

    def look_up(texts: list[str]) -> list[list[MemoryStatement]]:
        request = RetrievalRequest.model_construct(  # unchecked: the limits are those of clients
            group_id=whose.group_id,
            agent_id=whose.agent_id,
            user_id=user_id,
            queries=texts,
            top_k=RETRIEVED,
            now=whose.now,
            touch=False,
            filters=SEEN,
        )
        answer = retrieve(request)
        accessed.extend(node_id for group in answer.groups for node_id in group.accessed_ids)
        return [
            [
                MemoryStatement(
                    node.node_id, text, local(node.created_at, node.provenance, zone), node.type == "thought"
                )
                for node in group.retrieved_nodes
                if (text := _current_text(node, whose.now.astimezone(zone)))
            ]
            for group in answer.groups
        ]

    return look_up


def _current_text(node: ScoredMemory, now: datetime) -> str:
    """What a memory says that still is so; empty if that is nothing."""
    marks = marks_of(node.provenance, now.date())
    return live(node.description, marks) if marks else node.embedding_key


@contextmanager
def _interrupted(begun: StartedReflection) -> Iterator[None]:
    """What stops the reflection is noted with it, for those who look."""
    try:
        yield
    except Exception as error:
        with unit_of_work() as connection:
            reflections.interrupt(connection, begun, str(error))
        raise


@contextmanager
def _finishing(
    batch: Batch, name: AgentName, begun: StartedReflection, result: ReflectionResult, nothing: str
) -> Iterator[Connection]:
    """The transaction that ends the reflection. Raises :class:`Superseded` if this attempt was overtaken."""
    with batch.finish() as (connection, pending):
        if pending:
            lock_agents(connection, [name])
            for kind in LOOKS:
                kind.lock(connection, name)
        if not pending or not reflections.finish(
            connection,
            begun,
            focal_points=result.focal_points,
            thoughts=len(result.thoughts),
            nothing=nothing,
        ):
            raise Superseded(
                f"reflection {begun.reflection_id}, attempt {begun.attempt}: another attempt has begun since"
            )
        yield connection


@contextmanager
def _ignoring_superseded() -> Iterator[None]:
    try:
        yield
    except Superseded as error:  # the work is in other hands, and so is its receipt
        log.warning("%s", error)


@job("reflect")
def reflect_by_schedule(run: Run) -> None:
    """Let agents reflect that had new events last night, by the clocks of their time zones; of very many some
    an hour.

    Safe to repeat because an agent that was asked since that night is not found again.
    """
    count = 0

    def enqueue_some(connection: Connection) -> int:
        nonlocal count
        limit = min(AGENTS_BATCH, MOST_A_RUN - count)
        due = reflections.due_by_schedule(connection, run.group_id, run.now, limit)
        for agent_key, group_id, agent_id in due:
            reflections.ask(connection, group_id, agent_id, "schedule")
            pending_work.enqueue(connection, REFLECT, [(agent_key, group_id)])
        run.count(agents=len(due))
        count += len(due)
        return 0 if count >= MOST_A_RUN else len(due)

    run.repeat(enqueue_some, AGENTS_BATCH)
