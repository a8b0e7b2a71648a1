"""Tables of conversations beside ``memory_nodes``."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import CheckConstraint, ForeignKey, ForeignKeyConstraint, Index, Text, Uuid, text
from sqlalchemy.dialects.postgresql import ARRAY, BYTEA, JSONB
from sqlalchemy.orm import Mapped, mapped_column

from models.db.base import EMPTY_LIST, EMPTY_OBJECT, HOT, NOW, Base, Timestamp


def _of_agent() -> ForeignKeyConstraint:
    return ForeignKeyConstraint(
        ["group_id", "agent_id"], ["agents.group_id", "agents.agent_id"], ondelete="CASCADE"
    )


class ExtractionCursor(Base):
    """How far an agent's turns are processed; moved in the transaction that stores what was extracted."""

    __tablename__ = "extraction_cursors"
    __table_args__ = (_of_agent(), HOT)

    group_id: Mapped[str] = mapped_column(Text, primary_key=True)
    agent_id: Mapped[str] = mapped_column(Text, primary_key=True)
    #: ``node_count`` of the last processed turn.
    extracted_to: Mapped[int] = mapped_column(server_default=text("0"))
    #: The agent's ``node_count`` when the last of its sessions ended: turns up to it wait for nothing more.
    ended_at_count: Mapped[int] = mapped_column(server_default=text("0"))
    #: None before the first run.
    last_run_at: Mapped[datetime | None] = mapped_column(Timestamp, server_default=NOW)


class ExperienceRow(Base):
    """A problem, what was done about it and how that ended; its text is a memory of kind ``experience``."""

    __tablename__ = "experiences"
    __table_args__ = (
        _of_agent(),
        CheckConstraint("outcome IN ('success', 'partial', 'failed')", name="outcome"),
        Index(None, "node_id"),
    )

    group_id: Mapped[str] = mapped_column(Text, primary_key=True)
    agent_id: Mapped[str] = mapped_column(Text, primary_key=True)
    #: SHA-256 of the normalised pain pattern: what experiences of the same problem are merged by.
    pattern_hash: Mapped[bytes] = mapped_column(BYTEA, primary_key=True)
    #: The current memory.
    node_id: Mapped[UUID]
    pain_pattern: Mapped[str] = mapped_column(Text)
    context: Mapped[str] = mapped_column(Text, server_default=text("''"))
    solution_steps: Mapped[list[Any]] = mapped_column(JSONB, server_default=EMPTY_LIST)
    outcome: Mapped[str] = mapped_column(Text)
    confidence: Mapped[float]
    #: How often it was reported again, or injected.
    reuse_count: Mapped[int] = mapped_column(server_default=text("0"))
    tools_used: Mapped[list[str]] = mapped_column(ARRAY(Text), server_default=text("'{}'::text[]"))
    industry_context: Mapped[str | None] = mapped_column(Text)
    created_at: Mapped[datetime] = mapped_column(Timestamp)
    updated_at: Mapped[datetime] = mapped_column(Timestamp)


class UserProfile(Base):
    """What is known about a user in general, to one agent."""

    __tablename__ = "user_profiles"
    __table_args__ = (_of_agent(),)

    group_id: Mapped[str] = mapped_column(Text, primary_key=True)
    agent_id: Mapped[str] = mapped_column(Text, primary_key=True)
    #: Empty: nobody was named.
    user_id: Mapped[str] = mapped_column(Text, primary_key=True)
    industry: Mapped[str | None] = mapped_column(Text)
    role: Mapped[str | None] = mapped_column(Text)
    expertise_level: Mapped[str | None] = mapped_column(Text)
    communication_style: Mapped[str | None] = mapped_column(Text)
    #: Newest first, each once.
    recent_topics: Mapped[list[str]] = mapped_column(ARRAY(Text), server_default=text("'{}'::text[]"))
    pain_points: Mapped[list[str]] = mapped_column(ARRAY(Text), server_default=text("'{}'::text[]"))
    preferred_tools: Mapped[list[str]] = mapped_column(ARRAY(Text), server_default=text("'{}'::text[]"))
    updated_at: Mapped[datetime] = mapped_column(Timestamp)


