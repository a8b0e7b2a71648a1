"""Tables of pain points: what hurts, who said so, what is proposed against it."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from sqlalchemy import CheckConstraint, ForeignKeyConstraint, Index, Text, text
from sqlalchemy.orm import Mapped, mapped_column

from models.db.base import HOT, NOW, Base, Timestamp


def of_agent() -> ForeignKeyConstraint:
    """What is an agent's goes with it."""
    return ForeignKeyConstraint(["group_id", "agent_id"], ["agents.group_id", "agents.agent_id"], ondelete="CASCADE")


def _of_pain() -> ForeignKeyConstraint:
    return ForeignKeyConstraint(["pain_id", "group_id"], ["pain_points.pain_id", "pain_points.group_id"], ondelete="CASCADE")


class PainCursor(Base):
    """How far an agent's turns were looked through for pain; moved in the transaction that stores what they told."""

    __tablename__ = "pain_cursors"
    __table_args__ = (of_agent(), HOT)

    group_id: Mapped[str] = mapped_column(Text, primary_key=True)
    agent_id: Mapped[str] = mapped_column(Text, primary_key=True)
    #: ``node_count`` of the last turn that was looked through.
    looked_to: Mapped[int] = mapped_column(server_default=text("0"))


class PainPoint(Base):
    """What hurts a user of an agent; alike ones are one."""

    __tablename__ = "pain_points"
    __table_args__ = (
        of_agent(),
        CheckConstraint("status IN ('open', 'proposed', 'solved', 'dismissed')", name="status"),
        CheckConstraint("severity IN ('low', 'medium', 'high')", name="severity"),
        Index(None, "group_id", "agent_id", "last_seen"),
    )

    pain_id: Mapped[UUID] = mapped_column(primary_key=True)
    group_id: Mapped[str] = mapped_column(Text, primary_key=True)
    agent_id: Mapped[str] = mapped_column(Text)
    #: Whom it hurts: the agent's user, unless named.
    user_id: Mapped[str] = mapped_column(Text)
    summary: Mapped[str] = mapped_column(Text)
    category: Mapped[str] = mapped_column(Text, server_default=text("'other'"))
    severity: Mapped[str] = mapped_column(Text, server_default=text("'medium'"))
    #: Distinct turns, or reports, that told of it since it was last solved.
    occurrence_count: Mapped[int] = mapped_column(server_default=text("0"))
    confidence: Mapped[float] = mapped_column(server_default=text("0"))
    status: Mapped[str] = mapped_column(Text, server_default=text("'open'"))
    first_seen: Mapped[datetime] = mapped_column(Timestamp)
    last_seen: Mapped[datetime] = mapped_column(Timestamp)
    #: Evidence up to then was answered by a proposal that helped.
    solved_at: Mapped[datetime | None] = mapped_column(Timestamp)


class PainEvidence(Base):
    """A turn, or a report, that told of a pain point: each once."""

    __tablename__ = "pain_evidence"
    __table_args__ = (_of_pain(), Index(None, "group_id", "source_id"))

    group_id: Mapped[str] = mapped_column(Text, primary_key=True)
    pain_id: Mapped[UUID] = mapped_column(primary_key=True)
    #: The turn's memory, or a report's own id.
    source_id: Mapped[UUID] = mapped_column(primary_key=True)
    session_id: Mapped[str | None] = mapped_column(Text)
    quote: Mapped[str] = mapped_column(Text)
    said_at: Mapped[datetime] = mapped_column(Timestamp)


class Proposal(Base):
    """What might be done about a pain point; nothing comes of it before somebody confirms it."""

    __tablename__ = "proposals"
    __table_args__ = (
        _of_pain(),
        CheckConstraint("status IN ('pending', 'confirmed', 'rejected')", name="status"),
        Index("proposals_one_pending_idx", "group_id", "pain_id", unique=True, postgresql_where=text("status = 'pending'")),
    )

    proposal_id: Mapped[UUID] = mapped_column(primary_key=True)
    group_id: Mapped[str] = mapped_column(Text, primary_key=True)
    pain_id: Mapped[UUID]
    title: Mapped[str] = mapped_column(Text)
    status: Mapped[str] = mapped_column(Text, server_default=text("'pending'"))
    #: Which LLM made it, by which prompt; or who did.
    made_by: Mapped[str] = mapped_column(Text)
    #: How many turns had told of the pain by then: a rejected one comes back when they double.
    turns: Mapped[int] = mapped_column(server_default=text("0"))
    created_at: Mapped[datetime] = mapped_column(Timestamp, server_default=NOW)
    decided_at: Mapped[datetime | None] = mapped_column(Timestamp)
    decided_by: Mapped[str | None] = mapped_column(Text)


class ProposalStep(Base):
    """One step of a proposal."""

    __tablename__ = "proposal_steps"
    __table_args__ = (
        ForeignKeyConstraint(["proposal_id", "group_id"], ["proposals.proposal_id", "proposals.group_id"], ondelete="CASCADE"),
    )

    group_id: Mapped[str] = mapped_column(Text, primary_key=True)
    proposal_id: Mapped[UUID] = mapped_column(primary_key=True)
    #: From 1.
    number: Mapped[int] = mapped_column(primary_key=True)
    step: Mapped[str] = mapped_column(Text)
