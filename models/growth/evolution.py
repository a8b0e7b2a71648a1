"""Evolution: what candidates of skills and workflows start from and how they are stored, votes, trust, events
in the audit log.

Trust is counted anew each time, so that order and repetition make no difference.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, get_args
from uuid import UUID, uuid5

from pydantic import BaseModel
from sqlalchemy import Connection, text
from uuid6 import uuid7

from engine.conversations.memories import StoredExperience
from engine.growth.skills import (
    GateReport,
    LivedExperience,
    Pattern,
    PriorDecision,
    SkillCandidate,
    next_status,
)
from engine.growth.trajectories import Trajectory, TrajectoryRun, wordless
from jiyi.protocol.artifacts import ArtifactKind, Recommendation, Sentiment, Signal, Vote
from jiyi.protocol.base import JsonObject
from jiyi.protocol.events import FeedbackGiven
from jiyi.protocol.origins import STANDING_TRUST
from jiyi.protocol.proposals import Status
from models.accounts import audit
from models.db.rows import upsert
from models.growth.tables import ProposalRow
from models.memory.agents import AgentName, bind_name
from models.memory.event_types import EventType, register_event

#: Owed by an event that brought a vote.
WEIGH = "weigh"
#: Experiences, and trajectories, that one run looks at: the most used, the latest.
MAX_EXPERIENCES, MAX_TRAJECTORIES = 500, 1_000
#: Who does what nobody asked for by name, in the audit log.
GROWTH = "growth"
_HAPPENED: dict[Status, EvolutionKind] = {
    "pending": "proposed",
    "refused": "refused",
    "approved": "registered",
}


#: Scores below which archiving and optimising are recommended, and above which promoting is.
ARCHIVE_BELOW, OPTIMISE_BELOW, PROMOTE_ABOVE = 0.2, 0.4, 0.8
#: Votes, neutral ones left out, from which on there is a recommendation.
LEAST_VOTES = 5


class Trust(BaseModel, frozen=True):
    """What was voted, and what it comes to; ``score`` is 0 … 1, .5 without votes."""

    positive: int = 0
    negative: int = 0
    neutral: int = 0

    @property
    def total(self) -> int:
        """Votes that count: neutral ones do not."""
        return self.positive + self.negative

    @property
    def score(self) -> float:
        """``(positive + 1) / (total + 2)``."""
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


EvolutionKind = Literal[
    "proposed",
    "refused",
    "registered",
    "returned",
    "approved",
    "rejected",
    "enabled",
    "disabled",
    "archived",
    "deleted",
    "feedback_given",
    "feedback_ignored",
    "recommended",
]


#: In the audit log their names begin so.
PREFIX = "evolution."


KINDS: tuple[EvolutionKind, ...] = get_args(EvolutionKind)


class EvolutionEvent(BaseModel, frozen=True):
    """One change of an artifact, or of how it is trusted. Holds ids and numbers, no texts."""

    kind: EvolutionKind
    agent_id: str
    artifact: ArtifactKind
    artifact_id: UUID
    evidence_count: int | None = None
    confidence: float | None = None
    #: Issues that the gate found.
    issues: int | None = None
    trust_score: float | None = None
    recommendation: Recommendation | None = None


def record_event(connection: Connection, group_id: str, actor: str, event: EvolutionEvent) -> None:
    """Write it, in the transaction of the change itself."""
    details = event.model_dump(mode="json", exclude={"kind"}, exclude_none=True)
    audit.record(
        connection,
        group_id=group_id,
        actor=actor,
        action=f"{PREFIX}{event.kind}",
        target=str(event.artifact_id),
        **details,
    )


def evolution_events(
    connection: Connection, group_id: str, artifact_id: UUID | None, limit: int
) -> list[JsonObject]:
    """The group's evolution events with kind, id, at, actor and details, of one artifact if it is named: the
    newest first.
    """
    target = None if artifact_id is None else str(artifact_id)
    parameters = {
        "group": group_id,
        "actions": [f"{PREFIX}{kind}" for kind in KINDS],
        "target": target,
        "limit": limit,
    }
    rows = connection.execute(_EVENTS, parameters)
    return [
        {
            "id": row.audit_id,
            "at": row.at,
            "actor": row.actor,
            "kind": row.action.removeprefix(PREFIX),
            **row.details,
        }
        for row in rows
        if row.details
    ]


def lock_owner(connection: Connection, group_id: str, vote: Vote) -> AgentName | None:
    """The agent whose artifact it is, locked until the transaction ends; None if it is not there (any
    more).
    """
    parameters = {"group": group_id, "id": vote.artifact_id, "artifact": vote.artifact}
    agent_id = connection.execute(_OWNER, parameters).scalar_one_or_none()
    return None if agent_id is None else (group_id, agent_id)


def count_vote(
    connection: Connection, name: AgentName, feedback_id: UUID, vote: Vote, by: str, now: datetime
) -> Trust:
    """Store a vote, once, and what all votes on its artifact come to. Call it after :func:`owner_of`."""
    parameters = {
        "group": name[0],
        "agent": name[1],
        "id": vote.artifact_id,
        "feedback": feedback_id,
        "by": by,
        "now": now,
    }
    new = (
        connection.execute(
            _GIVE, parameters | vote.model_dump(include={"signal", "sentiment", "comment"})
        ).rowcount
        == 1
    )
    trust = Trust.model_validate(dict(connection.execute(_COUNT, parameters).mappings().one()))
    before = connection.execute(_BEFORE, parameters).scalar_one_or_none()
    counts = {"positive": trust.positive, "negative": trust.negative, "neutral": trust.neutral}
    connection.execute(
        _SAVE, parameters | counts | {"score": trust.score, "recommendation": trust.recommendation}
    )
    details: dict[str, Any] = {
        "agent_id": name[1],
        "artifact": vote.artifact,
        "artifact_id": vote.artifact_id,
        "trust_score": trust.score,
    }
    if new:
        record_event(connection, name[0], by, EvolutionEvent(kind="feedback_given", **details))
    if trust.recommendation is not None and trust.recommendation != before:
        record_event(
            connection,
            name[0],
            by,
            EvolutionEvent(kind="recommended", recommendation=trust.recommendation, **details),
        )
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
            count_vote(
                connection,
                name,
                uuid5(trajectory_id, str(skill_id)),
                vote,
                f"agent:{name[1]}",
                datetime.now(UTC),
            )


def note_ignored_vote(connection: Connection, name: AgentName, vote: Vote, by: str) -> None:
    """Note that a vote is on something that is not there."""
    event = EvolutionEvent(
        kind="feedback_ignored", agent_id=name[1], artifact=vote.artifact, artifact_id=vote.artifact_id
    )
    record_event(connection, name[0], by, event)


def vote_of_event(connection: Connection, event_id: UUID) -> tuple[AgentName, Vote, datetime] | None:
    """Who published a vote, and what it says; None if it was erased."""
    row = connection.execute(_EVENT, {"id": event_id}).one_or_none()
    return (
        None
        if row is None
        else ((row.group_id, row.agent_id), Vote.model_validate(row.payload), row.occurred_at)
    )


def experiences_of(connection: Connection, name: AgentName) -> list[LivedExperience]:
    """The agent's experiences that are trusted enough to become skills, with the memories that say them."""
    rows = connection.execute(
        _EXPERIENCES, bind_name(name) | {"limit": MAX_EXPERIENCES, "least": STANDING_TRUST}
    )
    told = [(row, StoredExperience.model_validate(row, from_attributes=True)) for row in rows]
    return [LivedExperience(row.node_id, row.created_at, experience, row.told_by) for row, experience in told]


