"""Tables of pending work, dead letters and runs of scheduled jobs."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import CheckConstraint, Index, text
from sqlalchemy.orm import Mapped, mapped_column

from models.db.base import EMPTY_OBJECT, HOT, NOW, Base


class PendingWork(Base):
    """Pending work. A row gone is an effect done, exactly once (design §3)."""

    __tablename__ = "pending_work"
    __table_args__ = (Index(None, "kind", "group_id", "due_at"), HOT)

    kind: Mapped[str] = mapped_column(primary_key=True)
    subject_id: Mapped[UUID] = mapped_column(primary_key=True)
    group_id: Mapped[str] = mapped_column(primary_key=True)
    #: Not before this; a claim moves it ahead by the lease, so that a dead worker's claim expires on its own.
    due_at: Mapped[datetime] = mapped_column(server_default=NOW)
    attempts: Mapped[int] = mapped_column(server_default=text("0"))
    last_error: Mapped[str | None]
    created_at: Mapped[datetime] = mapped_column(server_default=NOW)
    #: The trace in which it was enqueued: W3C's ``traceparent``.
    trace: Mapped[str | None]


class DeadLetterRow(Base):
    """What could not be done, with the reason, kept until somebody replays or discards it."""

    __tablename__ = "dead_letters"
    __table_args__ = (
        CheckConstraint("state IN ('open', 'replayed', 'discarded')", name="state"),
        Index(None, "state", "letter_id"),
        Index(None, "subject_id"),
    )

    letter_id: Mapped[UUID] = mapped_column(primary_key=True)
    #: ``intake`` for a message or event that was refused, else the kind of the work.
    kind: Mapped[str]
    #: The event or the subject of the work, where it is known.
    subject_id: Mapped[UUID | None]
    group_id: Mapped[str | None]
    reason: Mapped[str]
    traceback: Mapped[str | None]
    #: The refused event as it came, for ``intake``.
    body: Mapped[str | None]
    attempts: Mapped[int] = mapped_column(server_default=text("0"))
    state: Mapped[str] = mapped_column(server_default=text("'open'"))
    created_at: Mapped[datetime] = mapped_column(server_default=NOW)
    resolved_at: Mapped[datetime | None]


class JobTick(Base):
    """One run of a scheduled job. The primary key lets one of several beats win."""

    __tablename__ = "job_ticks"
    __table_args__ = (CheckConstraint("state IN ('running', 'done', 'failed')", name="state"),)

    job: Mapped[str] = mapped_column(primary_key=True)
    slot: Mapped[datetime] = mapped_column(primary_key=True)
    state: Mapped[str] = mapped_column(server_default=text("'done'"))
    #: A sentence, of a run that failed.
    error: Mapped[str | None]
    attempts: Mapped[int] = mapped_column(server_default=text("1"))
    started_at: Mapped[datetime] = mapped_column(server_default=NOW)
    #: A run that has not ended by then has died.
    due_by: Mapped[datetime | None]
    finished_at: Mapped[datetime | None]
    summary: Mapped[dict[str, Any]] = mapped_column(server_default=EMPTY_OBJECT)
