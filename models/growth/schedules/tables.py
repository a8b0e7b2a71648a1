"""Tables of schedules and of their runs."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from sqlalchemy import CheckConstraint, ForeignKeyConstraint, Index, Text, text
from sqlalchemy.orm import Mapped, mapped_column

from models.db.base import HOT, NOW, Base, Timestamp


def of_agent() -> ForeignKeyConstraint:
    return ForeignKeyConstraint(["group_id", "agent_id"], ["agents.group_id", "agents.agent_id"], ondelete="CASCADE")


class Schedule(Base):
    """What an agent is to do at a time, or again and again."""

    __tablename__ = "schedules"
    __table_args__ = (
        of_agent(),
        CheckConstraint("kind IN ('cron', 'once', 'interval')", name="kind"),
        CheckConstraint("state IN ('active', 'paused', 'ended')", name="state"),
        CheckConstraint("target_type IN ('reminder', 'agent', 'hand', 'workflow')", name="target_type"),
        Index(None, "group_id", "agent_id", "schedule_id"),
        Index("schedules_due_idx", "next_run_at", postgresql_where=text("state = 'active'")),
        HOT,
    )

    schedule_id: Mapped[UUID] = mapped_column(primary_key=True)
    group_id: Mapped[str] = mapped_column(Text)
    agent_id: Mapped[str] = mapped_column(Text)
    state: Mapped[str] = mapped_column(Text, server_default=text("'active'"))
    kind: Mapped[str] = mapped_column(Text)
    cron: Mapped[str | None] = mapped_column(Text)
    at: Mapped[datetime | None] = mapped_column(Timestamp)
    every_seconds: Mapped[int | None]
    tz: Mapped[str] = mapped_column(Text)
    natural_description: Mapped[str] = mapped_column(Text, server_default=text("''"))
    confidence: Mapped[float] = mapped_column(server_default=text("1"))
    task_description: Mapped[str] = mapped_column(Text)
    target_type: Mapped[str] = mapped_column(Text, server_default=text("'reminder'"))
    target_id: Mapped[str | None] = mapped_column(Text)
    session_id: Mapped[str | None] = mapped_column(Text)
    created_at: Mapped[datetime] = mapped_column(Timestamp, server_default=NOW)
    next_run_at: Mapped[datetime | None] = mapped_column(Timestamp)
    #: The ``next_run_at`` that the work ``fire_schedule`` is owed for.
    owed_for: Mapped[datetime | None] = mapped_column(Timestamp)


class ScheduleRun(Base):
    """One run of a schedule, once for each time it was due."""

    __tablename__ = "schedule_runs"
    __table_args__ = (ForeignKeyConstraint(["schedule_id"], ["schedules.schedule_id"], ondelete="CASCADE"),)

    schedule_id: Mapped[UUID] = mapped_column(primary_key=True)
    due_at: Mapped[datetime] = mapped_column(Timestamp, primary_key=True)
    group_id: Mapped[str] = mapped_column(Text)
    fired_at: Mapped[datetime] = mapped_column(Timestamp)
    missed: Mapped[bool] = mapped_column(server_default=text("false"))
    #: It was noticed too late to be made good: nothing was delivered.
    skipped: Mapped[bool] = mapped_column(server_default=text("false"))
    alert_id: Mapped[UUID | None]