def tools_called(connection: Connection, name: AgentName) -> set[str]:
    """Names of the tools that the agent has called, in lower case: what an experience names beside them is no
    tool.
    """
    return set(connection.execute(_TOOLS_CALLED, bind_name(name)).scalars())


def trajectories_of(connection: Connection, name: AgentName) -> list[TrajectoryRun]:
    """The agent's latest trajectories that used tools; of what was said in private only the tools, without
    words and inputs.
    """
    rows = connection.execute(_TRAJECTORIES, bind_name(name) | {"limit": MAX_TRAJECTORIES}).mappings()
    runs = [(row, Trajectory.model_validate(dict(row))) for row in rows]
    return [
        TrajectoryRun(row["trajectory_id"], row["session_id"], wordless(ran) if row["private"] else ran)
        for row, ran in runs
    ]


@dataclass(frozen=True, slots=True)
class Grown:
    """A pattern, and the candidate that came of it with what the gate says; None while it is not due."""

    pattern: Pattern
    candidate: SkillCandidate | None = None
    report: GateReport | None = None


@dataclass(frozen=True, slots=True)
class KnownArtifact:
    """An artifact that is there already, with what a candidate is compared by."""

    artifact_id: UUID
    pattern_hash: bytes
    name: str
    description: str
    triggers: list[str]
    body: str
    status: Status
    decided_evidence: int
    evidence_count: int


