"""Tables of schedules and their runs, heartbeats and their ticks, and alerts."""

from __future__ import annotations

from datetime import datetime, time
from typing import Any
from uuid import UUID

from sqlalchemy import CheckConstraint, ForeignKeyConstraint, Index, Time, text
from sqlalchemy.orm import Mapped, mapped_column

from models.db.base import EMPTY_OBJECT, HOT, NOW, Base, of_agent, partial_index


class ScheduleRow(Base):
    """What an agent is to do at a time, or again and again."""

    __tablename__ = "schedules"
    __table_args__ = (
        of_agent(),
        CheckConstraint("kind IN ('cron', 'once', 'interval')", name="kind"),
        CheckConstraint("state IN ('active', 'paused', 'ended')", name="state"),
        CheckConstraint("target_type IN ('reminder', 'agent', 'hand', 'workflow')", name="target_type"),
        Index(None, "group_id", "agent_id", "schedule_id"),
        partial_index("schedules_due_idx", "state = 'active'", "next_run_at"),
        HOT,
    )

    schedule_id: Mapped[UUID] = mapped_column(primary_key=True)
    group_id: Mapped[str]
    agent_id: Mapped[str]
    state: Mapped[str] = mapped_column(server_default=text("'active'"))
    kind: Mapped[str]
    cron: Mapped[str | None]
    at: Mapped[datetime | None]
    every_seconds: Mapped[int | None]
    tz: Mapped[str]
    natural_description: Mapped[str] = mapped_column(server_default=text("''"))
    confidence: Mapped[float] = mapped_column(server_default=text("1"))
    task_description: Mapped[str]
    target_type: Mapped[str] = mapped_column(server_default=text("'reminder'"))
    target_id: Mapped[str | None]
    session_id: Mapped[str | None]
    #: Who asked for it, if the agent talks with several people.
    user_id: Mapped[str | None]
    created_at: Mapped[datetime] = mapped_column(server_default=NOW)
    next_run_at: Mapped[datetime | None]
    #: The ``next_run_at`` for which ``fire_schedule`` work is pending.
    owed_for: Mapped[datetime | None]


class ScheduleRun(Base):
    """One run of a schedule, once for each time it was due."""

    __tablename__ = "schedule_runs"
    __table_args__ = (ForeignKeyConstraint(["schedule_id"], ["schedules.schedule_id"], ondelete="CASCADE"),)

    schedule_id: Mapped[UUID] = mapped_column(primary_key=True)
    due_at: Mapped[datetime] = mapped_column(primary_key=True)
    group_id: Mapped[str]
    fired_at: Mapped[datetime]
    missed: Mapped[bool] = mapped_column(server_default=text("false"))
    #: It was noticed too late to catch up: nothing was delivered.
    skipped: Mapped[bool] = mapped_column(server_default=text("false"))
    alert_id: Mapped[UUID | None]


class HeartbeatRow(Base):
    """How often an agent looks after itself, and how it speaks up."""

    __tablename__ = "heartbeats"
    __table_args__ = (
        of_agent(),
        CheckConstraint("channel IN ('ui', 'desktop', 'all')", name="channel"),
        CheckConstraint("proactivity IN ('silent', 'light', 'standard', 'autonomous')", name="proactivity"),
        partial_index("heartbeats_due_idx", "enabled", "next_tick_at"),
        HOT,
    )

    group_id: Mapped[str] = mapped_column(primary_key=True)
    agent_id: Mapped[str] = mapped_column(primary_key=True)
    agent_key: Mapped[UUID]
    enabled: Mapped[bool] = mapped_column(server_default=text("true"))
    interval_minutes: Mapped[int] = mapped_column(server_default=text("30"))
    #: Both or neither: without them no hour is quiet.
    quiet_from: Mapped[time | None] = mapped_column(Time, server_default=text("'22:00'"))
    quiet_to: Mapped[time | None] = mapped_column(Time, server_default=text("'08:00'"))
    channel: Mapped[str] = mapped_column(server_default=text("'ui'"))
    proactivity: Mapped[str] = mapped_column(server_default=text("'standard'"))
    max_alerts: Mapped[int] = mapped_column(server_default=text("5"))
    next_tick_at: Mapped[datetime | None]
    owed_for: Mapped[datetime | None]
    last_tick_at: Mapped[datetime | None]
    updated_at: Mapped[datetime] = mapped_column(server_default=NOW)


class HeartbeatTick(Base):
    """One tick, once for each time it was due; the latest of each agent are kept."""

    __tablename__ = "heartbeat_ticks"
    __table_args__ = (of_agent(), CheckConstraint("status IN ('ok', 'alert')", name="status"))

    group_id: Mapped[str] = mapped_column(primary_key=True)
    agent_id: Mapped[str] = mapped_column(primary_key=True)
    due_at: Mapped[datetime] = mapped_column(primary_key=True)
    ran_at: Mapped[datetime]
    status: Mapped[str]
    alerts: Mapped[int] = mapped_column(server_default=text("0"))
    quiet: Mapped[bool] = mapped_column(server_default=text("false"))
    #: Check → what it found.
    checks: Mapped[dict[str, Any]] = mapped_column(server_default=EMPTY_OBJECT)


class Alert(Base):
    """A reminder that was due, or what a heartbeat found: shown until it is acknowledged."""

    __tablename__ = "alerts"
    __table_args__ = (
        of_agent(),
        CheckConstraint("urgency IN ('low', 'medium', 'high')", name="urgency"),
        CheckConstraint("channel IN ('ui', 'desktop', 'all')", name="channel"),
        Index(None, "group_id", "agent_id", "alert_id"),
        partial_index("alerts_waiting_idx", "delivered_at IS NULL", "deliver_at"),
    )

    alert_id: Mapped[UUID] = mapped_column(primary_key=True)
    group_id: Mapped[str]
    agent_id: Mapped[str]
    #: ``schedule``, or the check that found it.
    source: Mapped[str]
    #: Distinguishes it from others of its source: the same alert is not created twice in a day.
    subject: Mapped[str] = mapped_column(server_default=text("''"))
    title: Mapped[str]
    content: Mapped[str]
    urgency: Mapped[str]
    channel: Mapped[str] = mapped_column(server_default=text("'ui'"))
    #: Of a schedule's: for whom it is, where it is no reminder.
    target_type: Mapped[str | None]
    target_id: Mapped[str | None]
    created_at: Mapped[datetime] = mapped_column(server_default=NOW)
    #: Not before: in quiet hours alerts wait.
    deliver_at: Mapped[datetime] = mapped_column(server_default=NOW)
    delivered_at: Mapped[datetime | None]
    acknowledged_at: Mapped[datetime | None]
