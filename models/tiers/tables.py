"""Tables of quarantine, knowledge and digests."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from pgvector.sqlalchemy import VECTOR
from sqlalchemy import CheckConstraint, Index, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from models.db.base import EMPTY_OBJECT, NO_IDS, NO_TEXTS, NOW, Base, partial_index


class QuarantineLog(Base):
    """What a node of a workflow put out. Kept until it is deleted, never retrieved.

    Working memory has it too while ``working_until`` is to come and ``expired_at`` is not set: the list in
    Valkey is made from here when it is lost.
    """

    __tablename__ = "quarantine_logs"
    __table_args__ = (
        CheckConstraint("(embedding IS NULL) = (embedding_model IS NULL)", name="embedding_has_model"),
        Index("quarantine_logs_group_id_created_at_entry_id_idx", "group_id", "created_at", "entry_id"),
        Index("quarantine_logs_group_id_received_at_idx", "group_id", "received_at"),
        partial_index(
            "quarantine_logs_working_idx",
            "working_until IS NOT NULL AND expired_at IS NULL",
            "group_id",
            "working_until",
        ),
    )

    #: The id of the event that it came with.
    entry_id: Mapped[UUID] = mapped_column(primary_key=True)
    group_id: Mapped[str] = mapped_column(primary_key=True)
    #: Who spoke; no agent with memories of its own has to have this name.
    agent_id: Mapped[str]
    session_id: Mapped[str | None]
    node_id: Mapped[str]
    node_type: Mapped[str | None]
    node_name: Mapped[str | None]
    #: ``statement`` or ``verdict``.
    kind: Mapped[str]
    content: Mapped[str]
    #: Equal for texts that differ only in case, width or spaces (``jiyi.text.words.content_digest``).
    content_hash: Mapped[bytes]
    confidence: Mapped[float | None]
    #: As they came, and those that the filters added.
    flags: Mapped[list[str]] = mapped_column(server_default=NO_TEXTS)
    depth: Mapped[int] = mapped_column(server_default=text("0"))
    #: ``metadata`` is SQLAlchemy's own name.
    node_metadata: Mapped[dict[str, Any]] = mapped_column("metadata", JSONB, server_default=EMPTY_OBJECT)
    provenance: Mapped[dict[str, Any]] = mapped_column(server_default=EMPTY_OBJECT)
    created_at: Mapped[datetime]
    received_at: Mapped[datetime] = mapped_column(server_default=NOW)
    #: When the filters have decided; ``rejected_reason`` is NULL for what they let in.
    screened_at: Mapped[datetime | None]
    rejected_reason: Mapped[str | None]
    rejected_details: Mapped[dict[str, Any]] = mapped_column(server_default=EMPTY_OBJECT)
    #: When it leaves working memory at the latest.
    working_until: Mapped[datetime | None]
    embedding: Mapped[Any | None] = mapped_column(VECTOR())
    embedding_model: Mapped[str | None]
    #: When it left working memory: its time was over, newer entries took its place, or the LLM found a
    #: contradiction.
    expired_at: Mapped[datetime | None]
    promoted_at: Mapped[datetime | None]
    deleted_at: Mapped[datetime | None]


class KnowledgeRow(Base):
    """A piece of what somebody promoted: long-term memory of a group, or of one of its agents."""

    __tablename__ = "knowledge"
    __table_args__ = (
        CheckConstraint("(embedding IS NULL) = (embedding_model IS NULL)", name="embedding_has_model"),
        partial_index(
            "knowledge_known_idx",
            "demoted_at IS NULL",
            "group_id",
            text("coalesce(agent_id, '')"),
            "content_hash",
            unique=True,
        ),
        Index("knowledge_group_id_promoted_at_knowledge_id_idx", "group_id", "promoted_at", "knowledge_id"),
    )

    #: Follows from group, agent and content (``engine.tiers.quarantine.knowledge_id``).
    knowledge_id: Mapped[UUID] = mapped_column(primary_key=True)
    group_id: Mapped[str]
    #: NULL: the whole group's.
    agent_id: Mapped[str | None]
    session_id: Mapped[str | None]
    kind: Mapped[str]
    content: Mapped[str]
    content_hash: Mapped[bytes]
    #: What it is found by while it has no vector of the model in use (``jiyi.text.words``), between spaces.
    tokens: Mapped[str] = mapped_column(server_default=text("''"))
    embedding: Mapped[Any | None] = mapped_column(VECTOR())
    embedding_model: Mapped[str | None]
    source_metadata: Mapped[dict[str, Any]] = mapped_column("metadata", JSONB, server_default=EMPTY_OBJECT)
    created_at: Mapped[datetime] = mapped_column(server_default=NOW)
    promoted_at: Mapped[datetime]
    #: Taken back, or put into other words: not retrieved any more.
    demoted_at: Mapped[datetime | None]
    replaced_by: Mapped[UUID | None]


class KnowledgeChange(Base):
    """Who promoted, demoted or edited knowledge, and what it said before and after."""

    __tablename__ = "knowledge_history"
    __table_args__ = (
        Index(
            "knowledge_history_group_id_knowledge_id_history_id_idx", "group_id", "knowledge_id", "history_id"
        ),
    )

    history_id: Mapped[UUID] = mapped_column(primary_key=True)
    group_id: Mapped[str]
    knowledge_id: Mapped[UUID]
    #: ``promoted``, ``demoted`` or ``edited``.
    action: Mapped[str]
    actor: Mapped[str]
    reason: Mapped[str] = mapped_column(server_default=text("''"))
    at: Mapped[datetime] = mapped_column(server_default=NOW)
    before: Mapped[str | None]
    after: Mapped[str | None]


class DigestRow(Base):
    """What a group's quarantine was about in a span of time."""

    __tablename__ = "digests"
    __table_args__ = (Index("digests_group_id_digest_id_idx", "group_id", "digest_id"),)

    digest_id: Mapped[UUID] = mapped_column(primary_key=True)
    group_id: Mapped[str]
    since: Mapped[datetime]
    until: Mapped[datetime]
    #: Entries there were; of these too old to be looked at, and in clusters beyond those shown.
    entries: Mapped[int]
    older: Mapped[int] = mapped_column(server_default=text("0"))
    left_out: Mapped[int] = mapped_column(server_default=text("0"))
    created_at: Mapped[datetime] = mapped_column(server_default=NOW)
    created_by: Mapped[str]


class DigestItemRow(Base):
    """A cluster of a digest: entries that say similar things, and what they come to."""

    __tablename__ = "digest_items"

    digest_id: Mapped[UUID] = mapped_column(primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    group_id: Mapped[str]
    topic: Mapped[str]
    summary: Mapped[str]
    keywords: Mapped[list[str]] = mapped_column(server_default=NO_TEXTS)
    #: The similar entries, the most central first; and those that the summary rests on.
    entry_ids: Mapped[list[UUID]] = mapped_column(server_default=NO_IDS)
    evidence: Mapped[list[UUID]] = mapped_column(server_default=NO_IDS)
    sessions: Mapped[int] = mapped_column(server_default=text("1"))
    first_at: Mapped[datetime]
    last_at: Mapped[datetime]
    #: What summed it up.
    llm: Mapped[str | None]
