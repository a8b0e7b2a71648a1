"""Evolution: steps become trajectories, experiences skills, trajectories workflows, votes trust."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial

from sqlalchemy import Connection

from engine.growth import skills
from engine.growth.questions import SkillDraft
from engine.growth.skills import ArtifactPattern, GateReport, KnownArtifact, SkillCandidate, is_due
from engine.growth.skills import aggregate as aggregated
from engine.growth.trajectories import chains, draft_workflow, runs_of, satisfaction, skills_used, verdict
from engine.growth.trajectories import compress as compress_steps
from engine.heads.local import heads
from engine.providers import llms
from engine.providers.embedder_specs import thresholds_of
from engine.providers.embedders import embedder
from engine.providers.llm_prompts import count
from jiyi.errors import BadReply
from jiyi.protocol.artifacts import ArtifactKind
from jiyi.settings import get_settings
from jiyi.text.words import language_of
from models.db.connection import unit_of_work
from models.growth import evolution, trajectories
from models.growth.evolution import WEIGH
from models.growth.trajectories import COMPRESS, SILENCE_MINUTES
from models.growth.work import AGGREGATE, COMPOSE
from models.memory import agents
from models.memory.agents import AgentName, lock_agents
from models.queue import pending_work
from tasks.framework.work import Batch, LeaseRenewingLLM, answer_or_rules, with_llm, work_task

log = logging.getLogger(__name__)
#: Seconds; the claim is renewed meanwhile.
TIME_LIMIT = 300
WEIGH_BATCH = 50
#: Patterns of an agent, each with the candidate that comes of it once it is due.
DraftSource = Callable[[Connection, AgentName], list[tuple[ArtifactPattern, SkillCandidate | None]]]
BATCH = 20
COMPRESS_SECONDS = 60


@work_task(AGGREGATE, batch=1, time_limit=with_llm(TIME_LIMIT))
def aggregate(batch: Batch) -> None:
    """Look for patterns in an agent's experiences, and propose skills for those that are due.

    Safe to repeat because patterns and candidates follow from the experiences, are known by their problem,
    and are written with the receipt by a run that finds the experiences as it saw them.
    """
    _grow(batch, "skill", _patterns_of_problems)


@work_task(COMPOSE, batch=1, time_limit=with_llm(TIME_LIMIT))
def compose(batch: Batch) -> None:
    """Look for chains of tools that worked in an agent's trajectories, and propose workflows.

    Safe to repeat for the same reasons as :func:`aggregate`.
    """
    _grow(batch, "pipeline", _chains_of_tools)


@work_task(WEIGH, batch=WEIGH_BATCH, time_limit=60)
def weigh(batch: Batch) -> None:
    """Count votes that came as events.

    A vote on what is not there is noted as ignored. Safe to repeat because a vote is stored once, under its
    event's id, and trust is recounted from all votes.
    """
    with batch.finish() as (connection, pending):
        for event_id in pending:
            event_vote = evolution.vote_of_event(connection, event_id)
            if event_vote is None:  # erased meanwhile
                continue
            name, vote, at = event_vote
            by = f"agent:{name[1]}"
            owner = evolution.lock_owner(connection, name[0], vote)
            if owner is None:
                about = (vote.artifact, vote.artifact_id)
                evolution.record_event(connection, name, by, "feedback_ignored", *about)
            else:
                evolution.count_vote(connection, owner, event_id, vote, by, at)


def _grow(batch: Batch, kind: ArtifactKind, read_drafts: DraftSource) -> None:
    """Embedder and LLM are asked outside of any transaction; what is written is under the agent's lock."""
    settings = get_settings()
    for agent_key in batch.subject_ids:
        with unit_of_work() as connection:
            name = agents.name_of(connection, agent_key)
            drafts = [] if name is None else read_drafts(connection, name)
            known_artifacts = [] if name is None else evolution.known_artifacts(connection, name, kind)
        written = [
            (pattern, _written(batch, name, pattern, draft, known_artifacts)) for pattern, draft in drafts
        ]
        grown = [(pattern, _inspected(pattern, candidate, known_artifacts)) for pattern, candidate in written]
        with batch.finish() as (connection, pending):
            if name is None or not pending:
                continue
            lock_agents(connection, [name])
            if read_drafts(connection, name) != drafts:  # changed meanwhile: once more
                batch.again.append(agent_key)
            else:
                evolution.store_grown(
                    connection, name, kind, grown, datetime.now(UTC), auto_mode=settings.growth_auto_mode
                )


