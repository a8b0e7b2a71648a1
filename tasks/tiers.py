"""The three tiers: what nodes say is screened for working memory, questions are answered, and quarantines are
summed up.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from uuid import UUID

from redis.client import Pipeline
from sqlalchemy import Connection

from engine.conversations.trials import Careful
from engine.operations import DIGEST_HOURS
from engine.providers.embedder_specs import sized, texts_aside
from engine.providers.embedders import embedder, embedder_of, query_vector
from engine.providers.llms import LLM, ForGroup, llm
from engine.providers.questions import Consistency
from engine.providers.questions import Digest as Question
from engine.rules.provider import StandIn
from engine.tiers.answer import EXPERIENCES, GROUP_MEMORIES, council_sections
from engine.tiers.quarantine import (
    Cluster,
    IngressCandidate,
    KnownEntry,
    QuarantineDigest,
    Verdict,
    digest,
    screen,
)
from jiyi.errors import EmbeddingUnavailable, JiyiError, SettingsError, TextRefused
from jiyi.protocol import limits
from jiyi.protocol.conversations import ContextRequest
from jiyi.protocol.knowledge import DigestBody, DigestState
from jiyi.protocol.retrieval import Answer, Filters, RetrievalRequest
from jiyi.protocol.tier_questions import ContextAnswer, ContextBody, MemoryAnswer, MemoryQuery
from jiyi.protocol.wire.vectors import Float32
from jiyi.settings import get_settings
from jiyi.text.prompt import SEVERAL_SPEAKERS, Section, compose
from jiyi.text.words import content_digest, language_of
from jiyi.tiers.retrieval_node import HEADINGS, history_section
from jiyi.tiers.retrieval_node import UNVERIFIED as UNVERIFIED_NOTE
from models.db.actions import Actor
from models.db.connection import unit_of_work
from models.db.scope import for_groups, within
from models.memory.agents import AgentName
from models.operations import meters
from models.operations.embedding_models import ActiveModel
from models.queue import pending_work, stream
from models.tiers import actions, digests, knowledge, quarantine, questions, working
from models.tiers import query as memory
from models.tiers.digests import ClusterSummary
from models.tiers.knowledge import EMBED_KNOWLEDGE
from models.tiers.quarantine import INGRESS, QuarantinedOutput
from models.tiers.working import WorkingEntry
from tasks.conversations.injection import group_source
from tasks.framework.answering import answers
from tasks.framework.embedding import embed_pending, in_use
from tasks.framework.jobs import Run, job
from tasks.framework.rpc import implements
from tasks.framework.work import (
    TRANSIENT_ERRORS,
    Batch,
    LeaseRenewingLLM,
    answer_or_rules,
    with_llm,
    work_task,
)
from tasks.retrieval.retrieve import retrieve

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
    accepted: list[WorkingEntry] = field(default_factory=list)
    refused: list[tuple[UUID, Verdict]] = field(default_factory=list)
    to_check: list[UUID] = field(default_factory=list)
    fallen_out: list[UUID] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Loaded:
    """A group's outputs, with the vectors of those that the other filters let through, by that model."""

    outputs: list[QuarantinedOutput]
    model: str | None
    vectors: Mapping[UUID, Float32]


def _load(batches: list[Batch]) -> None:
    """Make the vectors of all groups' outputs in one call."""
    loaded: list[list[QuarantinedOutput]] = []
    for batch in batches:
        with within(batch.scope), unit_of_work() as connection:
            loaded.append(quarantine.flagged(connection, quarantine.load(connection, batch.subject_ids)))
    with unit_of_work() as connection:
        model, vectors = _vectors(connection, [output for outputs in loaded for output in outputs])
    for batch, outputs in zip(batches, loaded, strict=True):
        own = {
            output.entry_id: vectors[key]
            for output in outputs
            if (key := (output.entry_id, output.group_id)) in vectors
        }
        batch.prepared = _Loaded(outputs, model, own)


