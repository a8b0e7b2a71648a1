"""What a workflow's nodes say is screened for working memory; and the tiers answer questions."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from uuid import UUID

from redis.client import Pipeline
from sqlalchemy import Connection

from engine.providers.embedders import embedder, embedder_of, query_vector
from engine.providers.llms import ForGroup, llm
from engine.providers.questions import Consistency
from engine.tiers.quarantine import Candidate, KnownEntry, Verdict, screen
from jiyi.errors import EmbeddingUnavailable, SettingsError, TextRefused
from jiyi.protocol.knowledge import UNVERIFIED, VERIFIED
from jiyi.protocol.tier_questions import MemoryAnswer, MemoryQuery
from jiyi.protocol.wire.vectors import Float32
from jiyi.settings import get_settings
from jiyi.text.words import content_digest, language_of
from models.db.actions import Actor
from models.db.connection import unit_of_work
from models.db.scope import within
from models.operations import meters
from models.operations.embedding_models import ActiveModel
from models.queue import pending_work
from models.queue.wakeups import wake
from models.tiers import actions, knowledge, quarantine, working
from models.tiers import query as memory
from models.tiers.knowledge import EMBED_KNOWLEDGE
from models.tiers.quarantine import INGRESS, Output
from models.tiers.working import Entry
from tasks.framework.answering import answers
from tasks.framework.embedding import embed_owed, in_use
from tasks.framework.jobs import Run, job
from tasks.framework.work import Batch, LeaseRenewingLLM, work_task

#: The kind of work of an entry that the LLM is to be asked about.
CONSISTENCY = "consistency"
INGRESS_BATCH = 64
#: Entries that the LLM is asked about in a row; an answer may take seconds.
CONSISTENCY_BATCH = 8
#: Entries noted as expired in one transaction.
EXPIRE_BATCH = 500


# Screening


@dataclass(slots=True)
class _Screened:
    """What came of a group's outputs."""

    accepted: list[Entry] = field(default_factory=list)
    refused: list[tuple[UUID, Verdict]] = field(default_factory=list)
    to_check: list[UUID] = field(default_factory=list)
    fallen_out: list[UUID] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Loaded:
    """A group's outputs, with the vectors of those that the other filters let through, by that model."""

    outputs: list[Output]
    model: str | None
    vectors: Mapping[UUID, Float32]


def _load(batches: list[Batch]) -> None:
    """Make the vectors of all groups' outputs in one call."""
    loaded: list[list[Output]] = []
    for batch in batches:
        with within(batch.scope), unit_of_work() as connection:
            loaded.append(quarantine.flagged(connection, quarantine.load(connection, batch.subject_ids)))
    with unit_of_work() as connection:
        model, vectors = _vectors(connection, [output for outputs in loaded for output in outputs])
    for batch, outputs in zip(batches, loaded, strict=True):
        own = {output.entry_id: vectors[key] for output in outputs if (key := (output.entry_id, output.group_id)) in vectors}
        batch.prepared = _Loaded(outputs, model, own)


@work_task(INGRESS, batch=INGRESS_BATCH, time_limit=90, prepare=_load)
def ingress(batch: Batch) -> None:
    """Let outputs into working memory, or note why not.

    Safe to repeat because an output that is in the list already is put in its own place, and the rows and the receipt are
    one transaction.
    """
    loaded: _Loaded = batch.prepared
    outputs, model, vectors = loaded.outputs, loaded.model, loaded.vectors
    done: dict[str, _Screened] = {}
    with batch.finish() as (connection, owed):
        mine = [output for output in outputs if output.entry_id in set(owed) and not output.deleted]
        for group_id in sorted({output.group_id for output in mine}):  # in one order: two workers wait, none for ever
            quarantine.lock_group(connection, group_id)
            there = quarantine.working_memory(connection, group_id)
            now = datetime.now(UTC)
            own = [output for output in mine if output.group_id == group_id]
            screened = done[group_id] = _screened(own, there, model, vectors, now)
            screened.fallen_out = working.push(group_id, screened.accepted)
            working.remove(group_id, [entry_id for entry_id, _ in screened.refused])  # let in under other rules or flags
            quarantine.accept(connection, group_id, screened.accepted, now)
            quarantine.reject(connection, group_id, screened.refused, now)
            left = [*screened.fallen_out, *(entry_id for entry_id, _ in screened.refused)]
            quarantine.mark_left(connection, group_id, left, now)
            pending_work.enqueue(connection, CONSISTENCY, [(entry_id, group_id) for entry_id in screened.to_check])
    for group_id, screened in done.items():
        _count(group_id, screened)
    if any(screened.to_check for screened in done.values()):
        wake(CONSISTENCY)


def _vectors(connection: Connection, outputs: Sequence[Output]) -> tuple[str | None, Mapping[tuple[UUID, str], Float32]]:
    """Vectors of the outputs that the other filters let through. Without an embedder only equal texts are refused."""
    wanted = [output for output in outputs if screen(_candidate(output, None), quarantine.rules()).accepted]
    if not wanted:
        return None, {}
    try:
        engine, _ = in_use(connection)
        vectors = engine.passages([output.content for output in wanted])
    except (EmbeddingUnavailable, TextRefused, SettingsError):
        return None, {}
    return engine.model, {(output.entry_id, output.group_id): vector for output, vector in zip(wanted, vectors, strict=True)}


