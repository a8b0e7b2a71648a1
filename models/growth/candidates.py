"""Candidates of skills and workflows: the experiences and trajectories that they start from, and what is stored of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, bindparam, text
from sqlalchemy.dialects.postgresql import JSONB
from uuid6 import uuid7

from engine.conversations.memories import StoredExperience
from engine.growth.skills import LivedExperience, PriorDecision, next_status
from engine.growth.trajectories import Trajectory
from engine.growth.workflows import TrajectoryRun
from jiyi.protocol.artifacts import ArtifactKind, EvolutionEvent, EvolutionKind, GateReport, Pattern, SkillCandidate, Status
from models.growth import feedback
from models.memory.agents import AgentName, bind_name

#: Experiences, and trajectories, that one run looks at: the most used, the latest.
MAX_EXPERIENCES, MAX_TRAJECTORIES = 500, 1_000


def experiences_of(connection: Connection, name: AgentName) -> list[LivedExperience]:
    """The agent's experiences with the memories that say them."""
    rows = connection.execute(_EXPERIENCES, bind_name(name) | {"limit": MAX_EXPERIENCES})
    return [LivedExperience(row.node_id, row.created_at, StoredExperience.model_validate(row, from_attributes=True)) for row in rows]


def trajectories_of(connection: Connection, name: AgentName) -> list[TrajectoryRun]:
    """The agent's latest trajectories that used tools."""
    rows = connection.execute(_TRAJECTORIES, bind_name(name) | {"limit": MAX_TRAJECTORIES}).mappings()
    return [TrajectoryRun(row["trajectory_id"], row["session_id"], Trajectory.model_validate(dict(row))) for row in rows]


_EXPERIENCES = text("""
    SELECT * FROM experiences WHERE group_id = :group AND agent_id = :agent ORDER BY reuse_count DESC, updated_at DESC LIMIT :limit
""")
_TRAJECTORIES = text("""
    SELECT trajectory_id, session_id, request_type, request, tools_used, completion AS outcome, satisfaction, tokens, steps, duration_ms,
        execution_chain, started_at, ended_at FROM trajectories
    WHERE group_id = :group AND agent_id = :agent AND cardinality(tools_used) > 0 ORDER BY trajectory_id DESC LIMIT :limit
""")


#: Who does what nobody asked for by name, in the audit log.
GROWTH = "growth"


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
    """The agent's artifacts of a kind, oldest first, with those that were declined or refused."""
    return [KnownArtifact(**row) for row in connection.execute(_KNOWN, bind_name(name) | {"artifact": kind}).mappings()]


def known_of(pattern: Pattern, artifacts: Sequence[KnownArtifact]) -> KnownArtifact | None:
    """The artifact that came of the pattern, by whichever of its wordings."""
    return next((artifact for artifact in artifacts if artifact.pattern_hash in pattern.hashes), None)


def store_grown(
    connection: Connection, name: AgentName, kind: ArtifactKind, grown: Sequence[Grown], now: datetime, *, auto_mode: bool
) -> int:
    """Store the agent's patterns of a kind, and what became of their candidates; returns how many are new or have changed status.

    Call it under the agent's lock. What somebody accepted is never changed by it.
    """
    hashes = [item.pattern.hashes[0] for item in grown]
    connection.execute(_DELETE_PATTERNS, bind_name(name) | {"artifact": kind, "hashes": hashes})
    artifacts = known_artifacts(connection, name, kind)
    changed = 0
    for item in grown:
        _save_pattern(connection, name, item.pattern, now)
        existing = known_of(item.pattern, artifacts)
        if item.candidate is not None and item.report is not None:
            changed += _save_candidate(connection, name, item, item.candidate, item.report, existing, now, auto_mode=auto_mode)
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
    evidence = {"id": artifact_id, "evidence": grown.pattern.evidence, "count": count, "now": now, "group": name[0]}
    if existing is not None and status == existing.status and status != "refused":
        connection.execute(_MORE_EVIDENCE, evidence)
        return False
    texts = candidate.model_dump() | {"confidence": report.confidence, "issues": report.issues}
    parameters = bind_name(name) | evidence | texts | {"artifact": grown.pattern.kind, "hash": grown.pattern.hashes[0], "status": status}
    connection.execute(_SAVE, parameters)
    if existing is not None and status == existing.status:
        return False
    happened: EvolutionKind = "returned" if existing is not None and existing.status in ("declined", "deleted") else _HAPPENED[status]
    event = EvolutionEvent(
        kind=happened,
        agent_id=name[1],
        artifact=grown.pattern.kind,
        artifact_id=artifact_id,
        evidence_count=count,
        confidence=report.confidence,
        issues=len(report.issues),
    )
    feedback.record_event(connection, name[0], GROWTH, event)
    return True


_HAPPENED: dict[Status, EvolutionKind] = {"pending": "proposed", "refused": "refused", "accepted": "registered"}


def _save_pattern(connection: Connection, name: AgentName, pattern: Pattern, now: datetime) -> None:
    values: dict[str, Any] = pattern.model_dump(exclude={"kind", "hashes"})
    connection.execute(_PATTERN, bind_name(name) | values | {"artifact": pattern.kind, "hash": pattern.hashes[0], "now": now})


_KNOWN = text("""
    SELECT artifact_id, pattern_hash, name, description, triggers, body, status, decided_evidence, evidence_count FROM artifacts
    WHERE group_id = :group AND agent_id = :agent AND artifact = :artifact ORDER BY artifact_id
""")
_DELETE_PATTERNS = text("""
    DELETE FROM patterns WHERE group_id = :group AND agent_id = :agent AND artifact = :artifact AND NOT pattern_hash = ANY(:hashes)
""")
_PATTERN = text("""
    INSERT INTO patterns (group_id, agent_id, artifact, pattern_hash, title, wordings, common_steps, tools_used, industry_context,
        total_reuse, sessions, confidence, evidence, updated_at)
    VALUES (:group, :agent, :artifact, :hash, :title, :wordings, :common_steps, :tools_used, :industry_context,
        :total_reuse, :sessions, :confidence, :evidence, :now)
    ON CONFLICT (group_id, agent_id, artifact, pattern_hash) DO UPDATE SET title = excluded.title, wordings = excluded.wordings,
        common_steps = excluded.common_steps, tools_used = excluded.tools_used, industry_context = excluded.industry_context,
        total_reuse = excluded.total_reuse, sessions = excluded.sessions, confidence = excluded.confidence,
        evidence = excluded.evidence, updated_at = excluded.updated_at
""")
_MORE_EVIDENCE = text("""
    UPDATE artifacts SET evidence = :evidence, evidence_count = :count, updated_at = :now WHERE group_id = :group AND artifact_id = :id
""")
_SAVE = text("""
    INSERT INTO artifacts (artifact_id, group_id, agent_id, artifact, pattern_hash, name, description, triggers, tools, body,
        confidence, issues, status, enabled, evidence, evidence_count, created_at, updated_at)
    VALUES (:id, :group, :agent, :artifact, :hash, :name, :description, :triggers, :tools, :body,
        :confidence, :issues, :status, false, :evidence, :count, :now, :now)
    ON CONFLICT (artifact_id) DO UPDATE SET name = excluded.name, description = excluded.description, triggers = excluded.triggers,
        tools = excluded.tools, body = excluded.body, confidence = excluded.confidence, issues = excluded.issues,
        status = excluded.status, enabled = false, evidence = excluded.evidence, evidence_count = excluded.evidence_count,
        updated_at = excluded.updated_at
""").bindparams(bindparam("issues", type_=JSONB))