@work_task(INGRESS, batch=INGRESS_BATCH, time_limit=90, gives_way=True, prepare=_load)
def ingress(batch: Batch) -> None:
    """Let outputs into working memory, or note why not.

    Safe to repeat because an output that is in the list keeps its place, and rows and receipt are one
    transaction.
    """
    loaded: _Loaded = batch.prepared
    outputs, model, vectors = loaded.outputs, loaded.model, loaded.vectors
    screened_groups: dict[str, _Screened] = {}
    with batch.finish() as (connection, pending):
        mine = [output for output in outputs if output.entry_id in set(pending)]
        # In one order: two workers wait, none for ever.
        for group_id in sorted({output.group_id for output in mine}):
            quarantine.lock_group(connection, group_id)
            there = quarantine.working_memory(connection, group_id)
            now = datetime.now(UTC)
            own = quarantine.current(connection, [output for output in mine if output.group_id == group_id])
            screened = screened_groups[group_id] = _screened(own, there, model, vectors, now)
            screened.fallen_out = working.push(group_id, screened.accepted)
            # Let in under other rules or flags.
            working.remove(group_id, [entry_id for entry_id, _ in screened.refused])
            quarantine.accept(connection, group_id, screened.accepted, now)
            quarantine.reject(connection, group_id, screened.refused, now)
            removed_ids = [*screened.fallen_out, *(entry_id for entry_id, _ in screened.refused)]
            quarantine.mark_left(connection, group_id, removed_ids, now)
            pending_work.enqueue(
                connection, CONSISTENCY, [(entry_id, group_id) for entry_id in screened.to_check]
            )
    for group_id, screened in screened_groups.items():
        _count(group_id, screened)


def _vectors(
    connection: Connection, outputs: Sequence[QuarantinedOutput]
) -> tuple[str | None, Mapping[tuple[UUID, str], Float32]]:
    """Vectors of the outputs that the other filters let through; without an embedder none."""
    candidates = [
        output for output in outputs if screen(_candidate(output, None), quarantine.rules()).accepted
    ]
    if not candidates:
        return None, {}
    try:
        engine, _ = in_use(connection)
        vectors = engine.passages([output.content for output in candidates])
    except (EmbeddingUnavailable, TextRefused, SettingsError):
        return None, {}
    return engine.model, {
        (output.entry_id, output.group_id): vector for output, vector in zip(candidates, vectors, strict=True)
    }


def _screened(
    outputs: Sequence[QuarantinedOutput],
    there: Sequence[WorkingEntry],
    model: str | None,
    vectors: Mapping[UUID, Float32],
    now: datetime,
) -> _Screened:
    """Oldest first, each against what is there and what was let in before it."""
    result, rules, until = _Screened(), quarantine.rules(), now + quarantine.lifetime()
    ours = {output.entry_id for output in outputs}
    existing = [_known(entry, model) for entry in there if entry.entry_id not in ours]
    for output in outputs:
        vector = vectors.get(output.entry_id)
        verdict = screen(_candidate(output, vector), rules, existing, model)
        if not verdict.accepted:
            result.refused.append((output.entry_id, verdict))
            continue
        entry = output.entry(until, verdict.flags, vector, model)
        existing.append(_known(entry, model))
        result.accepted.append(entry)
        if verdict.needs_check:
            result.to_check.append(output.entry_id)
    return result


def _candidate(output: QuarantinedOutput, vector: Float32 | None) -> IngressCandidate:
    return IngressCandidate(output.content, output.confidence, output.flags, vector)


def _known(entry: WorkingEntry, model: str | None) -> KnownEntry:
    vector = entry.vector if entry.model == model else None
    return KnownEntry(str(entry.entry_id), content_digest(entry.content), vector)


def _count(group_id: str, screened: _Screened) -> None:
    accepted, fallen_out = [entry.entry_id for entry in screened.accepted], len(screened.fallen_out)
    reasons = Counter[str](verdict.reason or "" for _, verdict in screened.refused)
    actions.screened(group_id, accepted, reasons, fallen_out)
    counts = {f"rejected_{reason}": count for reason, count in reasons.items()}
    counts |= {"accepted": len(accepted), "rejected": len(screened.refused), "fallen_out": fallen_out}
    working.count(group_id, **counts)


# The LLM's word