class Injection(Base):
    """What was put before one answer, and why; the latest of each agent are kept."""

    __tablename__ = "injections"
    __table_args__ = (
        _of_agent(),
        Index(None, "group_id", "injection_id"),
        Index(None, "group_id", "agent_id", "injection_id"),
    )

    injection_id: Mapped[UUID] = mapped_column(primary_key=True)
    group_id: Mapped[str] = mapped_column(Text)
    agent_id: Mapped[str] = mapped_column(Text)
    session_id: Mapped[str | None] = mapped_column(Text)
    user_id: Mapped[str | None] = mapped_column(Text)
    query: Mapped[str] = mapped_column(Text)
    intent: Mapped[str] = mapped_column(Text)
    tokens: Mapped[int]
    #: Milliseconds until it was noted; NULL before revision 0053.
    ms: Mapped[float | None]
    node_ids: Mapped[list[UUID]] = mapped_column(ARRAY(Uuid), server_default=text("'{}'::uuid[]"))
    #: Of each memory its score and tokens, in the order of ``node_ids``.
    reasons: Mapped[list[Any]] = mapped_column(JSONB, server_default=EMPTY_LIST)
    created_at: Mapped[datetime] = mapped_column(Timestamp, server_default=NOW)


class JudgedTurn(Base):
    """What a person said of a turn: whether it is worth remembering. It goes with the turn."""

    __tablename__ = "judged_turns"
    __table_args__ = (
        ForeignKeyConstraint(
            ["node_id", "group_id"], ["memory_nodes.node_id", "memory_nodes.group_id"], ondelete="CASCADE"
        ),
    )

    group_id: Mapped[str] = mapped_column(Text, primary_key=True)
    node_id: Mapped[UUID] = mapped_column(primary_key=True)
    lasting: Mapped[bool]
    judged_at: Mapped[datetime] = mapped_column(Timestamp, server_default=NOW)


class SessionPrompt(Base):
    """What stays the same of a session's prompts, and what was recalled message by message."""

    __tablename__ = "session_prompts"
    __table_args__ = (_of_agent(), Index(None, "made_at"))

    group_id: Mapped[str] = mapped_column(Text, primary_key=True)
    agent_id: Mapped[str] = mapped_column(Text, primary_key=True)
    #: Empty: nobody was named.
    user_id: Mapped[str] = mapped_column(Text, primary_key=True, server_default=text("''"))
    session_id: Mapped[str] = mapped_column(Text, primary_key=True)
    opening: Mapped[str] = mapped_column(Text, server_default=text("''"))
    body: Mapped[str] = mapped_column(Text, server_default=text("''"))
    #: The facts it states: the prompt is made again when one of these is withdrawn.
    facts: Mapped[list[str]] = mapped_column(ARRAY(Text), server_default=text("'{}'::text[]"))
    node_ids: Mapped[list[UUID]] = mapped_column(ARRAY(Uuid), server_default=text("'{}'::uuid[]"))
    #: What was recalled for each message: ``engine.conversations.stable.Recalled``.
    recalled: Mapped[list[Any]] = mapped_column(JSONB, server_default=EMPTY_LIST)
    made_at: Mapped[datetime | None] = mapped_column(Timestamp)


class IndustryKeywords(Base):
    """Words of a group's trade, with words of the same meaning."""

    __tablename__ = "industry_keywords"

    group_id: Mapped[str] = mapped_column(ForeignKey("groups.group_id", ondelete="CASCADE"), primary_key=True)
    industry: Mapped[str] = mapped_column(Text, primary_key=True)
    #: Word → words of the same meaning.
    keywords: Mapped[dict[str, Any]] = mapped_column(JSONB, server_default=EMPTY_OBJECT)
