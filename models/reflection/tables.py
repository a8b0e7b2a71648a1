"""The table of reflections."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import CheckConstraint, Index, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from models.db.base import EMPTY_LIST, NOW, Base, of_agent, partial_index


class ReflectionRow(Base):
    """One reflection of one agent, through all its attempts. Its id is part of its thoughts' ids.

    States: ``owed`` → ``running`` → ``done`` or ``nothing`` (``error`` says why); ``waiting`` between two
    attempts. An open reflection without pending work was given up: see the dead letters.
    """

    __tablename__ = "reflections"
    __table_args__ = (
        of_agent(),
        CheckConstraint(
            "trigger IN ('importance', 'schedule', 'request', 'conversation', 'conversations', 'hours')",
            name="trigger",
        ),
        CheckConstraint("state IN ('owed', 'running', 'waiting', 'done', 'nothing')", name="state"),
        Index(None, "group_id", "agent_id", "created_at"),
        # One at a time; a conversation's is the conversation's own.
        partial_index(
            "reflections_one_open_idx",
            "trigger <> 'conversation' AND state IN ('owed', 'running', 'waiting')",
            "group_id",
            "agent_id",
            unique=True,
        ),
    )

    #: Of a conversation: the id of the event that ended it.
    reflection_id: Mapped[UUID] = mapped_column(primary_key=True)
    group_id: Mapped[str] = mapped_column(primary_key=True)
    agent_id: Mapped[str]
    trigger: Mapped[str]
    state: Mapped[str]
    #: Also the token of the attempt: one that another has followed may not write any more.
    attempts: Mapped[int] = mapped_column(server_default=text("0"))
    created_at: Mapped[datetime] = mapped_column(server_default=NOW)
    started_at: Mapped[datetime | None]
    finished_at: Mapped[datetime | None]
    focal_points: Mapped[list[str]] = mapped_column(JSONB, server_default=EMPTY_LIST)
    #: How many came of it.
    thoughts: Mapped[int] = mapped_column(server_default=text("0"))
    #: What a self-review gave: patterns, improvements, proposals; NULL where there was none.
    findings: Mapped[dict[str, Any] | None]
    llm: Mapped[str | None]
    error: Mapped[str | None]