@work_task(CONSISTENCY, batch=CONSISTENCY_BATCH, time_limit=with_llm(900))
def consistency(batch: Batch) -> None:
    """Ask the LLM whether outputs contradict themselves; those that do leave working memory.

    They stay in it, flagged as unverified, if it cannot decide (fail-open). Safe to repeat because a verdict
    is written once, with the receipt.
    """
    with unit_of_work() as connection:
        outputs = quarantine.load(connection, batch.subject_ids)
    provider = LeaseRenewingLLM(llm(), batch)
    verdicts = {}
    for output in outputs:
        content = output.content
        question = Consistency(agent_id=output.agent_id, language=language_of(content), text=content)
        answer, _ = answer_or_rules(ForGroup(provider, output.group_id), question)
        verdicts[output.entry_id] = answer.verdict
    refused: dict[str, list[UUID]] = defaultdict(list)
    with batch.finish() as (connection, pending):
        now = datetime.now(UTC)
        mine = [output for output in outputs if output.entry_id in set(pending)]
        for output in sorted(mine, key=lambda one: one.group_id):
            quarantine.lock_group(connection, output.group_id)
            if verdicts[output.entry_id] == "inconsistent":
                quarantine.mark_left(connection, output.group_id, [output.entry_id], now)
                verdict = Verdict("inconsistent", flags=tuple(output.flags))
                quarantine.reject(connection, output.group_id, [(output.entry_id, verdict)], now)
                working.remove(output.group_id, [output.entry_id])
                refused[output.group_id].append(output.entry_id)
            elif verdicts[output.entry_id] == "consistent":
                quarantine.mark_consistent(connection, output.group_id, output.entry_id)
    for group_id, gone in refused.items():
        actions.screened(group_id, [], Counter(inconsistent=len(gone)), 0)
        working.count(group_id, rejected=len(gone), rejected_inconsistent=len(gone))


# Expiry


@job("expire_working_memory")
def expire_working_memory(run: Run) -> None:
    """Note entries of working memory whose time is over, and take them out.

    Safe to repeat because what is noted is not found again, and readers pass it over.
    """

    def step(connection: Connection) -> int:
        expired = quarantine.expired(connection, run.now, EXPIRE_BATCH)
        for group_id in sorted(expired):
            ids = expired[group_id]
            quarantine.lock_group(connection, group_id)
            quarantine.mark_left(connection, group_id, ids, run.now)
            working.remove(group_id, ids)
            working.count(group_id, expired=len(ids))
            run.count(groups=1, entries=len(ids))
        return sum(map(len, expired.values()))

    run.repeat(step, EXPIRE_BATCH)


# Answers


def _measure(
    _pipe: Pipeline, _actor: Actor, _query: MemoryQuery, _answer: MemoryAnswer, seconds: float
) -> None:
    meters.retrieved(seconds)


@answers("retrieval.memory", MemoryQuery, scope="read", on_reply=_measure)
def query_memory(query: MemoryQuery) -> MemoryAnswer:
    """Safe to repeat because it changes nothing."""
    return memory.query_memory(query, embed_query)


def embed_query(used: ActiveModel | None, text: str) -> tuple[str, Float32]:
    """The model in use (None: the setting's), and a question's vector by it."""
    engine = embedder() if used is None else sized(embedder_of(used.spec), used.dimensions)
    return engine.model, query_vector(engine, text)


@work_task(EMBED_KNOWLEDGE, batch=texts_aside(get_settings()), time_limit=90, gives_way=True)
def embed_knowledge(batch: Batch) -> None:
    """Embed pieces of knowledge that have no vector of the model in use.

    Safe to repeat because a piece that has its vector is passed over.
    """
    embed_pending(batch, knowledge)


#: Tokens below which a prompt has nothing of a group.
LEAST_TOKENS = 40
#: Of a context's fields those that go with the question to the tiers.
ASKED = {
    "agent_id",
    "session_id",
    "order",
    "relevance_threshold",
    "time_range_days",
    "include_verdicts",
    "now",
}


@group_source
def known_to_group(name: AgentName, request: ContextRequest, most: int) -> list[Section]:
    """What the group's tiers know of a question, each with its mark; nothing for too few tokens."""
    if most < LEAST_TOKENS:
        return []
    query = request.query.strip()[: limits.MAX_FOCAL_CHARS]
    answer = memory.query_memory(
        MemoryQuery(group_id=name[0], agent_id=name[1], query=query, now=request.now), embed_query
    )
    language = language_of(query)
    return [history_section(answer.results, language, HEADINGS[language])]