def known_artifacts(connection: Connection, name: AgentName, kind: ArtifactKind) -> list[KnownArtifact]:
    """The agent's artifacts of a kind, oldest first, with those that were rejected or refused."""
    return [
        KnownArtifact(**row)
        for row in connection.execute(_KNOWN, bind_name(name) | {"artifact": kind}).mappings()
    ]


def known_of(pattern: Pattern, artifacts: Sequence[KnownArtifact]) -> KnownArtifact | None:
    """The artifact that came of the pattern, by whichever of its wordings."""
    return next((artifact for artifact in artifacts if artifact.pattern_hash in pattern.hashes), None)


def store_grown(
    connection: Connection,
    name: AgentName,
    kind: ArtifactKind,
    grown: Sequence[Grown],
    now: datetime,
    *,
    auto_mode: bool,
) -> int:
    """Store the agent's patterns of a kind, and what became of their candidates; returns how many are new or
    have changed status.

    Call it under the agent's lock. What somebody approved is never changed by it.
    """
    hashes = [item.pattern.hashes[0] for item in grown]
    connection.execute(_DELETE_PATTERNS, bind_name(name) | {"artifact": kind, "hashes": hashes})
    artifacts = known_artifacts(connection, name, kind)
    changed = 0
    for item in grown:
        _save_pattern(connection, name, item.pattern, now)
        existing = known_of(item.pattern, artifacts)
        if item.candidate is not None and item.report is not None:
            changed += _save_candidate(
                connection, name, item, item.candidate, item.report, existing, now, auto_mode=auto_mode
            )
    return changed


def _save_candidate(
    connection: Connection,
    name: AgentName,
    grown: Grown,
    candidate: SkillCandidate,
    report: GateReport,
    existing: KnownArtifact | None,
    now: datetime,
    *,
    auto_mode: bool,
) -> bool:
    count = grown.pattern.total_reuse
    before = None if existing is None else PriorDecision(existing.status, existing.decided_evidence)
    status = next_status(before, report, count, auto_mode=auto_mode)
    artifact_id = uuid7() if existing is None else existing.artifact_id
    if existing is not None and status == existing.status and status != "refused":
        evidence = {
            "id": artifact_id,
            "evidence": grown.pattern.evidence,
            "count": count,
            "now": now,
            "group": name[0],
        }
        connection.execute(_MORE_EVIDENCE, evidence)
        return False
    pattern, says = (
        grown.pattern,
        candidate.model_dump() | {"confidence": report.confidence, "issues": report.issues},
    )
    seen = {"evidence": pattern.evidence, "evidence_count": count, "updated_at": now}
    values = {"content": says, "status": status, "enabled": False, **seen}
    own = {
        "proposal_id": artifact_id,
        "group_id": name[0],
        "agent_id": name[1],
        "kind": pattern.kind,
        "made_by": GROWTH,
    }
    known = {"user_id": pattern.user_id, "pattern_hash": pattern.hashes[0], "created_at": now}
    connection.execute(upsert(ProposalRow, *values).values(**own, **known, **values))
    if existing is not None and status == existing.status:
        return False
    happened: EvolutionKind = (
        "returned"
        if existing is not None and existing.status in ("rejected", "deleted")
        else _HAPPENED[status]
    )
    event = EvolutionEvent(
        kind=happened,
        agent_id=name[1],
        artifact=grown.pattern.kind,
        artifact_id=artifact_id,
        evidence_count=count,
        confidence=report.confidence,
        issues=len(report.issues),
    )
    record_event(connection, name[0], GROWTH, event)
    return True


def _save_pattern(connection: Connection, name: AgentName, pattern: Pattern, now: datetime) -> None:
    values: dict[str, Any] = pattern.model_dump(exclude={"kind", "hashes", "user_id"})
    connection.execute(
        _PATTERN, bind_name(name) | values | {"artifact": pattern.kind, "hash": pattern.hashes[0], "now": now}
    )


