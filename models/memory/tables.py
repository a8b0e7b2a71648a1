"""Tables of events, agents and their memories."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from pgvector.sqlalchemy import VECTOR
from sqlalchemy import BigInteger, CheckConstraint, ForeignKey, Identity, Index, text
from sqlalchemy.dialects.postgresql import ARRAY, JSONB
from sqlalchemy.orm import Mapped, mapped_column

from jiyi.protocol.origins import DEFAULT_ORIGIN, ORIGINS, TRUST
from models.db.base import (
    EMPTY_LIST,
    EMPTY_OBJECT,
    HOT,
    NOW,
    XID8,
    Base,
    Timestamp,
    of_agent,
    of_memory,
    partial_index,
)


class Agent(Base):
    """An agent (``persona_name``) with its settings and counters. Its row is the lock of its writes."""

    __tablename__ = "agents"
    __table_args__ = (HOT,)

    group_id: Mapped[str] = mapped_column(ForeignKey("groups.group_id", ondelete="CASCADE"), primary_key=True)
    agent_id: Mapped[str] = mapped_column(primary_key=True)
    #: Stands for the agent where one column has to (``pending_work.subject_id``).
    agent_key: Mapped[UUID] = mapped_column(unique=True)
    settings: Mapped[dict[str, Any]] = mapped_column(server_default=EMPTY_OBJECT)
    #: Last numbers given out: of all nodes, and of each type.
    node_count: Mapped[int] = mapped_column(server_default=text("0"))
    type_counts: Mapped[dict[str, int]] = mapped_column(JSONB, server_default=EMPTY_OBJECT)
    #: Falls by the poignancy of each event; at 0 or below a reflection is due.
    importance_trigger_curr: Mapped[float]
    #: Events since the last reflection.
    importance_ele_n: Mapped[int] = mapped_column(server_default=text("0"))
    #: Too large for an index in memory: nodes with a higher ``node_count`` came with the mark ``large``, the
    #: others get it afterwards; ready when all have it and the indexes are made
    #: (``models/retrieval/enlargement.py``).
    large_from: Mapped[int | None]
    large_ready_at: Mapped[datetime | None]
    #: Raised by every erasure: an index in memory from before starts over (``models/memory/agents.py``).
    generation: Mapped[int] = mapped_column(BigInteger, server_default=text("0"))
    created_at: Mapped[datetime] = mapped_column(server_default=NOW)


class StoredEventRow(Base):
    """The inbox: every event that was accepted, once. Its primary key makes a second delivery a no-op.

    Ids are their senders' choice: unique within a group only, and first in the key for look-ups by them.
    """

    __tablename__ = "events"
    __table_args__ = (
        CheckConstraint("outcome IN ('stored', 'duplicate', 'applied', 'erased')", name="outcome"),
        Index(None, "group_id", "position"),
    )

    event_id: Mapped[UUID] = mapped_column(primary_key=True)
    #: Order of arrival.
    position: Mapped[int] = mapped_column(BigInteger, Identity(always=True))
    type: Mapped[str]
    version: Mapped[int]
    group_id: Mapped[str] = mapped_column(primary_key=True)
    agent_id: Mapped[str]
    session_id: Mapped[str | None]
    correlation_id: Mapped[str | None]
    occurred_at: Mapped[datetime]
    received_at: Mapped[datetime] = mapped_column(server_default=NOW)
    #: What was sent, less the vector (which the node keeps).
    payload: Mapped[dict[str, Any]]
    #: ``stored``: became a node; ``duplicate``: it would repeat one (``dedupe``, ``retention``); ``applied``:
    #: settings; ``erased``: only the id is left, so that the event cannot come back.
    outcome: Mapped[str]
    node_id: Mapped[UUID | None]


class MemoryNode(Base):
    """One memory. Nearly immutable once it has its embedding: what changes often is in ``node_access``."""

    __tablename__ = "memory_nodes"
    __table_args__ = (
        of_agent(),
        CheckConstraint("type IN ('event', 'thought', 'chat')", name="type"),
        CheckConstraint("(embedding IS NULL) = (embedding_model IS NULL)", name="embedding_has_model"),
        CheckConstraint("kind IN ('preference', 'knowledge', 'experience', 'session')", name="kind"),
        CheckConstraint("visibility IN ('user', 'agent')", name="visibility"),
        CheckConstraint(f"origin IN {ORIGINS}", name="origin"),
        Index(None, "group_id", "agent_id", "node_count", unique=True),
        Index(None, "group_id", "agent_id", "type", "type_count", unique=True),
        Index(None, "group_id", "agent_id", "content_hash"),
        Index(None, "group_id", "agent_id", "changed_xid"),
        partial_index(
            "memory_nodes_vector_by_text_idx",
            "embedding IS NOT NULL",
            "group_id",
            "key_hash",
            "embedding_model",
        ),
        Index("memory_nodes_keywords_idx", "keywords_lower", postgresql_using="gin"),
        # Of large agents only; their vectors' indexes are made by models/retrieval/enlargement.py, one a
        # model and size.
        Index(
            "memory_nodes_tokens_idx",
            text("string_to_array(tokens, ' ')"),
            postgresql_using="gin",
            postgresql_where=text("large"),
        ),
        partial_index("memory_nodes_times_idx", "large", "group_id", "agent_id", "created_at"),
        partial_index(
            "memory_nodes_poignancy_idx", "large", "group_id", "agent_id", text("coalesce(poignancy, 0) DESC")
        ),
        partial_index(
            "memory_nodes_expiring_idx",
            "archived_at IS NULL AND expires_at IS NOT NULL",
            "group_id",
            "agent_id",
            "expires_at",
        ),
        partial_index(
            "memory_nodes_once_idx",
            "uri IS NOT NULL AND kind <> 'session' AND superseded_at IS NULL",
            "group_id",
            "agent_id",
            "uri",
            "content_hash",
            unique=True,
        ),
        partial_index("memory_nodes_turns_idx", "kind = 'session'", "group_id", "agent_id", "node_count"),
        partial_index(
            "memory_nodes_superseded_by_idx", "superseded_by IS NOT NULL", "group_id", "superseded_by"
        ),
        partial_index(
            "memory_nodes_people_idx", "user_id IS NOT NULL", "group_id", "agent_id", "user_id", "node_count"
        ),
        partial_index(
            "memory_nodes_shared_idx",
            "large AND (user_id IS NULL OR visibility = 'agent')",
            "group_id",
            "agent_id",
            "node_count",
        ),
        partial_index(
            "memory_nodes_important_idx",
            "kind IS NOT NULL AND superseded_at IS NULL AND archived_at IS NULL",
            "group_id",
            "agent_id",
            "kind",
            text("poignancy DESC NULLS LAST"),
            text("created_at DESC"),
            text("node_count DESC"),
        ),
        partial_index("memory_nodes_health_idx", "health", "group_id", "agent_id", "created_at"),
        partial_index(
            "memory_nodes_archived_idx", "archived_at IS NOT NULL", "group_id", "agent_id", "node_count"
        ),
    )

    #: The id of the event that it came from.
    node_id: Mapped[UUID] = mapped_column(primary_key=True)
    group_id: Mapped[str] = mapped_column(primary_key=True)
    agent_id: Mapped[str]
    session_id: Mapped[str | None]
    type: Mapped[str]
    #: 1-based insertion index within the agent, and within the agent's nodes of this type.
    node_count: Mapped[int]
    type_count: Mapped[int]
    depth: Mapped[int]
    created_at: Mapped[datetime]
    stored_at: Mapped[datetime] = mapped_column(server_default=NOW)
    expires_at: Mapped[datetime | None]
    archived_at: Mapped[datetime | None]
    #: When the database heard that it is superseded (set by a trigger): ``superseded_at`` is the agent's
    #: time.
    superseded_since: Mapped[datetime | None]
    #: ``expired``, ``faded`` or ``chosen`` by somebody (``models.memory.archive``).
    archived_reason: Mapped[str | None]
    subject: Mapped[str | None]
    predicate: Mapped[str | None]
    object: Mapped[str | None]
    description: Mapped[str]
    embedding_key: Mapped[str]
    key_hash: Mapped[bytes]
    #: Of the normalised description, and of whose it is (``engine.memory.Derived``).
    content_hash: Mapped[bytes]
    #: As they were given, and lower-cased for look-ups.
    keywords: Mapped[list[str]]
    keywords_lower: Mapped[list[str]]
    #: What lexical search knows the node by (``jiyi.text.words``), with repetitions, between spaces.
    tokens: Mapped[str] = mapped_column(server_default=text("''"))
    #: Whether the description has words of health (``engine.heads.judgements``).
    health: Mapped[bool] = mapped_column(server_default=text("false"))
    poignancy: Mapped[float | None]
    is_idle: Mapped[bool]
    #: Ids of the nodes it rests on, or a conversation as [speaker, utterance] pairs (``filling``).
    filling: Mapped[list[Any]] = mapped_column(server_default=EMPTY_LIST)
    provenance: Mapped[dict[str, Any]] = mapped_column(server_default=EMPTY_OBJECT)
    #: Of conversations: ``preference``, ``knowledge``, ``experience`` or ``session`` (a turn); NULL for all
    #: other memories.
    kind: Mapped[str | None]
    #: ``agent://{agent}/{kind}/{category}``; current content is there once, turns as often as they were
    #: said.
    uri: Mapped[str | None]
    #: It in three to five keywords (L0), and in one or two sentences (L1).
    abstract: Mapped[str | None]
    overview: Mapped[str | None]
    #: The newer memory that replaces or contradicts it (NULL once that is erased), and when that was said; of
    #: a turn: something said in it.
    superseded_by: Mapped[UUID | None]
    superseded_at: Mapped[datetime | None]
    #: The user of the agent that it comes from, and its visibility (NULL: that user alone; if there is none,
    #: all).
    user_id: Mapped[str | None]
    visibility: Mapped[str | None]
    #: Where it comes from, and how far it is trusted: at most as far as what it rests on
    #: (``jiyi.protocol.origins``).
    origin: Mapped[str] = mapped_column(server_default=text(f"'{DEFAULT_ORIGIN}'"))
    trust: Mapped[float] = mapped_column(server_default=text(str(TRUST[DEFAULT_ORIGIN])))
    #: No fixed size: vectors of several models may stand side by side, and are never compared.
    embedding: Mapped[Any | None] = mapped_column(VECTOR())
    embedding_model: Mapped[str | None]
    #: Of an agent too large for an index in memory (see ``agents.large_from``).
    large: Mapped[bool] = mapped_column(server_default=text("false"))
    #: The last transaction that changed the row: how an index in memory finds what is new to it.
    changed_xid: Mapped[int] = mapped_column(XID8, server_default=text("pg_current_xact_id()"))


class NodeAccess(Base):
    """The hot columns of a node, in a narrow table: an update here rewrites no vector."""

    __tablename__ = "node_access"
    __table_args__ = (of_memory(), HOT)

    node_id: Mapped[UUID] = mapped_column(primary_key=True)
    group_id: Mapped[str] = mapped_column(primary_key=True)
    last_accessed: Mapped[datetime]
    access_count: Mapped[int] = mapped_column(server_default=text("0"))
    #: The last times at which it was accessed, in the order in which they were written
    #: (``models.memory.access.RECENT``).
    recent: Mapped[list[datetime]] = mapped_column(ARRAY(Timestamp), server_default=text("'{}'"))


class KeywordStrengthRow(Base):
    """How often a keyword was met. Recomputable from the nodes."""

    __tablename__ = "kw_strength"
    __table_args__ = (
        of_agent(),
        CheckConstraint("memory_type IN ('event', 'thought')", name="memory_type"),
        HOT,
    )

    group_id: Mapped[str] = mapped_column(primary_key=True)
    agent_id: Mapped[str] = mapped_column(primary_key=True)
    memory_type: Mapped[str] = mapped_column(primary_key=True)
    keyword: Mapped[str] = mapped_column(primary_key=True)
    strength: Mapped[int]
