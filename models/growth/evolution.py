"""Evolution: what candidates of skills and workflows start from and how they are stored, votes, trust, events
in the audit log.

Trust is counted from all votes each time, so that order and repetition make no difference.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid5

from sqlalchemy import Connection, text, update
from sqlalchemy.dialects.postgresql import insert
from uuid6 import uuid7

from engine.conversations.memories import StoredExperience
from engine.growth.skills import ArtifactPattern, GateReport, KnownArtifact, LivedExperience, next_status
from engine.growth.trajectories import Trajectory, TrajectoryRun, wordless
from jiyi.protocol.artifacts import ArtifactKind, Recommendation, Sentiment, Signal, Vote
from jiyi.protocol.base import JsonObject
from jiyi.protocol.events import FeedbackGiven
from jiyi.protocol.origins import STANDING_TRUST
from models.accounts import audit
from models.db.rows import upsert
from models.growth.tables import PatternRow, ProposalRow, TrustRow, VoteRow
from models.memory.agents import AgentName, bind_name
from models.memory.event_types import EventType, register_event

#: Enqueued for an event with a vote.
WEIGH = "weigh"
#: Experiences, and trajectories, that one run looks at: the most used, the latest.
MAX_EXPERIENCES, MAX_TRAJECTORIES = 500, 1_000
#: Who does what nobody asked for by name, in the audit log.
GROWTH = "growth"
#: Scores below which archiving and optimising are recommended, and above which promoting is.
ARCHIVE_BELOW, OPTIMISE_BELOW, PROMOTE_ABOVE = 0.2, 0.4, 0.8
#: Votes, neutral ones left out, from which on there is a recommendation.
LEAST_VOTES = 5
#: What becomes of a candidate, by its new status. In the audit log such names begin with ``PREFIX``.
_HAPPENED = {"pending": "proposed", "refused": "refused", "approved": "registered"}
PREFIX = "evolution."


@dataclass(frozen=True, slots=True)
class Trust:
    """Votes of each kind, and what they come to."""

    positive: int = 0
    negative: int = 0
    neutral: int = 0

    @property
    def total(self) -> int:
        """Votes that count: neutral ones do not."""
        return self.positive + self.negative

    @property
    def score(self) -> float:
        """0 … 1, .5 without votes."""
        return (self.positive + 1) / (self.total + 2)

    @property
    def recommendation(self) -> Recommendation | None:
        """What to do about it; None while there are too few votes, or nothing is to be done."""
        if self.total < LEAST_VOTES:
            return None
        if self.score < ARCHIVE_BELOW:
            return "archive"
        if self.score < OPTIMISE_BELOW:
            return "optimise"
        return "promote" if self.score > PROMOTE_ABOVE else None


def record_event(
    connection: Connection,
    name: AgentName,
    actor: str,
    kind: str,
    artifact: ArtifactKind,
    artifact_id: UUID,
    **numbers: float | None,
) -> None:
    """Write what happened to an artifact, without its texts, in the transaction of the change itself."""
    audit.record(
        connection,
        group_id=name[0],
        actor=actor,
        action=f"{PREFIX}{kind}",
        target=str(artifact_id),
        agent_id=name[1],
        artifact=artifact,
        artifact_id=str(artifact_id),
        **numbers,
    )


def evolution_events(
    connection: Connection, group_id: str, artifact_id: UUID, limit: int
) -> list[JsonObject]:
    """What happened to an artifact, with kind, id, at, actor and details: the newest first."""
    rows = connection.execute(
        _EVENTS, {"group": group_id, "prefix": PREFIX, "target": str(artifact_id), "limit": limit}
    )
    return [
        {"id": row.audit_id, "at": row.at, "actor": row.actor, "kind": row.kind, **row.details}
        for row in rows
    ]


def lock_owner(connection: Connection, group_id: str, vote: Vote) -> AgentName | None:
    """The agent whose artifact it is, locked until the transaction ends; None if it is not there."""
    parameters = {"group": group_id, "id": vote.artifact_id, "artifact": vote.artifact}
    agent_id = connection.execute(_OWNER, parameters).scalar_one_or_none()
    return None if agent_id is None else (group_id, agent_id)


def count_vote(
    connection: Connection, name: AgentName, feedback_id: UUID, vote: Vote, by: str, now: datetime
) -> Trust:
    """Store a vote, once, and what all votes on its artifact come to. Call it after :func:`lock_owner`."""
    own = {"artifact_id": vote.artifact_id, "group_id": name[0], "agent_id": name[1]}
    origin = {"feedback_id": feedback_id, "given_by": by, "given_at": now}
    says = vote.model_dump(include={"signal", "sentiment", "comment"})
    vote_once = insert(VoteRow).values(**own, **origin, **says).on_conflict_do_nothing()
    new = connection.execute(vote_once.returning(VoteRow.feedback_id)).one_or_none() is not None
    of_artifact = {"group": name[0], "id": vote.artifact_id}
    trust = Trust(**{row.sentiment: row.votes for row in connection.execute(_COUNT, of_artifact)})
    before = connection.execute(_BEFORE, of_artifact).scalar_one_or_none()
    counts = asdict(trust) | {"score": trust.score, "recommendation": trust.recommendation, "updated_at": now}
    connection.execute(upsert(TrustRow, *counts).values(**own, **counts))
    about = (vote.artifact, vote.artifact_id)
    if new:
        record_event(connection, name, by, "feedback_given", *about, trust_score=trust.score)
    if (advice := trust.recommendation) is not None and advice != before:
        numbers: dict[str, Any] = {"trust_score": trust.score, "recommendation": advice}
        record_event(connection, name, by, "recommended", *about, **numbers)
    return trust


def count_outcome(
    connection: Connection,
    name: AgentName,
    trajectory_id: UUID,
    skill_ids: Sequence[UUID],
    sentiment: Sentiment,
) -> None:
    """Count how a conversation ended as a vote on each of the agent's skills that were in its prompts."""
    signal: Signal = "usage_count" if sentiment == "neutral" else "completion_rate"
    for skill_id in sorted(skill_ids):
        vote = Vote(artifact="skill", artifact_id=skill_id, sentiment=sentiment, signal=signal)
        if lock_owner(connection, name[0], vote) == name:
            feedback_id = uuid5(trajectory_id, str(skill_id))
            count_vote(connection, name, feedback_id, vote, f"agent:{name[1]}", datetime.now(UTC))