_EVENTS = text("""
    SELECT audit_id, at, actor, action, details FROM audit_log
    WHERE group_id = :group AND action = ANY(:actions)
      AND (CAST(:target AS text) IS NULL OR target = :target)
    ORDER BY audit_id DESC LIMIT :limit
""")
_OWNER = text("""
    SELECT agent_id FROM proposals
    WHERE group_id = :group AND proposal_id = :id AND kind = :artifact
    AND status NOT IN ('deleted', 'refused') FOR NO KEY UPDATE
""")
_GIVE = text("""
    INSERT INTO feedback (group_id, feedback_id, agent_id, artifact_id, signal, sentiment, comment, given_by,
    given_at)
    VALUES (:group, :feedback, :agent, :id, :signal, :sentiment, :comment, :by, :now) ON CONFLICT DO NOTHING
""")
_COUNT = text("""
    SELECT count(*) FILTER (WHERE sentiment = 'positive') AS positive, count(*) FILTER (WHERE sentiment =
    'negative') AS negative,
        count(*) FILTER (WHERE sentiment = 'neutral') AS neutral FROM feedback WHERE group_id = :group
        AND artifact_id = :id
""")
_BEFORE = text("SELECT recommendation FROM trust WHERE group_id = :group AND artifact_id = :id")
_SAVE = text("""
    INSERT INTO trust (artifact_id, group_id, agent_id, positive, negative, neutral, score, recommendation,
    updated_at)
    VALUES (:id, :group, :agent, :positive, :negative, :neutral, :score, :recommendation, :now)
    ON CONFLICT (artifact_id) DO UPDATE SET positive = excluded.positive, negative = excluded.negative,
    neutral = excluded.neutral,
        score = excluded.score, recommendation = excluded.recommendation, updated_at = excluded.updated_at
""")
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
    tokens, steps, duration_ms,
        execution_chain, started_at, ended_at, session_id IN (
            SELECT n.session_id FROM memory_nodes n WHERE n.group_id = :group AND n.agent_id = :agent
              AND n.user_id IS NOT NULL AND n.visibility IS DISTINCT FROM 'agent' AND n.session_id IS NOT NULL
        ) AS private FROM trajectories
    WHERE group_id = :group AND agent_id = :agent AND cardinality(tools_used) > 0
    ORDER BY trajectory_id DESC LIMIT :limit
""")
_TOOLS_CALLED = text("""
    SELECT DISTINCT lower(tool) FROM trajectories, unnest(tools_used) AS tool WHERE group_id = :group
    AND agent_id = :agent
""")
_KNOWN = text("""
    SELECT proposal_id AS artifact_id, pattern_hash, content ->> 'name' AS name, content ->> 'description' AS
    description,
        content -> 'triggers' AS triggers, content ->> 'body' AS body, status, decided_evidence,
        evidence_count
    FROM proposals WHERE group_id = :group AND agent_id = :agent AND kind = :artifact ORDER BY proposal_id
""")
_DELETE_PATTERNS = text("""
    DELETE FROM patterns WHERE group_id = :group AND agent_id = :agent AND artifact = :artifact
    AND NOT pattern_hash = ANY(:hashes)
""")
_PATTERN = text("""
    INSERT INTO patterns (group_id, agent_id, artifact, pattern_hash, title, wordings, common_steps,
    tools_used, industry_context,
        total_reuse, sessions, confidence, evidence, updated_at)
    VALUES (:group, :agent, :artifact, :hash, :title, :wordings, :common_steps, :tools_used,
    :industry_context,
        :total_reuse, :sessions, :confidence, :evidence, :now)
    ON CONFLICT (group_id, agent_id, artifact, pattern_hash) DO UPDATE
    SET title = excluded.title, wordings = excluded.wordings,
        common_steps = excluded.common_steps, tools_used = excluded.tools_used, industry_context =
        excluded.industry_context,
        total_reuse = excluded.total_reuse, sessions = excluded.sessions, confidence = excluded.confidence,
        evidence = excluded.evidence, updated_at = excluded.updated_at
""")
_MORE_EVIDENCE = text("""
    UPDATE proposals SET evidence = :evidence, evidence_count = :count, updated_at = :now
    WHERE group_id = :group AND proposal_id = :id
""")


register_event(FeedbackGiven, EventType(owes=WEIGH))
