"""Tables of growth: trajectories, patterns, proposals, votes, pain points, identity, self-review, tallies."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Boolean, CheckConstraint, ForeignKey, ForeignKeyConstraint, Index, text
from sqlalchemy.orm import Mapped, mapped_column

from models.db.base import EMPTY_LIST, HOT, NO_IDS, NO_TEXTS, NOW, Base, of_agent, partial_index


class TrajectoryEvent(Base):
    """A step as it came."""

    __tablename__ = "trajectory_events"
    __table_args__ = (
        of_agent(),
        Index(None, "group_id", "session_key", "step_index"),
        Index("trajectory_events_prune_idx", "received_at"),
        Index("trajectory_events_agent_idx", "group_id", "agent_id"),
    )

    group_id: Mapped[str] = mapped_column(primary_key=True)
    event_id: Mapped[UUID] = mapped_column(primary_key=True)
    agent_id: Mapped[str]
    session_id: Mapped[str]
    #: Stands for agent and session where one column has to (``pending_work.subject_id``).
    session_key: Mapped[UUID]
    step_index: Mapped[int]
    step_type: Mapped[str]
    tool: Mapped[str | None]
    input_summary: Mapped[str]
    output_summary: Mapped[str]
    ok: Mapped[bool | None]
    tokens: Mapped[int | None]
    duration_ms: Mapped[int | None]
    occurred_at: Mapped[datetime]
    received_at: Mapped[datetime] = mapped_column(server_default=NOW)
    #: Nothing that belongs to it is expected: its session has ended, or was compacted after it.
    closed: Mapped[bool] = mapped_column(server_default=text("false"))
    #: What it was compressed to.
    trajectory_id: Mapped[UUID | None]


class TrajectoryRow(Base):
    """What a session's steps came to."""

    __tablename__ = "trajectories"
    __table_args__ = (of_agent(), Index(None, "group_id", "agent_id", "trajectory_id"))

    trajectory_id: Mapped[UUID] = mapped_column(primary_key=True)
    group_id: Mapped[str]
    agent_id: Mapped[str]
    session_id: Mapped[str]
    request_type: Mapped[str]
    request: Mapped[str]
    tools_used: Mapped[list[str]] = mapped_column(server_default=NO_TEXTS)
    #: How it ended: success, partial, failed, abandoned.
    completion: Mapped[str]
    satisfaction: Mapped[str | None]
    tokens: Mapped[int]
    steps: Mapped[int]
    duration_ms: Mapped[int]
    execution_chain: Mapped[list[Any]] = mapped_column(server_default=EMPTY_LIST)
    #: Events that it was made of: an erasure of one takes it along.
    step_ids: Mapped[list[UUID]] = mapped_column(server_default=NO_IDS)
    started_at: Mapped[datetime]
    ended_at: Mapped[datetime]
    created_at: Mapped[datetime] = mapped_column(server_default=NOW)


class PatternRow(Base):
    """What experiences of one problem, or successful runs of one chain of tools, have in common."""

    __tablename__ = "patterns"
    __table_args__ = (of_agent(),)

    group_id: Mapped[str] = mapped_column(primary_key=True)
    agent_id: Mapped[str] = mapped_column(primary_key=True)
    #: What may come of it: ``skill`` or ``pipeline``.
    artifact: Mapped[str] = mapped_column(primary_key=True)
    pattern_hash: Mapped[bytes] = mapped_column(primary_key=True)
    title: Mapped[str]
    wordings: Mapped[list[str]] = mapped_column(server_default=NO_TEXTS)
    common_steps: Mapped[list[str]] = mapped_column(server_default=NO_TEXTS)
    tools_used: Mapped[list[str]] = mapped_column(server_default=NO_TEXTS)
    industry_context: Mapped[str | None]
    total_reuse: Mapped[int]
    sessions: Mapped[int] = mapped_column(server_default=text("0"))
    confidence: Mapped[float]
    #: Memories, or trajectories, that it rests on.
    evidence: Mapped[list[UUID]] = mapped_column(server_default=NO_IDS)
    updated_at: Mapped[datetime]


def of_pain() -> ForeignKeyConstraint:
    return ForeignKeyConstraint(
        ["pain_id", "group_id"], ["pain_points.pain_id", "pain_points.group_id"], ondelete="CASCADE"
    )