def vote_of_event(connection: Connection, event_id: UUID) -> tuple[AgentName, Vote, datetime] | None:
    """Who published a vote, and what it says; None if it was erased."""
    row = connection.execute(_EVENT, {"id": event_id}).one_or_none()
    if row is None:
        return None
    return (row.group_id, row.agent_id), Vote.model_validate(row.payload), row.occurred_at


def experiences_of(connection: Connection, name: AgentName) -> list[LivedExperience]:
    """The agent's experiences that are trusted enough to become skills, with the memories that say them."""
    rows = connection.execute(
        _EXPERIENCES, bind_name(name) | {"limit": MAX_EXPERIENCES, "least": STANDING_TRUST}
    )
    pairs = [(row, StoredExperience.model_validate(row, from_attributes=True)) for row in rows]
    return [
        LivedExperience(row.node_id, row.created_at, experience, row.told_by) for row, experience in pairs
    ]


def tools_called(connection: Connection, name: AgentName) -> set[str]:
    """Names, in lower case, of the tools that the agent has called: others in experiences are no tools."""
    return set(connection.execute(_TOOLS_CALLED, bind_name(name)).scalars())


def trajectories_of(connection: Connection, name: AgentName) -> list[TrajectoryRun]:
    """The agent's latest trajectories with tools; of private sessions without words and inputs."""
    rows = connection.execute(_TRAJECTORIES, bind_name(name) | {"limit": MAX_TRAJECTORIES}).mappings()
    runs = [(row, Trajectory.model_validate(dict(row))) for row in rows]
    return [
        TrajectoryRun(row["trajectory_id"], row["session_id"], wordless(ran) if row["private"] else ran)
        for row, ran in runs
    ]


def known_artifacts(connection: Connection, name: AgentName, kind: ArtifactKind) -> list[KnownArtifact]:
    """The agent's artifacts of a kind, oldest first, with those that were rejected or refused."""
    return [
        KnownArtifact(**row)
        for row in connection.execute(_KNOWN, bind_name(name) | {"artifact": kind}).mappings()
    ]


def known_of(pattern: ArtifactPattern, artifacts: Sequence[KnownArtifact]) -> KnownArtifact | None:
    """The artifact that came of the pattern, by whichever of its wordings."""
    return next((artifact for artifact in artifacts if artifact.pattern_hash in pattern.hashes), None)


def store_grown(
    connection: Connection,
    name: AgentName,
    kind: ArtifactKind,
    grown: Sequence[tuple[ArtifactPattern, GateReport | None]],
    now: datetime,
    *,
    auto_mode: bool,
) -> None:
    """Store the agent's patterns of a kind, and what became of their candidates. Call it under the agent's
    lock.

    ``grown``: each pattern with what the gate says of its candidate; None while none is due.
    """
    hashes = [pattern.hashes[0] for pattern, _ in grown]
    connection.execute(_DELETE_PATTERNS, bind_name(name) | {"artifact": kind, "hashes": hashes})
    artifacts = known_artifacts(connection, name, kind)
    for pattern, report in grown:
        key = {"group_id": name[0], "agent_id": name[1], "artifact": kind, "pattern_hash": pattern.hashes[0]}
        says = pattern.model_dump(exclude={"kind", "hashes", "user_id"}) | {"updated_at": now}
        connection.execute(upsert(PatternRow, *says).values(**key, **says))
        if report is not None:
            existing = known_of(pattern, artifacts)
            _save_candidate(connection, name, pattern, report, existing, now, auto_mode=auto_mode)


