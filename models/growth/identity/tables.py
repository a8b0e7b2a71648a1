"""Tables of identity: each version of each file, proposals to change one, snapshots of all."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import CheckConstraint, Index, Text, Uuid, text
from sqlalchemy.dialects.postgresql import ARRAY, JSONB
from sqlalchemy.orm import Mapped, mapped_column

from models.db.base import NOW, Base, Timestamp
from models.growth.pains.tables import of_agent

_FILES = "file IN ('SOUL', 'AGENTS', 'USER', 'HEARTBEAT')"


class IdentityVersion(Base):
    """A file as it was from some moment on; the latest version is in force. Its key is what two approvals at once collide on."""

    __tablename__ = "identity_versions"
    __table_args__ = (of_agent(), CheckConstraint(_FILES, name="file"), CheckConstraint("version > 0", name="version"))

    group_id: Mapped[str] = mapped_column(Text, primary_key=True)
    agent_id: Mapped[str] = mapped_column(Text, primary_key=True)
    file: Mapped[str] = mapped_column(Text, primary_key=True)
    #: From 1.
    version: Mapped[int] = mapped_column(primary_key=True)
    content: Mapped[str] = mapped_column(Text)
    reason: Mapped[str] = mapped_column(Text, server_default=text("''"))
    author: Mapped[str] = mapped_column(Text)
    #: The proposal that was approved, if it came of one.
    proposal_id: Mapped[UUID | None]
    created_at: Mapped[datetime] = mapped_column(Timestamp, server_default=NOW)


class IdentityProposal(Base):
    """A file as somebody, or the agent itself, would have it, and why; it rests on the version that was in force then."""

    __tablename__ = "identity_proposals"
    __table_args__ = (
        of_agent(),
        CheckConstraint(_FILES, name="file"),
        CheckConstraint("status IN ('pending', 'approved', 'rejected')", name="status"),
        Index(None, "group_id", "agent_id", "created_at"),
    )

    proposal_id: Mapped[UUID] = mapped_column(primary_key=True)
    group_id: Mapped[str] = mapped_column(Text, primary_key=True)
    agent_id: Mapped[str] = mapped_column(Text)
    file: Mapped[str] = mapped_column(Text)
    reason: Mapped[str] = mapped_column(Text)
    #: What was in force: 0 for a file that was not there yet.
    base_version: Mapped[int] = mapped_column(server_default=text("0"))
    current: Mapped[str] = mapped_column(Text, server_default=text("''"))
    suggested: Mapped[str] = mapped_column(Text)
    status: Mapped[str] = mapped_column(Text, server_default=text("'pending'"))
    author: Mapped[str] = mapped_column(Text)
    #: Turns that it rests on, and the reflection that it came of.
    evidence: Mapped[list[UUID]] = mapped_column(ARRAY(Uuid), server_default=text("'{}'::uuid[]"))
    reflection_id: Mapped[UUID | None]
    created_at: Mapped[datetime] = mapped_column(Timestamp, server_default=NOW)
    decided_at: Mapped[datetime | None] = mapped_column(Timestamp)
    decided_by: Mapped[str | None] = mapped_column(Text)
    #: What whoever decided said about it.
    note: Mapped[str] = mapped_column(Text, server_default=text("''"))


class IdentitySnapshot(Base):
    """Which version of each file was in force at a moment that somebody may want to go back to."""

    __tablename__ = "identity_snapshots"
    __table_args__ = (of_agent(), Index(None, "group_id", "agent_id", "created_at"))

    snapshot_id: Mapped[UUID] = mapped_column(primary_key=True)
    group_id: Mapped[str] = mapped_column(Text, primary_key=True)
    agent_id: Mapped[str] = mapped_column(Text)
    name: Mapped[str] = mapped_column(Text)
    #: File → version.
    versions: Mapped[dict[str, Any]] = mapped_column(JSONB)
    author: Mapped[str] = mapped_column(Text)
    created_at: Mapped[datetime] = mapped_column(Timestamp, server_default=NOW)
