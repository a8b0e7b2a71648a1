"""Tables of conversations beside ``memory_nodes``."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import CheckConstraint, ForeignKey, Index, text
from sqlalchemy.orm import Mapped, mapped_column

from models.db.base import EMPTY_LIST, EMPTY_OBJECT, HOT, NO_IDS, NO_TEXTS, NOW, Base, of_agent, of_memory


class ExtractionCursor(Base):
    """How far an agent's turns are processed; moved in the transaction that stores what was extracted."""

    __tablename__ = "extraction_cursors"
    __table_args__ = (of_agent(), HOT)

    group_id: Mapped[str] = mapped_column(primary_key=True)
    agent_id: Mapped[str] = mapped_column(primary_key=True)
    #: ``node_count`` of the last processed turn.
    extracted_to: Mapped[int] = mapped_column(server_default=text("0"))
    #: The agent's ``node_count`` when the last of its sessions ended: turns up to it wait for nothing more.
    ended_at_count: Mapped[int] = mapped_column(server_default=text("0"))
    #: None before the first run.
    last_run_at: Mapped[datetime | None] = mapped_column(server_default=NOW)


class ExperienceRow(Base):
    """A problem, what was done about it and how that ended; its text is a memory of kind ``experience``."""

    __tablename__ = "experiences"
    __table_args__ = (
        of_agent(),
        CheckConstraint("outcome IN ('success', 'partial', 'failed')", name="outcome"),
        Index(None, "node_id"),
    )

    group_id: Mapped[str] = mapped_column(primary_key=True)
    agent_id: Mapped[str] = mapped_column(primary_key=True)
    #: SHA-256 of the normalised pain pattern: what experiences of the same problem are merged by.
    pattern_hash: Mapped[bytes] = mapped_column(primary_key=True)
    #: The current memory.
    node_id: Mapped[UUID]
    pain_pattern: Mapped[str]
    context: Mapped[str] = mapped_column(server_default=text("''"))
    solution_steps: Mapped[list[Any]] = mapped_column(server_default=EMPTY_LIST)
    outcome: Mapped[str]
    confidence: Mapped[float]
    #: How often it was reported again, or injected.
    reuse_count: Mapped[int] = mapped_column(server_default=text("0"))
    tools_used: Mapped[list[str]] = mapped_column(server_default=NO_TEXTS)
    industry_context: Mapped[str | None]
    created_at: Mapped[datetime]
    updated_at: Mapped[datetime]


class UserProfile(Base):
    """What is known about a user in general, to one agent."""

    __tablename__ = "user_profiles"
    __table_args__ = (of_agent(),)

    group_id: Mapped[str] = mapped_column(primary_key=True)
    agent_id: Mapped[str] = mapped_column(primary_key=True)
    #: Empty: nobody was named.
    user_id: Mapped[str] = mapped_column(primary_key=True)
    industry: Mapped[str | None]
    role: Mapped[str | None]
    expertise_level: Mapped[str | None]
    communication_style: Mapped[str | None]
    #: Newest first, each once.
    recent_topics: Mapped[list[str]] = mapped_column(server_default=NO_TEXTS)
    pain_points: Mapped[list[str]] = mapped_column(server_default=NO_TEXTS)
    preferred_tools: Mapped[list[str]] = mapped_column(server_default=NO_TEXTS)
    updated_at: Mapped[datetime]


class Injection(Base):
    """What was put before one answer, and why; the latest of each agent are kept."""

    __tablename__ = "injections"
    __table_args__ = (
        of_agent(),
        Index(None, "group_id", "injection_id"),
        Index(None, "group_id", "agent_id", "injection_id"),
    )

    injection_id: Mapped[UUID] = mapped_column(primary_key=True)
    group_id: Mapped[str]
    agent_id: Mapped[str]
    session_id: Mapped[str | None]
    user_id: Mapped[str | None]
    query: Mapped[str]
    intent: Mapped[str]
    tokens: Mapped[int]
    #: Milliseconds until it was noted; NULL before revision 0053.
    ms: Mapped[float | None]
    node_ids: Mapped[list[UUID]] = mapped_column(server_default=NO_IDS)
    #: Of each memory its score and tokens, in the order of ``node_ids``.
    reasons: Mapped[list[Any]] = mapped_column(server_default=EMPTY_LIST)
    created_at: Mapped[datetime] = mapped_column(server_default=NOW)


class JudgedTurn(Base):
    """What a person said of a turn: whether it is worth remembering. It goes with the turn."""

    __tablename__ = "judged_turns"
    __table_args__ = (of_memory(),)

    group_id: Mapped[str] = mapped_column(primary_key=True)
    node_id: Mapped[UUID] = mapped_column(primary_key=True)
    lasting: Mapped[bool]
    judged_at: Mapped[datetime] = mapped_column(server_default=NOW)


class SessionPrompt(Base):
    """What stays the same of a session's prompts, and what was recalled message by message."""

    __tablename__ = "session_prompts"
    __table_args__ = (of_agent(), Index(None, "made_at"))

    group_id: Mapped[str] = mapped_column(primary_key=True)
    agent_id: Mapped[str] = mapped_column(primary_key=True)
    #: Empty: nobody was named.
    user_id: Mapped[str] = mapped_column(primary_key=True, server_default=text("''"))
    session_id: Mapped[str] = mapped_column(primary_key=True)
    opening: Mapped[str] = mapped_column(server_default=text("''"))
    body: Mapped[str] = mapped_column(server_default=text("''"))
    #: The facts it states: the prompt is made again when one of these is withdrawn.
    facts: Mapped[list[str]] = mapped_column(server_default=NO_TEXTS)
    node_ids: Mapped[list[UUID]] = mapped_column(server_default=NO_IDS)
    #: What was recalled for each message: ``engine.conversations.stable.Recalled``.
    recalled: Mapped[list[Any]] = mapped_column(server_default=EMPTY_LIST)
    made_at: Mapped[datetime | None]


class IndustryKeywords(Base):
    """Words of a group's trade, with words of the same meaning."""

    __tablename__ = "industry_keywords"

    group_id: Mapped[str] = mapped_column(ForeignKey("groups.group_id", ondelete="CASCADE"), primary_key=True)
    industry: Mapped[str] = mapped_column(primary_key=True)
    #: Word → words of the same meaning.
    keywords: Mapped[dict[str, Any]] = mapped_column(server_default=EMPTY_OBJECT)