def _save_candidate(
    connection: Connection,
    name: AgentName,
    pattern: ArtifactPattern,
    report: GateReport,
    existing: KnownArtifact | None,
    now: datetime,
    *,
    auto_mode: bool,
) -> None:
    """Store a candidate; the content of an approved one stays unchanged."""
    status = next_status(existing, report, pattern.total_reuse, auto_mode=auto_mode)
    before = None if existing is None else existing.status
    artifact_id = uuid7() if existing is None else existing.artifact_id
    evidence = {"evidence": pattern.evidence, "evidence_count": pattern.total_reuse, "updated_at": now}
    if status == before and status != "refused":
        this = (ProposalRow.group_id == name[0], ProposalRow.proposal_id == artifact_id)
        connection.execute(update(ProposalRow).where(*this).values(**evidence))
        return
    says = report.candidate.model_dump() | {"confidence": report.confidence, "issues": report.issues}
    values = {"content": says, "status": status, "enabled": False, **evidence}
    own = {
        "proposal_id": artifact_id,
        "group_id": name[0],
        "agent_id": name[1],
        "kind": pattern.kind,
        "made_by": GROWTH,
        "user_id": pattern.user_id,
        "pattern_hash": pattern.hashes[0],
        "created_at": now,
    }
    connection.execute(upsert(ProposalRow, *values).values(**own, **values))
    if status == before:
        return
    happened = "returned" if before in ("rejected", "deleted") else _HAPPENED[status]
    numbers = {
        "evidence_count": pattern.total_reuse,
        "confidence": report.confidence,
        "issues": len(report.issues),
    }
    record_event(connection, name, GROWTH, happened, pattern.kind, artifact_id, **numbers)


_EVENTS = text("""
    SELECT audit_id, at, actor, substr(action, length(:prefix) + 1) AS kind, details FROM audit_log
    WHERE group_id = :group AND starts_with(action, :prefix) AND target = :target AND details IS NOT NULL
    ORDER BY audit_id DESC LIMIT :limit
""")
_OWNER = text("""
    SELECT agent_id FROM proposals
    WHERE group_id = :group AND proposal_id = :id AND kind = :artifact
    AND status NOT IN ('deleted', 'refused') FOR NO KEY UPDATE
""")
_COUNT = text("""
    SELECT sentiment, count(*) AS votes FROM feedback WHERE group_id = :group AND artifact_id = :id
    GROUP BY sentiment
""")
_BEFORE = text("SELECT recommendation FROM trust WHERE group_id = :group AND artifact_id = :id")
_EVENT = text("""
    SELECT group_id, agent_id, payload, occurred_at FROM events
    WHERE event_id = :id AND type = 'feedback.given' AND outcome <> 'erased'
""")
_EXPERIENCES = text("""
    SELECT e.*, CASE WHEN n.visibility = 'agent' THEN NULL ELSE n.user_id END AS told_by
    FROM experiences e JOIN memory_nodes n USING (group_id, node_id)
    WHERE e.group_id = :group AND e.agent_id = :agent AND n.trust >= :least
    ORDER BY e.reuse_count DESC, e.updated_at DESC LIMIT :limit
""")
_TRAJECTORIES = text("""
    SELECT trajectory_id, session_id, request_type, request, tools_used, completion AS outcome, satisfaction,
        tokens, steps, duration_ms, execution_chain, started_at, ended_at, session_id IN (
            SELECT n.session_id FROM memory_nodes n WHERE n.group_id = :group AND n.agent_id = :agent
              AND n.user_id IS NOT NULL AND n.visibility IS DISTINCT FROM 'agent' AND n.session_id IS NOT NULL
        ) AS private FROM trajectories
    WHERE group_id = :group AND agent_id = :agent AND cardinality(tools_used) > 0
    ORDER BY trajectory_id DESC LIMIT :limit
""")
_TOOLS_CALLED = text("""
    SELECT DISTINCT lower(tool) FROM trajectories, unnest(tools_used) AS tool
    WHERE group_id = :group AND agent_id = :agent
""")
_KNOWN = text("""
    SELECT proposal_id AS artifact_id, pattern_hash, content ->> 'name' AS name,
        content ->> 'description' AS description, content -> 'triggers' AS triggers,
        content ->> 'body' AS body, status, decided_evidence
    FROM proposals WHERE group_id = :group AND agent_id = :agent AND kind = :artifact ORDER BY proposal_id
""")
_DELETE_PATTERNS = text("""
    DELETE FROM patterns WHERE group_id = :group AND agent_id = :agent AND artifact = :artifact
    AND NOT pattern_hash = ANY(:hashes)
""")

register_event(FeedbackGiven, EventType(work_kind=WEIGH))