class ProposalRow(Base):
    """A skill, a workflow, a change of a file or a solution: nothing comes of it before somebody approves it.

    A skill or a workflow, known by its pattern, lives on here, approved and still to be enabled; it is prompt
    text or YAML only.
    """

    __tablename__ = "proposals"
    __table_args__ = (
        of_agent(),
        of_pain(),
        CheckConstraint("kind IN ('skill', 'pipeline', 'identity', 'solution')", name="kind"),
        CheckConstraint(
            "status IN ('refused', 'pending', 'approved', 'rejected', 'archived', 'deleted')", name="status"
        ),
        Index("proposals_once_idx", "group_id", "agent_id", "kind", "pattern_hash", unique=True),
        partial_index("proposals_one_pending_idx", "status = 'pending'", "group_id", "pain_id", unique=True),
    )

    proposal_id: Mapped[UUID] = mapped_column(primary_key=True)
    group_id: Mapped[str]
    agent_id: Mapped[str]
    kind: Mapped[str]
    #: The user who said its evidence in private, and the only one it is visible to (NULL: visible to all).
    user_id: Mapped[str | None]
    #: The pattern that a skill or a workflow came of; the pain point that a solution is for.
    pattern_hash: Mapped[bytes | None]
    pain_id: Mapped[UUID | None]
    #: What it says: the fields that the model of its kind (``jiyi.protocol.proposals``) has beside the
    #: columns.
    content: Mapped[dict[str, Any]]
    reason: Mapped[str] = mapped_column(server_default=text("''"))
    status: Mapped[str] = mapped_column(server_default=text("'pending'"))
    enabled: Mapped[bool] = mapped_column(server_default=text("false"))
    #: Memories, or trajectories, that it rests on.
    evidence: Mapped[list[UUID]] = mapped_column(server_default=NO_IDS)
    #: How often it was seen; and how often it had been when it was decided upon: what was rejected comes back
    #: when that doubles.
    evidence_count: Mapped[int] = mapped_column(server_default=text("0"))
    decided_evidence: Mapped[int] = mapped_column(server_default=text("0"))
    #: Which LLM made it, by which prompt; or who did.
    made_by: Mapped[str]
    created_at: Mapped[datetime] = mapped_column(server_default=NOW)
    updated_at: Mapped[datetime] = mapped_column(server_default=NOW)
    decided_at: Mapped[datetime | None]
    decided_by: Mapped[str | None]
    #: The comment given with the decision.
    note: Mapped[str] = mapped_column(server_default=text("''"))


class VoteRow(Base):
    """One vote on an artifact, once."""

    __tablename__ = "feedback"
    __table_args__ = (of_agent(), Index(None, "artifact_id"))

    group_id: Mapped[str] = mapped_column(primary_key=True)
    #: That of the event, if it came as one.
    feedback_id: Mapped[UUID] = mapped_column(primary_key=True)
    agent_id: Mapped[str]
    artifact_id: Mapped[UUID] = mapped_column(ForeignKey("proposals.proposal_id", ondelete="CASCADE"))
    signal: Mapped[str]
    sentiment: Mapped[str]
    comment: Mapped[str | None]
    given_by: Mapped[str]
    given_at: Mapped[datetime]


class TrustRow(Base):
    """What the votes on an artifact come to."""

    __tablename__ = "trust"
    __table_args__ = (of_agent(),)

    artifact_id: Mapped[UUID] = mapped_column(
        ForeignKey("proposals.proposal_id", ondelete="CASCADE"), primary_key=True
    )
    group_id: Mapped[str]
    agent_id: Mapped[str]
    positive: Mapped[int] = mapped_column(server_default=text("0"))
    negative: Mapped[int] = mapped_column(server_default=text("0"))
    neutral: Mapped[int] = mapped_column(server_default=text("0"))
    #: ``(positive + 1) / (positive + negative + 2)``.
    score: Mapped[float]
    #: ``archive``, ``optimise`` or ``promote``; nothing acts on it.
    recommendation: Mapped[str | None]
    updated_at: Mapped[datetime]


class PainCursor(Base):
    """How far an agent's turns were processed for pain points; moved together with storing those."""

    __tablename__ = "pain_cursors"
    __table_args__ = (of_agent(), HOT)

    group_id: Mapped[str] = mapped_column(primary_key=True)
    agent_id: Mapped[str] = mapped_column(primary_key=True)
    #: ``node_count`` of the last processed turn.
    looked_to: Mapped[int] = mapped_column(server_default=text("0"))


class PainPointRow(Base):
    """A problem of a user of an agent; similar ones are merged."""

    __tablename__ = "pain_points"
    __table_args__ = (
        of_agent(),
        CheckConstraint("status IN ('open', 'proposed', 'solved', 'dismissed')", name="status"),
        CheckConstraint("severity IN ('low', 'medium', 'high')", name="severity"),
        Index(None, "group_id", "agent_id", "last_seen"),
    )

    pain_id: Mapped[UUID] = mapped_column(primary_key=True)
    group_id: Mapped[str] = mapped_column(primary_key=True)
    agent_id: Mapped[str]
    #: Whom it hurts; None if nobody was named.
    user_id: Mapped[str | None]
    summary: Mapped[str]
    category: Mapped[str] = mapped_column(server_default=text("'other'"))
    severity: Mapped[str] = mapped_column(server_default=text("'medium'"))
    #: Distinct turns, or reports, that are evidence of it since it was last solved.
    occurrence_count: Mapped[int] = mapped_column(server_default=text("0"))
    confidence: Mapped[float] = mapped_column(server_default=text("0"))
    status: Mapped[str] = mapped_column(server_default=text("'open'"))
    first_seen: Mapped[datetime]
    last_seen: Mapped[datetime]
    #: Evidence up to then was answered by a proposal that helped.
    solved_at: Mapped[datetime | None]