@implements(questions.build_context)
def build(actor: Actor, request: ContextBody) -> ContextAnswer:
    """Safe to repeat because it changes nothing."""
    about = request.query or request.proposal.strip()[: limits.MAX_FOCAL_CHARS]
    query = MemoryQuery(
        group_id=actor.group_id, query=about, max_results=GROUP_MEMORIES, **request.model_dump(include=ASKED)
    )
    answer = memory.query_memory(query, embed_query)
    experiences = (
        [] if request.agent_id is None else _experiences(actor.group_id, request.agent_id, about, query.now)
    )
    language = language_of(about)
    sections = council_sections(
        system=request.system,
        persona=request.persona,
        memories=[item.content for item in answer.results],
        labels=[
            UNVERIFIED_NOTE[language].strip() if item.temporary and not item.verified else ""
            for item in answer.results
        ],
        experiences=experiences,
        proposal=request.proposal,
    )
    built = compose(sections, request.budget, SEVERAL_SPEAKERS[language])
    count = next(part.kept for part in built.parts if part.name == "memories")
    return ContextAnswer(
        text=built.text,
        tokens=built.tokens,
        budget=built.budget,
        parts=list(built.parts),
        memories=answer.results[:count],
        tiers=answer.tiers,
    )


def _experiences(group_id: str, agent_id: str, about: str, now: datetime | None) -> list[str]:
    request = RetrievalRequest(
        group_id=group_id,
        agent_id=agent_id,
        queries=[about],
        top_k=EXPERIENCES,
        now=now or datetime.now(UTC),
        touch=False,
        min_probability=get_settings().min_probability,
        filters=Filters(kinds=["experience"]),
    )
    answer = retrieve(request)
    assert isinstance(answer, Answer), "one focal text has one answer"
    return [node.description for node in answer.retrieved_nodes]


#: Statements of a cluster that the LLM is shown, and characters of each.
MAX_STATEMENTS, MAX_CHARS = 20, 1_000
#: A digest counts as this week's if it is younger than this share of the interval.
YOUNG = 0.5


@job("digest")
def digest_quarantine(run: Run) -> None:
    """Digest what came into each group's quarantine, for those who promote.

    Safe to repeat because a group that has a digest of this week is passed over.
    """
    every = timedelta(hours=DIGEST_HOURS)
    since, young = run.now - every, run.now - every * YOUNG
    after = str(run.place) if isinstance(run.place, str) else ""
    while True:
        with unit_of_work() as connection:
            groups = digests.groups(connection, since, young, after, run.group_id)
        for group_id in groups:
            with for_groups(group_id):
                _, items = make(group_id, since, run.now, run.actor)
            run.count(groups=1, items=items)
            after = group_id
            if run.time_is_up():
                run.summary["more"] = after
                return
        if not groups:
            return


def make(group_id: str, since: datetime, until: datetime, actor: str) -> tuple[UUID, int]:
    """Digest a span of time, in the scope of the group; the digest's id, and how many clusters it has."""
    with unit_of_work() as connection:
        entries, count = digests.entries(connection, group_id, since, until)
    clusters = digest(entries)
    summed = _summed(group_id, clusters)
    with unit_of_work() as connection:
        digest_id = digests.store(connection, group_id, since, until, count, clusters, summed, actor)
    stream.publish(group_id, "digest.ready", id=str(digest_id), items=len(summed))
    return digest_id, len(summed)


def _summed(group_id: str, overview: QuarantineDigest) -> list[ClusterSummary]:
    """Each cluster in words: the LLM's; of those that it gave none for, the rules'."""
    provider: LLM = Careful(llm())
    summed = []
    for cluster in overview.clusters:
        try:
            summed.append(_ask(provider, group_id, cluster))
        except TRANSIENT_ERRORS:
            provider = StandIn(provider.model)  # away for one is away for the rest
            summed.append(_ask(provider, group_id, cluster))
        except JiyiError:
            summed.append(_ask(StandIn(provider.model), group_id, cluster))
    return summed


def _ask(provider: LLM, group_id: str, cluster: Cluster) -> ClusterSummary:
    entries = cluster.entries[:MAX_STATEMENTS]
    question = Question(
        agent_id=group_id,
        language=language_of(entries[0].text),
        statements=[entry.text[:MAX_CHARS] for entry in entries],
    )
    answer = ForGroup(provider, group_id).ask(question)
    evidence = [UUID(entries[number].entry_id) for number in sorted(set(answer.evidence))]
    return ClusterSummary(cluster, answer.topic, answer.summary, evidence, provider.model)


@implements(actions.make_digest)
def make_now(actor: Actor, request: DigestBody) -> DigestState:
    """Safe to repeat because every digest is independent of the others."""
    until = datetime.now(UTC)
    digest_id, _ = make(actor.group_id, until - timedelta(days=request.days), until, actor.name)
    with unit_of_work() as connection:
        return digests.listed(connection, actor.group_id, digest_id)[0]
