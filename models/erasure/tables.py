"""Tables of erasures and of the ids that one under way has found."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import CheckConstraint, ForeignKey, Index, text
from sqlalchemy.orm import Mapped, mapped_column

from models.db.base import EMPTY_OBJECT, NOW, Base, partial_index


class ErasureRow(Base):
    """An erasure, open or done. At its end nothing is left of names but their hashes."""

    __tablename__ = "erasures"
    __table_args__ = (
        CheckConstraint("kind IN ('agent', 'person', 'nodes')", name="kind"),
        CheckConstraint("state IN ('owed', 'running', 'incomplete', 'done')", name="state"),
        Index(None, "group_id", "erasure_id"),
        partial_index("erasures_open_idx", "state <> 'done'", "group_id"),
    )

    erasure_id: Mapped[UUID] = mapped_column(primary_key=True)
    group_id: Mapped[str]
    kind: Mapped[str]
    #: Whom or what it is about (``jiyi.protocol.erasure.Erasure``); at the end hashes and numbers.
    what: Mapped[dict[str, Any]]
    state: Mapped[str] = mapped_column(server_default=text("'owed'"))
    #: The step that comes next, where it stopped in it, and what the steps before it counted.
    step: Mapped[str] = mapped_column(server_default=text("''"))
    place: Mapped[dict[str, Any]] = mapped_column(server_default=EMPTY_OBJECT)
    requested_by: Mapped[str]
    created_at: Mapped[datetime] = mapped_column(server_default=NOW)
    finished_at: Mapped[datetime | None]
    report: Mapped[dict[str, Any] | None]


class ErasingId(Base):
    """A memory, event or reflection that an erasure under way has found."""

    __tablename__ = "erasing_ids"
    __table_args__ = (Index(None, "subject_id"),)

    erasure_id: Mapped[UUID] = mapped_column(
        ForeignKey("erasures.erasure_id", ondelete="CASCADE"), primary_key=True
    )
    subject_id: Mapped[UUID] = mapped_column(primary_key=True)
    group_id: Mapped[str]
    agent_id: Mapped[str]
