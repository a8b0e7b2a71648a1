"""Tables of what grows: patterns, artifacts (skills and workflows), votes on them, and their trust."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import ForeignKey, ForeignKeyConstraint, Index, Text, Uuid, text
from sqlalchemy.dialects.postgresql import ARRAY, BYTEA, JSONB
from sqlalchemy.orm import Mapped, mapped_column

from models.db.base import EMPTY_LIST, NOW, Base, Timestamp

NO_TEXTS, NO_IDS = text("'{}'::text[]"), text("'{}'::uuid[]")


def _of_agent() -> ForeignKeyConstraint:
    return ForeignKeyConstraint(["group_id", "agent_id"], ["agents.group_id", "agents.agent_id"], ondelete="CASCADE")


class PatternRow(Base):
    """What experiences of one problem, or successful runs of one chain of tools, have in common."""

    __tablename__ = "patterns"
    __table_args__ = (_of_agent(),)

    group_id: Mapped[str] = mapped_column(Text, primary_key=True)
    agent_id: Mapped[str] = mapped_column(Text, primary_key=True)
    #: What may come of it: ``skill`` or ``pipeline``.
    artifact: Mapped[str] = mapped_column(Text, primary_key=True)
    pattern_hash: Mapped[bytes] = mapped_column(BYTEA, primary_key=True)
    title: Mapped[str] = mapped_column(Text)
    wordings: Mapped[list[str]] = mapped_column(ARRAY(Text), server_default=NO_TEXTS)
    common_steps: Mapped[list[str]] = mapped_column(ARRAY(Text), server_default=NO_TEXTS)
    tools_used: Mapped[list[str]] = mapped_column(ARRAY(Text), server_default=NO_TEXTS)
    industry_context: Mapped[str | None] = mapped_column(Text)
    total_reuse: Mapped[int]
    sessions: Mapped[int] = mapped_column(server_default=text("0"))
    confidence: Mapped[float]
    #: Memories, or trajectories, that it rests on.
    evidence: Mapped[list[UUID]] = mapped_column(ARRAY(Uuid), server_default=NO_IDS)
    updated_at: Mapped[datetime] = mapped_column(Timestamp)


class Artifact(Base):
    """A skill or a workflow, from candidate to archive; prompt text or YAML only, and disabled until somebody enables it."""

    __tablename__ = "artifacts"
    __table_args__ = (_of_agent(), Index("artifacts_once_idx", "group_id", "agent_id", "artifact", "pattern_hash", unique=True))

    artifact_id: Mapped[UUID] = mapped_column(primary_key=True)
    group_id: Mapped[str] = mapped_column(Text)
    agent_id: Mapped[str] = mapped_column(Text)
    artifact: Mapped[str] = mapped_column(Text)
    pattern_hash: Mapped[bytes] = mapped_column(BYTEA)
    name: Mapped[str] = mapped_column(Text)
    description: Mapped[str] = mapped_column(Text)
    triggers: Mapped[list[str]] = mapped_column(ARRAY(Text), server_default=NO_TEXTS)
    tools: Mapped[list[str]] = mapped_column(ARRAY(Text), server_default=NO_TEXTS)
    body: Mapped[str] = mapped_column(Text)
    confidence: Mapped[float]
    #: What the gate found.
    issues: Mapped[list[Any]] = mapped_column(JSONB, server_default=EMPTY_LIST)
    status: Mapped[str] = mapped_column(Text)
    enabled: Mapped[bool] = mapped_column(server_default=text("false"))
    evidence: Mapped[list[UUID]] = mapped_column(ARRAY(Uuid), server_default=NO_IDS)
    #: How often the pattern was seen; and how often it had been when it was decided upon.
    evidence_count: Mapped[int] = mapped_column(server_default=text("0"))
    decided_evidence: Mapped[int] = mapped_column(server_default=text("0"))
    decided_by: Mapped[str | None] = mapped_column(Text)
    decided_at: Mapped[datetime | None] = mapped_column(Timestamp)
    created_at: Mapped[datetime] = mapped_column(Timestamp, server_default=NOW)
    updated_at: Mapped[datetime] = mapped_column(Timestamp, server_default=NOW)


class VoteRow(Base):
    """One vote on an artifact, once."""

    __tablename__ = "feedback"
    __table_args__ = (_of_agent(), Index(None, "artifact_id"))

    group_id: Mapped[str] = mapped_column(Text, primary_key=True)
    #: That of the event, if it came as one.
    feedback_id: Mapped[UUID] = mapped_column(primary_key=True)
    agent_id: Mapped[str] = mapped_column(Text)
    artifact_id: Mapped[UUID] = mapped_column(ForeignKey("artifacts.artifact_id", ondelete="CASCADE"))
    signal: Mapped[str] = mapped_column(Text)
    sentiment: Mapped[str] = mapped_column(Text)
    comment: Mapped[str | None] = mapped_column(Text)
    given_by: Mapped[str] = mapped_column(Text)
    given_at: Mapped[datetime] = mapped_column(Timestamp)


class TrustRow(Base):
    """What the votes on an artifact come to."""

    __tablename__ = "trust"
    __table_args__ = (_of_agent(),)

    artifact_id: Mapped[UUID] = mapped_column(ForeignKey("artifacts.artifact_id", ondelete="CASCADE"), primary_key=True)
    group_id: Mapped[str] = mapped_column(Text)
    agent_id: Mapped[str] = mapped_column(Text)
    positive: Mapped[int] = mapped_column(server_default=text("0"))
    negative: Mapped[int] = mapped_column(server_default=text("0"))
    neutral: Mapped[int] = mapped_column(server_default=text("0"))
    #: ``(positive + 1) / (positive + negative + 2)``.
    score: Mapped[float]
    #: ``archive``, ``optimise`` or ``promote``; nothing acts on it.
    recommendation: Mapped[str | None] = mapped_column(Text)
    updated_at: Mapped[datetime] = mapped_column(Timestamp)