def _screened(
    outputs: Sequence[Output], there: Sequence[Entry], model: str | None, vectors: Mapping[UUID, Float32], now: datetime
) -> _Screened:
    """Oldest first, each against what is there and what was let in before it."""
    result, rules, until = _Screened(), quarantine.rules(), now + quarantine.lifetime()
    ours = {output.entry_id for output in outputs}
    known = [_known(entry, model) for entry in there if entry.entry_id not in ours]
    for output in outputs:
        vector = vectors.get(output.entry_id)
        verdict = screen(_candidate(output, vector), rules, known, model)
        if not verdict.accepted:
            result.refused.append((output.entry_id, verdict))
            continue
        entry = output.entry(until, verdict.flags, vector, model)
        known.append(_known(entry, model))
        result.accepted.append(entry)
        if verdict.needs_check:
            result.to_check.append(output.entry_id)
    return result


def _candidate(output: Output, vector: Float32 | None) -> Candidate:
    return Candidate(output.content, output.confidence, output.flags, vector)


def _known(entry: Entry, model: str | None) -> KnownEntry:
    return KnownEntry(str(entry.entry_id), content_digest(entry.content), entry.vector if entry.model == model else None)


def _count(group_id: str, screened: _Screened) -> None:
    reasons = Counter(f"rejected_{verdict.reason}" for _, verdict in screened.refused)
    actions.screened(
        group_id,
        [entry.entry_id for entry in screened.accepted],
        Counter(verdict.reason or "" for _, verdict in screened.refused),
        len(screened.fallen_out),
    )
    working.count(group_id, accepted=len(screened.accepted), rejected=len(screened.refused), fallen_out=len(screened.fallen_out), **reasons)


# The LLM's word


@work_task(CONSISTENCY, batch=CONSISTENCY_BATCH, time_limit=900)
def consistency(batch: Batch) -> None:
    """Ask the LLM whether outputs contradict themselves; those that do leave working memory.

    They stay in it, flagged as unverified, until it has answered, and if it cannot tell (fail-open).
    Safe to repeat because a verdict is written once, with the receipt, and a second one changes the same row.
    """
    with unit_of_work() as connection:
        outputs = quarantine.load(connection, batch.subject_ids)
    provider = LeaseRenewingLLM(llm(), batch)
    verdicts = {
        output.entry_id: ForGroup(provider, output.group_id)
        .ask(Consistency(agent_id=output.agent_id, language=language_of(output.content), text=output.content))
        .verdict
        for output in outputs
    }
    refused: dict[str, list[UUID]] = defaultdict(list)
    with batch.finish() as (connection, owed):
        now = datetime.now(UTC)
        for output in sorted((output for output in outputs if output.entry_id in set(owed)), key=lambda one: one.group_id):
            quarantine.lock_group(connection, output.group_id)
            if verdicts[output.entry_id] == "inconsistent":
                quarantine.mark_left(connection, output.group_id, [output.entry_id], now)
                verdict = Verdict("inconsistent", flags=tuple(output.flags))
                quarantine.reject(connection, output.group_id, [(output.entry_id, verdict)], now)
                working.remove(output.group_id, [output.entry_id])
                refused[output.group_id].append(output.entry_id)
            elif verdicts[output.entry_id] == "consistent":
                flags = [VERIFIED if flag == UNVERIFIED else flag for flag in output.flags]
                quarantine.set_flags(connection, output.group_id, output.entry_id, flags)
                working.flag(output.group_id, output.entry_id, flags)
    for group_id, gone in refused.items():
        actions.screened(group_id, [], Counter(inconsistent=len(gone)), 0)
        working.count(group_id, rejected=len(gone), rejected_inconsistent=len(gone))


# Expiry


@job("expire_working_memory")
def expire_working_memory(run: Run) -> None:
    """Note entries of working memory whose time is over, and take them out.

    Safe to repeat because what is noted is not found again, and what was noted but not taken out is passed over by readers.
    """

    def step(connection: Connection) -> int:
        expired = quarantine.expired(connection, run.now, EXPIRE_BATCH)
        for group_id in sorted(expired):
            ids = expired[group_id]
            if not run.dry:
                quarantine.lock_group(connection, group_id)
                quarantine.mark_left(connection, group_id, ids, run.now)
                working.remove(group_id, ids)
                working.count(group_id, expired=len(ids))
            run.count(groups=1, entries=len(ids))
        total = sum(map(len, expired.values()))
        return 0 if run.dry else total

    run.repeat(step, EXPIRE_BATCH)


# Answers


def _tell(_pipe: Pipeline, _actor: Actor, _query: MemoryQuery, _answer: MemoryAnswer, seconds: float) -> None:
    meters.retrieved(seconds)


@answers("retrieval.memory", MemoryQuery, scope="read", tell=_tell)
def query_memory(query: MemoryQuery) -> MemoryAnswer:
    """Safe to repeat because it changes nothing."""
    memory.throttle(query.group_id)
    return memory.query_memory(query, embed_query)


def embed_query(used: ActiveModel | None, text: str) -> tuple[str, Float32]:
    """The model in use (None: the setting's), and a question's vector by it."""
    engine = embedder() if used is None else embedder_of(used.spec)
    return engine.model, query_vector(engine, text)


@work_task(EMBED_KNOWLEDGE, batch=get_settings().embed_batch, time_limit=90)
def embed_knowledge(batch: Batch) -> None:
    """Embed pieces of knowledge that have no vector of the model in use.

    Safe to repeat because a piece that has its vector is passed over, and one whose words have changed meanwhile is
    embedded again.
    """
    embed_owed(batch, knowledge)