def _patterns_of_problems(
    connection: Connection, name: AgentName
) -> list[tuple[ArtifactPattern, SkillCandidate | None]]:
    called = evolution.tools_called(connection, name)
    drafts: list[tuple[ArtifactPattern, SkillCandidate | None]] = []
    for problem in aggregated(evolution.experiences_of(connection, name)):
        used = [tool for tool in problem.tools_used if tool.lower() in called]
        pattern = problem.model_copy(update={"tools_used": used})
        drafts.append((pattern, skills.draft_skill(pattern) if is_due(pattern) else None))
    return drafts


def _chains_of_tools(
    connection: Connection, name: AgentName
) -> list[tuple[ArtifactPattern, SkillCandidate | None]]:
    ran = evolution.trajectories_of(connection, name)
    return [(pattern, draft_workflow(pattern, runs_of(pattern, ran))) for pattern in chains(ran)]


def _written(
    batch: Batch,
    name: AgentName | None,
    pattern: ArtifactPattern,
    candidate: SkillCandidate | None,
    known_artifacts: Sequence[KnownArtifact],
) -> SkillCandidate | None:
    """The LLM's candidate unless it is there already; the rules' where the answer is unusable."""
    if candidate is None or name is None or pattern.kind == "pipeline":  # YAML follows from the runs
        return candidate
    existing = evolution.known_of(pattern, known_artifacts)
    if existing is not None and existing.status in ("pending", "approved", "archived"):
        return candidate
    language = language_of(pattern.title)
    question = SkillDraft(agent_id=name[1], group_id=name[0], language=language, pattern=pattern)
    llm = LeaseRenewingLLM(llms.llm(), batch)
    try:
        draft, _ = answer_or_rules(llm, question)
    except BadReply as error:
        log.warning("a skill is written by rules: %s", error)
        count(llm.model, question, by_rules=1)
        return candidate
    return draft.model_copy(update={"confidence": min(draft.confidence, pattern.confidence)})


def _inspected(
    pattern: ArtifactPattern, candidate: SkillCandidate | None, known_artifacts: Sequence[KnownArtifact]
) -> GateReport | None:
    if candidate is None:
        return None
    own = evolution.known_of(pattern, known_artifacts)
    others = [
        other for other in known_artifacts if other is not own and other.status in ("pending", "approved")
    ]
    return skills.inspect_candidate(
        candidate,
        _compared(candidate, others),
        near_duplicate=thresholds_of(embedder().model).near_duplicate if others else 1.0,
        heading=pattern.kind == "skill",
    )


def _compared(candidate: SkillCandidate, others: Sequence[KnownArtifact]) -> list[KnownArtifact]:
    """The others with how like the candidate each is."""
    if not others:
        return []
    compared: list[SkillCandidate | KnownArtifact] = [candidate, *others]
    texts = [f"{one.name}\n{one.description}" for one in compared]
    own, *vectors = embedder().passages(texts)
    return [
        replace(other, similarity=float(own @ vector)) for other, vector in zip(others, vectors, strict=True)
    ]


@work_task(COMPRESS, batch=BATCH, time_limit=COMPRESS_SECONDS, due_ahead=SILENCE_MINUTES * 60)
def compress(batch: Batch) -> None:
    """Compress what sessions did since their last trajectory, and enqueue a search for chains of tools.

    It runs where turns are extracted: that worker has loaded the local model, which judges how satisfied
    users are. Safe to repeat because a step is compressed once: its row names its trajectory in the
    transaction that stores that.
    """
    judge = partial(satisfaction, heads=heads())  # before the transaction: the first call loads the model
    silent_since = datetime.now(UTC) - timedelta(minutes=SILENCE_MINUTES)
    with batch.finish() as (connection, pending):
        sessions = {
            key: session
            for key in pending
            if (session := trajectories.session_of(connection, key)) is not None
        }
        agents = lock_agents(connection, [session.agent for session in sessions.values()])
        for key, session in sessions.items():
            steps = trajectories.steps_of(connection, session, key, silent_since)
            trajectory = compress_steps(steps, judge)
            if trajectory is not None:
                trajectory_id = trajectories.store_trajectory(connection, session, steps, trajectory)
                evolution.count_outcome(
                    connection, session.agent, trajectory_id, skills_used(steps), verdict(trajectory)
                )
                if trajectory.tools_used:
                    pending_work.enqueue(
                        connection, COMPOSE, [(agents[session.agent].agent_key, session.group_id)]
                    )
            if (again := trajectories.compression_due_at(connection, session.group_id, key)) is not None:
                batch.later[key] = again