class PainEvidenceRow(Base):
    """A turn, or a report, as evidence of a pain point: each once."""

    __tablename__ = "pain_evidence"
    __table_args__ = (of_pain(), Index(None, "group_id", "source_id"))

    group_id: Mapped[str] = mapped_column(primary_key=True)
    pain_id: Mapped[UUID] = mapped_column(primary_key=True)
    #: The turn's memory, or a report's own id.
    source_id: Mapped[UUID] = mapped_column(primary_key=True)
    session_id: Mapped[str | None]
    quote: Mapped[str]
    said_at: Mapped[datetime]


_FILES = "file IN ('SOUL', 'AGENTS', 'USER', 'HEARTBEAT')"


class IdentityVersion(Base):
    """A version of a file; the latest is current. Two concurrent approvals collide on its key."""

    __tablename__ = "identity_versions"
    __table_args__ = (
        of_agent(),
        CheckConstraint(_FILES, name="file"),
        CheckConstraint("version > 0", name="version"),
    )

    group_id: Mapped[str] = mapped_column(primary_key=True)
    agent_id: Mapped[str] = mapped_column(primary_key=True)
    file: Mapped[str] = mapped_column(primary_key=True)
    #: From 1.
    version: Mapped[int] = mapped_column(primary_key=True)
    content: Mapped[str]
    reason: Mapped[str] = mapped_column(server_default=text("''"))
    author: Mapped[str]
    #: The proposal that was approved, if it came of one.
    proposal_id: Mapped[UUID | None]
    created_at: Mapped[datetime] = mapped_column(server_default=NOW)


class IdentitySnapshot(Base):
    """The versions of all files that were current at a moment that somebody may want to go back to."""

    __tablename__ = "identity_snapshots"
    __table_args__ = (of_agent(), Index(None, "group_id", "agent_id", "created_at"))

    snapshot_id: Mapped[UUID] = mapped_column(primary_key=True)
    group_id: Mapped[str] = mapped_column(primary_key=True)
    agent_id: Mapped[str]
    name: Mapped[str]
    #: File → version.
    versions: Mapped[dict[str, Any]]
    author: Mapped[str]
    created_at: Mapped[datetime] = mapped_column(server_default=NOW)


_TRUE, _FALSE = text("true"), text("false")


class SelfReflectionRow(Base):
    """An agent's settings (NULL: the deployment's), and what has happened since its last self-review."""

    __tablename__ = "self_reflections"
    __table_args__ = (
        of_agent(),
        CheckConstraint("conversations >= 0 AND hours >= 0", name="bounds"),
        Index(None, "last_at"),
        HOT,
    )

    group_id: Mapped[str] = mapped_column(primary_key=True)
    agent_id: Mapped[str] = mapped_column(primary_key=True)
    conversations: Mapped[int | None]
    hours: Mapped[int | None]
    #: Proposals wait for somebody.
    require_approval: Mapped[bool] = mapped_column(Boolean, server_default=_TRUE)
    #: The agent may propose changes of its SOUL.
    allow_soul_modification: Mapped[bool] = mapped_column(Boolean, server_default=_FALSE)
    #: Ask the LLM; and have the rules answer while it is away.
    use_llm: Mapped[bool] = mapped_column(Boolean, server_default=_TRUE)
    fallback: Mapped[bool] = mapped_column(Boolean, server_default=_TRUE)
    #: Conversations that have ended since, ``node_count`` of the last turn that was seen, when that was.
    ended: Mapped[int] = mapped_column(server_default=text("0"))
    seen_to: Mapped[int] = mapped_column(server_default=text("0"))
    last_at: Mapped[datetime] = mapped_column(server_default=NOW)
    #: Somebody asked for one.
    asked: Mapped[bool] = mapped_column(Boolean, server_default=_FALSE)


class GrowthTally(Base):
    """How many of a kind of thing an agent grew on a day (UTC), and how often one was used."""

    __tablename__ = "growth_tallies"
    __table_args__ = (of_agent(), HOT)

    group_id: Mapped[str] = mapped_column(primary_key=True)
    agent_id: Mapped[str] = mapped_column(primary_key=True)
    day: Mapped[date] = mapped_column(primary_key=True)
    #: Such as ``experience``, ``pain``, ``proposal``, ``identity``, ``thought``.
    what: Mapped[str] = mapped_column(primary_key=True)
    grown: Mapped[int] = mapped_column(server_default=text("0"))
    used: Mapped[int] = mapped_column(server_default=text("0"))
