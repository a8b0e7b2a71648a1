"""Tables of trajectories: raw steps, kept for some days, and what they were compressed to."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import ForeignKeyConstraint, Index, Text, Uuid, text
from sqlalchemy.dialects.postgresql import ARRAY, JSONB
from sqlalchemy.orm import Mapped, mapped_column

from models.db.base import EMPTY_LIST, NOW, Base, Timestamp


def _of_agent() -> ForeignKeyConstraint:
    return ForeignKeyConstraint(["group_id", "agent_id"], ["agents.group_id", "agents.agent_id"], ondelete="CASCADE")


class TrajectoryEvent(Base):
    """A step as it came."""

    __tablename__ = "trajectory_events"
    __table_args__ = (
        _of_agent(),
        Index(None, "group_id", "session_key", "step_index"),
        Index("trajectory_events_prune_idx", "received_at"),
        Index("trajectory_events_agent_idx", "group_id", "agent_id"),
    )

    group_id: Mapped[str] = mapped_column(Text, primary_key=True)
    event_id: Mapped[UUID] = mapped_column(primary_key=True)
    agent_id: Mapped[str] = mapped_column(Text)
    session_id: Mapped[str] = mapped_column(Text)
    #: Stands for agent and session where one column has to (``pending_work.subject_id``).
    session_key: Mapped[UUID]
    step_index: Mapped[int]
    step_type: Mapped[str] = mapped_column(Text)
    tool: Mapped[str | None] = mapped_column(Text)
    input_summary: Mapped[str] = mapped_column(Text)
    output_summary: Mapped[str] = mapped_column(Text)
    ok: Mapped[bool | None]
    tokens: Mapped[int | None]
    duration_ms: Mapped[int | None]
    occurred_at: Mapped[datetime] = mapped_column(Timestamp)
    received_at: Mapped[datetime] = mapped_column(Timestamp, server_default=NOW)
    #: Nothing that belongs to it is expected: its session has ended, or was compacted after it.
    closed: Mapped[bool] = mapped_column(server_default=text("false"))
    #: What it was compressed to.
    trajectory_id: Mapped[UUID | None]


class TrajectoryRow(Base):
    """What a session's steps came to."""

    __tablename__ = "trajectories"
    __table_args__ = (_of_agent(), Index(None, "group_id", "agent_id", "trajectory_id"))

    trajectory_id: Mapped[UUID] = mapped_column(primary_key=True)
    group_id: Mapped[str] = mapped_column(Text)
    agent_id: Mapped[str] = mapped_column(Text)
    session_id: Mapped[str] = mapped_column(Text)
    request_type: Mapped[str] = mapped_column(Text)
    request: Mapped[str] = mapped_column(Text)
    tools_used: Mapped[list[str]] = mapped_column(ARRAY(Text), server_default=text("'{}'::text[]"))
    #: How it ended: success, partial, failed, abandoned.
    completion: Mapped[str] = mapped_column(Text)
    satisfaction: Mapped[str | None] = mapped_column(Text)
    tokens: Mapped[int]
    steps: Mapped[int]
    duration_ms: Mapped[int]
    execution_chain: Mapped[list[Any]] = mapped_column(JSONB, server_default=EMPTY_LIST)
    #: Events that it was made of: an erasure of one takes it along.
    step_ids: Mapped[list[UUID]] = mapped_column(ARRAY(Uuid), server_default=text("'{}'::uuid[]"))
    started_at: Mapped[datetime] = mapped_column(Timestamp)
    ended_at: Mapped[datetime] = mapped_column(Timestamp)
    created_at: Mapped[datetime] = mapped_column(Timestamp, server_default=NOW)
