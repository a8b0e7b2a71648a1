"""The tables. Queries live beside what they serve, in the other modules of this folder."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any
from uuid import UUID

from pgvector.sqlalchemy import VECTOR
from sqlalchemy import BigInteger, CheckConstraint, Double, ForeignKey, ForeignKeyConstraint, Identity, Index, Text, Uuid, text
from sqlalchemy.dialects.postgresql import ARRAY, BYTEA, JSONB, TIMESTAMP
from sqlalchemy.orm import Mapped, mapped_column
from sqlalchemy.types import UserDefinedType

from models.db.connection import Base


class XID8(UserDefinedType[int]):
    """PostgreSQL's 64-bit transaction id."""

    cache_ok = True

    def get_col_spec(self, **_: Any) -> str:
        return "xid8"


Timestamp = TIMESTAMP(timezone=True)
NOW = text("now()")
EMPTY_OBJECT = text("'{}'::jsonb")
EMPTY_LIST = text("'[]'::jsonb")

#: Rows that are rewritten all the time: room for updates within the page, and an early vacuum.
HOT = {"postgresql_with": {"fillfactor": 70, "autovacuum_vacuum_scale_factor": 0.02}}


class Group(Base):
    """A tenant. Everything below belongs to exactly one."""

    __tablename__ = "groups"

    group_id: Mapped[str] = mapped_column(Text, primary_key=True)
    created_at: Mapped[datetime] = mapped_column(Timestamp, server_default=NOW)


class Agent(Base):
    """An agent (``persona_name``) with its settings and counters. Its row is the lock that orders its writes."""

    __tablename__ = "agents"
    __table_args__ = (HOT,)

    group_id: Mapped[str] = mapped_column(ForeignKey("groups.group_id", ondelete="CASCADE"), primary_key=True)
    agent_id: Mapped[str] = mapped_column(Text, primary_key=True)
    #: Stands for the agent where one column has to (``pending_work.subject_id``).
    agent_key: Mapped[UUID] = mapped_column(unique=True)
    settings: Mapped[dict[str, Any]] = mapped_column(JSONB, server_default=EMPTY_OBJECT)
    #: Last numbers given out (GA-15): of all nodes, and of each type.
    node_count: Mapped[int] = mapped_column(server_default=text("0"))
    type_counts: Mapped[dict[str, int]] = mapped_column(JSONB, server_default=EMPTY_OBJECT)
    #: Falls by the poignancy of each event; at 0 or below a reflection is owed (GA-48).
    importance_trigger_curr: Mapped[float]
    #: Events since the last reflection (GA-48).
    importance_ele_n: Mapped[int] = mapped_column(server_default=text("0"))
    #: Too large for an index in memory: nodes with a higher ``node_count`` came with the mark ``large``, the others get
    #: it afterwards; ready when all have it and the indexes are made (``models/retrieval/enlargement.py``).
    large_from: Mapped[int | None]
    large_ready_at: Mapped[datetime | None] = mapped_column(Timestamp)
    #: Raised by every erasure: an index in memory from before starts over (``models/memory/agents.py``).
    generation: Mapped[int] = mapped_column(BigInteger, server_default=text("0"))
    created_at: Mapped[datetime] = mapped_column(Timestamp, server_default=NOW)


class StoredEvent(Base):
    """The inbox: every event that was accepted, once. Its primary key makes a second delivery a no-op."""

    __tablename__ = "events"
    __table_args__ = (
        CheckConstraint("outcome IN ('stored', 'duplicate', 'applied', 'erased')", name="outcome"),
        Index(None, "group_id", "position"),
    )

    event_id: Mapped[UUID] = mapped_column(primary_key=True)
    #: Order of arrival.
    position: Mapped[int] = mapped_column(BigInteger, Identity(always=True))
    type: Mapped[str] = mapped_column(Text)
    version: Mapped[int]
    group_id: Mapped[str] = mapped_column(Text)
    agent_id: Mapped[str] = mapped_column(Text)
    session_id: Mapped[str | None] = mapped_column(Text)
    correlation_id: Mapped[str | None] = mapped_column(Text)
    occurred_at: Mapped[datetime] = mapped_column(Timestamp)
    received_at: Mapped[datetime] = mapped_column(Timestamp, server_default=NOW)
    #: What was sent, less the vector (which the node keeps).
    payload: Mapped[dict[str, Any]] = mapped_column(JSONB)
    #: ``stored``: became a node; ``duplicate``: it would repeat one (``dedupe``, ``retention``); ``applied``: settings;
    #: ``erased``: only the id is left, so that the event cannot come back.
    outcome: Mapped[str] = mapped_column(Text)
    node_id: Mapped[UUID | None]


class MemoryNode(Base):
    """One memory. Nearly immutable once the embedding is filled in: what changes often is in ``node_access``."""

    __tablename__ = "memory_nodes"
    __table_args__ = (
        ForeignKeyConstraint(["group_id", "agent_id"], ["agents.group_id", "agents.agent_id"], ondelete="CASCADE"),
        CheckConstraint("type IN ('event', 'thought', 'chat')", name="type"),
        CheckConstraint("(embedding IS NULL) = (embedding_model IS NULL)", name="embedding_has_model"),
        Index(None, "group_id", "agent_id", "node_count", unique=True),
        Index(None, "group_id", "agent_id", "type", "type_count", unique=True),
        Index(None, "group_id", "agent_id", "content_hash"),
        Index(None, "group_id", "agent_id", "changed_xid"),
        Index("memory_nodes_vector_by_text_idx", "group_id", "key_hash", "embedding_model", postgresql_where=text("embedding IS NOT NULL")),
        Index("memory_nodes_keywords_idx", "keywords_lower", postgresql_using="gin"),
        # Of large agents only; their vectors' index is made by models/retrieval/enlargement.py, one a model.
        Index("memory_nodes_tokens_idx", text("string_to_array(tokens, ' ')"), postgresql_using="gin", postgresql_where=text("large")),
        Index("memory_nodes_poignancy_idx", "group_id", "agent_id", text("coalesce(poignancy, 0) DESC"), postgresql_where=text("large")),
        Index(
            "memory_nodes_expiring_idx",
            "group_id",
            "agent_id",
            "expires_at",
            postgresql_where=text("archived_at IS NULL AND expires_at IS NOT NULL"),
        ),
        Index("memory_nodes_archived_idx", "group_id", "agent_id", "node_count", postgresql_where=text("archived_at IS NOT NULL")),
    )

    #: The id of the event that it came from.
    node_id: Mapped[UUID] = mapped_column(primary_key=True)
    group_id: Mapped[str] = mapped_column(Text)
    agent_id: Mapped[str] = mapped_column(Text)
    session_id: Mapped[str | None] = mapped_column(Text)
    type: Mapped[str] = mapped_column(Text)
    #: 1-based insertion index within the agent, and within the agent's nodes of this type (GA-15).
    node_count: Mapped[int]
    type_count: Mapped[int]
    depth: Mapped[int]
    created_at: Mapped[datetime] = mapped_column(Timestamp)
    stored_at: Mapped[datetime] = mapped_column(Timestamp, server_default=NOW)
    expires_at: Mapped[datetime | None] = mapped_column(Timestamp)
    archived_at: Mapped[datetime | None] = mapped_column(Timestamp)
    #: ``expired``, ``faded`` or ``chosen`` by somebody (``models.memory.archive``).
    archived_reason: Mapped[str | None] = mapped_column(Text)
    subject: Mapped[str | None] = mapped_column(Text)
    predicate: Mapped[str | None] = mapped_column(Text)
    object: Mapped[str | None] = mapped_column(Text)
    description: Mapped[str] = mapped_column(Text)
    embedding_key: Mapped[str] = mapped_column(Text)
    key_hash: Mapped[bytes] = mapped_column(BYTEA)
    content_hash: Mapped[bytes] = mapped_column(BYTEA)
    #: As they were given, and lower-cased for look-ups (GA-47).
    keywords: Mapped[list[str]] = mapped_column(ARRAY(Text))
    keywords_lower: Mapped[list[str]] = mapped_column(ARRAY(Text))
    #: What lexical search knows the node by (``jiyi.text.tokens``), with repetitions, between spaces.
    tokens: Mapped[str] = mapped_column(Text, server_default=text("''"))
    poignancy: Mapped[float | None]
    is_idle: Mapped[bool]
    #: Ids of the nodes it rests on, or a conversation as [speaker, utterance] pairs (``filling``, GA-09).
    filling: Mapped[list[Any]] = mapped_column(JSONB, server_default=EMPTY_LIST)
    provenance: Mapped[dict[str, Any]] = mapped_column(JSONB, server_default=EMPTY_OBJECT)
    #: No fixed size: vectors of several models may stand side by side, and are never compared.
    embedding: Mapped[Any | None] = mapped_column(VECTOR())
    embedding_model: Mapped[str | None] = mapped_column(Text)
    #: Of an agent too large for an index in memory (see ``agents.large_from``).
    large: Mapped[bool] = mapped_column(server_default=text("false"))
    #: The last transaction that changed the row: how an index in memory finds what is new to it.
    changed_xid: Mapped[int] = mapped_column(XID8, server_default=text("pg_current_xact_id()"))


class EmbeddingModel(Base):
    """A model that has embedded memories of this deployment, or is about to (``models.operations.embedding_models``)."""

    __tablename__ = "embedding_models"
    __table_args__ = (
        CheckConstraint("state IN ('active', 'filling', 'retired')", name="state"),
        Index("embedding_models_one_each_idx", "state", unique=True, postgresql_where=text("state <> 'retired'")),
    )

    model: Mapped[str] = mapped_column(Text, primary_key=True)
    #: What makes its vectors (``jiyi.providers.spec``).
    spec: Mapped[str] = mapped_column(Text)
    #: Values of a vector; None before the first one.
    dimensions: Mapped[int | None]
    #: ``active``: new memories and questions; ``filling``: the deployment moves to it; ``retired``: was active.
    state: Mapped[str] = mapped_column(Text)
    #: The model that was active when the move to this one began.
    replaces: Mapped[str | None] = mapped_column(Text)
    #: The move takes along vectors of all other models, imported ones too.
    everything: Mapped[bool] = mapped_column(server_default=text("false"))
    #: How far the move has come through the nodes' ids, in this round.
    position: Mapped[UUID | None]
    created_at: Mapped[datetime] = mapped_column(Timestamp, server_default=NOW)
    active_since: Mapped[datetime | None] = mapped_column(Timestamp)


class NextVector(Base):
    """A node's vector by the model that the deployment moves to, until it takes the old one's place in the node."""

    __tablename__ = "next_vectors"

    node_id: Mapped[UUID] = mapped_column(ForeignKey("memory_nodes.node_id", ondelete="CASCADE"), primary_key=True)
    #: The node's, for row-level security.
    group_id: Mapped[str] = mapped_column(Text)
    model: Mapped[str] = mapped_column(Text)
    embedding: Mapped[Any] = mapped_column(VECTOR())


class NodeAccess(Base):
    """The hot columns of a node, in a narrow table: an update here rewrites no vector."""

    __tablename__ = "node_access"
    __table_args__ = (HOT,)

    node_id: Mapped[UUID] = mapped_column(ForeignKey("memory_nodes.node_id", ondelete="CASCADE"), primary_key=True)
    #: The node's, for row-level security.
    group_id: Mapped[str] = mapped_column(Text)
    last_accessed: Mapped[datetime] = mapped_column(Timestamp)
    access_count: Mapped[int] = mapped_column(server_default=text("0"))
    #: The last times at which it was accessed, in the order in which they were written (``models.memory.access.RECENT``).
    recent: Mapped[list[datetime]] = mapped_column(ARRAY(Timestamp), server_default=text("'{}'"))


class KeywordStrength(Base):
    """How often a keyword was met (GA-17). Recomputable from the nodes."""

    __tablename__ = "kw_strength"
    __table_args__ = (
        ForeignKeyConstraint(["group_id", "agent_id"], ["agents.group_id", "agents.agent_id"], ondelete="CASCADE"),
        CheckConstraint("memory_type IN ('event', 'thought')", name="memory_type"),
        HOT,
    )

    group_id: Mapped[str] = mapped_column(Text, primary_key=True)
    agent_id: Mapped[str] = mapped_column(Text, primary_key=True)
    memory_type: Mapped[str] = mapped_column(Text, primary_key=True)
    keyword: Mapped[str] = mapped_column(Text, primary_key=True)
    strength: Mapped[int]


class TermFrequency(Base):
    """In how many texts of a large agent a term occurs. The empty term counts the terms of all texts together.

    What was there when the agent became large and what came since are counted apart, so that counting the first
    does not hold up the second; the sum counts.
    """

    __tablename__ = "term_frequencies"
    __table_args__ = (
        ForeignKeyConstraint(["group_id", "agent_id"], ["agents.group_id", "agents.agent_id"], ondelete="CASCADE"),
        CheckConstraint("counted IN ('at first', 'since')", name="counted"),
    )

    group_id: Mapped[str] = mapped_column(Text, primary_key=True)
    agent_id: Mapped[str] = mapped_column(Text, primary_key=True)
    term: Mapped[str] = mapped_column(Text, primary_key=True)
    counted: Mapped[str] = mapped_column(Text, primary_key=True)
    texts: Mapped[int] = mapped_column(BigInteger)


class PendingWork(Base):
    """Work owed. A row gone is an effect done, exactly once (design §3)."""

    __tablename__ = "pending_work"
    __table_args__ = (Index(None, "kind", "due_at"), HOT)

    kind: Mapped[str] = mapped_column(Text, primary_key=True)
    subject_id: Mapped[UUID] = mapped_column(primary_key=True)
    group_id: Mapped[str] = mapped_column(Text)
    #: Not before this; a claim moves it ahead by the lease, so that a dead worker's claim runs out by itself.
    due_at: Mapped[datetime] = mapped_column(Timestamp, server_default=NOW)
    attempts: Mapped[int] = mapped_column(server_default=text("0"))
    last_error: Mapped[str | None] = mapped_column(Text)
    created_at: Mapped[datetime] = mapped_column(Timestamp, server_default=NOW)


class DeadLetter(Base):
    """What could not be done, with the reason, kept until somebody replays or discards it."""

    __tablename__ = "dead_letters"
    __table_args__ = (
        CheckConstraint("state IN ('open', 'replayed', 'discarded')", name="state"),
        Index(None, "state", "letter_id"),
        Index(None, "subject_id"),
    )

    letter_id: Mapped[UUID] = mapped_column(primary_key=True)
    #: ``intake`` for a message or event that was refused, else the kind of the work.
    kind: Mapped[str] = mapped_column(Text)
    #: The event or the subject of the work, where it is known.
    subject_id: Mapped[UUID | None]
    group_id: Mapped[str | None] = mapped_column(Text)
    reason: Mapped[str] = mapped_column(Text)
    traceback: Mapped[str | None] = mapped_column(Text)
    #: The refused event as it came, for ``intake``.
    body: Mapped[str | None] = mapped_column(Text)
    attempts: Mapped[int] = mapped_column(server_default=text("0"))
    state: Mapped[str] = mapped_column(Text, server_default=text("'open'"))
    created_at: Mapped[datetime] = mapped_column(Timestamp, server_default=NOW)
    resolved_at: Mapped[datetime | None] = mapped_column(Timestamp)


class JobTick(Base):
    """One run of a scheduled job. The primary key lets one of several beats win."""

    __tablename__ = "job_ticks"
    __table_args__ = (CheckConstraint("state IN ('running', 'done', 'failed')", name="state"),)

    job: Mapped[str] = mapped_column(Text, primary_key=True)
    slot: Mapped[datetime] = mapped_column(Timestamp, primary_key=True)
    state: Mapped[str] = mapped_column(Text, server_default=text("'done'"))
    #: A sentence, of a run that failed.
    error: Mapped[str | None] = mapped_column(Text)
    attempts: Mapped[int] = mapped_column(server_default=text("1"))
    started_at: Mapped[datetime] = mapped_column(Timestamp, server_default=NOW)
    #: A run that has not ended by then has died.
    due_by: Mapped[datetime | None] = mapped_column(Timestamp)
    finished_at: Mapped[datetime | None] = mapped_column(Timestamp)
    summary: Mapped[dict[str, Any]] = mapped_column(JSONB, server_default=EMPTY_OBJECT)


class LLMUsage(Base):
    """What a group's questions to LLMs have used, by day (UTC), prompt and model."""

    __tablename__ = "llm_usage"
    __table_args__ = (HOT,)

    #: Empty for questions that were asked for no group.
    group_id: Mapped[str] = mapped_column(Text, primary_key=True)
    day: Mapped[date] = mapped_column(primary_key=True)
    #: With its version: ``insights@1``.
    prompt: Mapped[str] = mapped_column(Text, primary_key=True)
    model: Mapped[str] = mapped_column(Text, primary_key=True)
    calls: Mapped[int] = mapped_column(BigInteger)
    #: Calls that brought nothing that could be used.
    failures: Mapped[int] = mapped_column(BigInteger)
    prompt_tokens: Mapped[int] = mapped_column(BigInteger)
    completion_tokens: Mapped[int] = mapped_column(BigInteger)
    #: In the currency of the prices that are set; 0 where none is.
    cost: Mapped[float] = mapped_column(Double)


class AuditEntry(Base):
    """Who changed memories otherwise than by events, and which. Never pruned."""

    __tablename__ = "audit_log"
    __table_args__ = (Index(None, "group_id", "audit_id"),)

    audit_id: Mapped[UUID] = mapped_column(primary_key=True)
    at: Mapped[datetime] = mapped_column(Timestamp, server_default=NOW)
    #: None: the whole service.
    group_id: Mapped[str | None] = mapped_column(Text)
    #: ``job:<name>`` or ``operator``.
    actor: Mapped[str] = mapped_column(Text)
    action: Mapped[str] = mapped_column(Text)
    #: What was changed: an agent's name, a table.
    target: Mapped[str] = mapped_column(Text)
    details: Mapped[dict[str, Any]] = mapped_column(JSONB, server_default=EMPTY_OBJECT)


class Reflection(Base):
    """One reflection of one agent (GA-48), through all its attempts. Its id is part of its thoughts' ids.

    States: ``owed`` (asked for) → ``running`` → ``done`` or ``nothing`` (there was nothing to think about, ``error``
    says why); ``waiting`` between two attempts. What is open, but owed no more, was given up: see the dead letters.
    """

    __tablename__ = "reflections"
    __table_args__ = (
        ForeignKeyConstraint(["group_id", "agent_id"], ["agents.group_id", "agents.agent_id"], ondelete="CASCADE"),
        CheckConstraint("trigger IN ('importance', 'schedule', 'request', 'conversation')", name="trigger"),
        CheckConstraint("state IN ('owed', 'running', 'waiting', 'done', 'nothing')", name="state"),
        Index(None, "group_id", "agent_id", "created_at"),
        # One at a time; a conversation's is the conversation's own.
        Index(
            "reflections_one_open_idx",
            "group_id",
            "agent_id",
            unique=True,
            postgresql_where=text("trigger <> 'conversation' AND state IN ('owed', 'running', 'waiting')"),
        ),
    )

    #: Of a conversation: the id of the event that ended it.
    reflection_id: Mapped[UUID] = mapped_column(primary_key=True)
    group_id: Mapped[str] = mapped_column(Text)
    agent_id: Mapped[str] = mapped_column(Text)
    trigger: Mapped[str] = mapped_column(Text)
    state: Mapped[str] = mapped_column(Text)
    #: Also the token of the attempt: one that another has followed may not write any more.
    attempts: Mapped[int] = mapped_column(server_default=text("0"))
    created_at: Mapped[datetime] = mapped_column(Timestamp, server_default=NOW)
    started_at: Mapped[datetime | None] = mapped_column(Timestamp)
    finished_at: Mapped[datetime | None] = mapped_column(Timestamp)
    focal_points: Mapped[list[str]] = mapped_column(JSONB, server_default=EMPTY_LIST)
    #: How many came of it.
    thoughts: Mapped[int] = mapped_column(server_default=text("0"))
    llm: Mapped[str | None] = mapped_column(Text)
    error: Mapped[str | None] = mapped_column(Text)


class ApiKey(Base):
    """A program's key: what it may do, in one group (operators' keys: in all). Its secret is known to nobody here."""

    __tablename__ = "api_keys"
    __table_args__ = (
        CheckConstraint("scopes <@ ARRAY['publish', 'read', 'admin', 'operator'] AND cardinality(scopes) > 0", name="scopes"),
        CheckConstraint("(group_id IS NULL) = ('operator' = ANY(scopes))", name="group"),
        Index(None, "group_id", "created_at"),
    )

    #: Part of the key; may be shown.
    key_id: Mapped[str] = mapped_column(Text, primary_key=True)
    #: None: an operator's.
    group_id: Mapped[str | None] = mapped_column(ForeignKey("groups.group_id", ondelete="CASCADE"))
    name: Mapped[str] = mapped_column(Text)
    scopes: Mapped[list[str]] = mapped_column(ARRAY(Text))
    #: SHA-256 of the secret.
    secret_hash: Mapped[bytes] = mapped_column(BYTEA)
    #: Derived from the secret, to check signatures of messages (``jiyi.accounts.signatures``).
    signing_key: Mapped[bytes] = mapped_column(BYTEA)
    created_at: Mapped[datetime] = mapped_column(Timestamp, server_default=NOW)
    created_by: Mapped[str] = mapped_column(Text)
    expires_at: Mapped[datetime | None] = mapped_column(Timestamp)
    revoked_at: Mapped[datetime | None] = mapped_column(Timestamp)
    #: Up to a minute older than the truth.
    last_used_at: Mapped[datetime | None] = mapped_column(Timestamp)


class User(Base):
    """A person who signs in to the admin. Nobody is deleted, so that the audit log goes on making sense."""

    __tablename__ = "users"
    __table_args__ = (CheckConstraint("role IN ('operator', 'admin', 'viewer')", name="role"),)

    user_id: Mapped[UUID] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(Text, unique=True)
    #: scrypt, in werkzeug's form.
    password_hash: Mapped[str] = mapped_column(Text)
    role: Mapped[str] = mapped_column(Text)
    #: None: all.
    groups: Mapped[list[str] | None] = mapped_column(ARRAY(Text))
    #: A session carries the epoch it began in and ends with it.
    epoch: Mapped[int] = mapped_column(server_default=text("0"))
    created_at: Mapped[datetime] = mapped_column(Timestamp, server_default=NOW)
    last_seen_at: Mapped[datetime | None] = mapped_column(Timestamp)
    disabled_at: Mapped[datetime | None] = mapped_column(Timestamp)


class ErasureRow(Base):
    """An erasure, under way or done (``models.erasure.progress``). At its end nothing is left of names but their hashes."""

    __tablename__ = "erasures"
    __table_args__ = (
        CheckConstraint("kind IN ('agent', 'person', 'nodes')", name="kind"),
        CheckConstraint("state IN ('owed', 'running', 'incomplete', 'done')", name="state"),
        Index(None, "group_id", "erasure_id"),
        Index("erasures_open_idx", "group_id", postgresql_where=text("state <> 'done'")),
    )

    erasure_id: Mapped[UUID] = mapped_column(primary_key=True)
    group_id: Mapped[str] = mapped_column(Text)
    kind: Mapped[str] = mapped_column(Text)
    #: Whom or what it is about (``jiyi.protocol.erasure.Erasure``); at the end hashes and numbers.
    what: Mapped[dict[str, Any]] = mapped_column(JSONB)
    state: Mapped[str] = mapped_column(Text, server_default=text("'owed'"))
    #: The step that comes next, where it stopped in it, and what the steps before it counted.
    step: Mapped[str] = mapped_column(Text, server_default=text("''"))
    place: Mapped[dict[str, Any]] = mapped_column(JSONB, server_default=EMPTY_OBJECT)
    requested_by: Mapped[str] = mapped_column(Text)
    created_at: Mapped[datetime] = mapped_column(Timestamp, server_default=NOW)
    finished_at: Mapped[datetime | None] = mapped_column(Timestamp)
    report: Mapped[dict[str, Any] | None] = mapped_column(JSONB)


class ErasingId(Base):
    """A memory, event or reflection that an erasure under way has found."""

    __tablename__ = "erasing_ids"
    __table_args__ = (Index(None, "subject_id"),)

    erasure_id: Mapped[UUID] = mapped_column(ForeignKey("erasures.erasure_id", ondelete="CASCADE"), primary_key=True)
    subject_id: Mapped[UUID] = mapped_column(primary_key=True)
    group_id: Mapped[str] = mapped_column(Text)
    agent_id: Mapped[str] = mapped_column(Text)


class QuarantineLog(Base):
    """What a node of a workflow put out. Kept until it is deleted, never retrieved (CN-16).

    Working memory has it too while ``working_until`` is to come and ``expired_at`` is not set: the list in Valkey is made
    from here when it is lost.
    """

    __tablename__ = "quarantine_logs"
    __table_args__ = (
        CheckConstraint("(embedding IS NULL) = (embedding_model IS NULL)", name="embedding_has_model"),
        Index("quarantine_logs_group_id_created_at_entry_id_idx", "group_id", "created_at", "entry_id"),
        Index("quarantine_logs_group_id_received_at_idx", "group_id", "received_at"),
        Index(
            "quarantine_logs_working_idx",
            "group_id",
            "working_until",
            postgresql_where=text("working_until IS NOT NULL AND expired_at IS NULL"),
        ),
    )

    #: The id of the event that it came with.
    entry_id: Mapped[UUID] = mapped_column(primary_key=True)
    group_id: Mapped[str] = mapped_column(Text)
    #: Who spoke; no agent with memories of its own has to have this name.
    agent_id: Mapped[str] = mapped_column(Text)
    session_id: Mapped[str | None] = mapped_column(Text)
    node_id: Mapped[str] = mapped_column(Text)
    node_type: Mapped[str | None] = mapped_column(Text)
    node_name: Mapped[str | None] = mapped_column(Text)
    #: ``statement`` or ``verdict``.
    kind: Mapped[str] = mapped_column(Text)
    content: Mapped[str] = mapped_column(Text)
    #: Equal for texts that differ only in case, width or spaces (``jiyi.text.digests.content_digest``).
    content_hash: Mapped[bytes] = mapped_column(BYTEA)
    confidence: Mapped[float | None]
    #: As they came, and those that the filters added.
    flags: Mapped[list[str]] = mapped_column(ARRAY(Text), server_default=text("'{}'::text[]"))
    depth: Mapped[int] = mapped_column(server_default=text("0"))
    #: ``metadata`` is SQLAlchemy's own name.
    node_metadata: Mapped[dict[str, Any]] = mapped_column("metadata", JSONB, server_default=EMPTY_OBJECT)
    provenance: Mapped[dict[str, Any]] = mapped_column(JSONB, server_default=EMPTY_OBJECT)
    created_at: Mapped[datetime] = mapped_column(Timestamp)
    received_at: Mapped[datetime] = mapped_column(Timestamp, server_default=NOW)
    #: When the filters have decided; ``rejected_reason`` is NULL for what they let in.
    screened_at: Mapped[datetime | None] = mapped_column(Timestamp)
    rejected_reason: Mapped[str | None] = mapped_column(Text)
    rejected_details: Mapped[dict[str, Any]] = mapped_column(JSONB, server_default=EMPTY_OBJECT)
    #: When it leaves working memory at the latest.
    working_until: Mapped[datetime | None] = mapped_column(Timestamp)
    embedding: Mapped[Any | None] = mapped_column(VECTOR())
    embedding_model: Mapped[str | None] = mapped_column(Text)
    #: When it left working memory: its time was over, newer entries took its place, or the LLM found a contradiction.
    expired_at: Mapped[datetime | None] = mapped_column(Timestamp)
    promoted_at: Mapped[datetime | None] = mapped_column(Timestamp)
    deleted_at: Mapped[datetime | None] = mapped_column(Timestamp)


class KnowledgeRow(Base):
    """A piece of what somebody promoted: long-term memory of a group, or of one of its agents (CN-32, CN-34)."""

    __tablename__ = "knowledge"
    __table_args__ = (
        CheckConstraint("(embedding IS NULL) = (embedding_model IS NULL)", name="embedding_has_model"),
        Index(
            "knowledge_known_idx",
            "group_id",
            text("coalesce(agent_id, '')"),
            "content_hash",
            unique=True,
            postgresql_where=text("demoted_at IS NULL"),
        ),
        Index("knowledge_group_id_promoted_at_knowledge_id_idx", "group_id", "promoted_at", "knowledge_id"),
    )

    #: Follows from group, agent and content (``jiyi.tiers.promotion.knowledge_id``).
    knowledge_id: Mapped[UUID] = mapped_column(primary_key=True)
    group_id: Mapped[str] = mapped_column(Text)
    #: NULL: the whole group's.
    agent_id: Mapped[str | None] = mapped_column(Text)
    session_id: Mapped[str | None] = mapped_column(Text)
    kind: Mapped[str] = mapped_column(Text)
    content: Mapped[str] = mapped_column(Text)
    content_hash: Mapped[bytes] = mapped_column(BYTEA)
    #: What it is found by while it has no vector of the model in use (``jiyi.text.tokens``), between spaces.
    tokens: Mapped[str] = mapped_column(Text, server_default=text("''"))
    embedding: Mapped[Any | None] = mapped_column(VECTOR())
    embedding_model: Mapped[str | None] = mapped_column(Text)
    source_metadata: Mapped[dict[str, Any]] = mapped_column("metadata", JSONB, server_default=EMPTY_OBJECT)
    created_at: Mapped[datetime] = mapped_column(Timestamp, server_default=NOW)
    promoted_at: Mapped[datetime] = mapped_column(Timestamp)
    #: Taken back, or put into other words: not retrieved any more.
    demoted_at: Mapped[datetime | None] = mapped_column(Timestamp)
    replaced_by: Mapped[UUID | None]


class KnowledgeChange(Base):
    """Who promoted, demoted or edited knowledge, and what it said before and after."""

    __tablename__ = "knowledge_history"
    __table_args__ = (Index("knowledge_history_group_id_knowledge_id_history_id_idx", "group_id", "knowledge_id", "history_id"),)

    history_id: Mapped[UUID] = mapped_column(primary_key=True)
    group_id: Mapped[str] = mapped_column(Text)
    knowledge_id: Mapped[UUID]
    #: ``promoted``, ``demoted`` or ``edited``.
    action: Mapped[str] = mapped_column(Text)
    actor: Mapped[str] = mapped_column(Text)
    reason: Mapped[str] = mapped_column(Text, server_default=text("''"))
    at: Mapped[datetime] = mapped_column(Timestamp, server_default=NOW)
    before: Mapped[str | None] = mapped_column(Text)
    after: Mapped[str | None] = mapped_column(Text)


class DigestRow(Base):
    """What a group's quarantine was about in a span of time (CN-38)."""

    __tablename__ = "digests"
    __table_args__ = (Index("digests_group_id_digest_id_idx", "group_id", "digest_id"),)

    digest_id: Mapped[UUID] = mapped_column(primary_key=True)
    group_id: Mapped[str] = mapped_column(Text)
    since: Mapped[datetime] = mapped_column(Timestamp)
    until: Mapped[datetime] = mapped_column(Timestamp)
    #: Entries there were; of these too old to be looked at, and in clusters beyond those shown.
    entries: Mapped[int]
    older: Mapped[int] = mapped_column(server_default=text("0"))
    left_out: Mapped[int] = mapped_column(server_default=text("0"))
    created_at: Mapped[datetime] = mapped_column(Timestamp, server_default=NOW)
    created_by: Mapped[str] = mapped_column(Text)


class DigestItemRow(Base):
    """A cluster of a digest: entries that say similar things, and what they come to."""

    __tablename__ = "digest_items"

    digest_id: Mapped[UUID] = mapped_column(primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    group_id: Mapped[str] = mapped_column(Text)
    topic: Mapped[str] = mapped_column(Text)
    summary: Mapped[str] = mapped_column(Text)
    keywords: Mapped[list[str]] = mapped_column(ARRAY(Text), server_default=text("'{}'::text[]"))
    #: Those that are alike, the most central first; and those that the summary rests on.
    entry_ids: Mapped[list[UUID]] = mapped_column(ARRAY(Uuid), server_default=text("'{}'::uuid[]"))
    evidence: Mapped[list[UUID]] = mapped_column(ARRAY(Uuid), server_default=text("'{}'::uuid[]"))
    sessions: Mapped[int] = mapped_column(server_default=text("1"))
    first_at: Mapped[datetime] = mapped_column(Timestamp)
    last_at: Mapped[datetime] = mapped_column(Timestamp)
    #: What summed it up.
    llm: Mapped[str | None] = mapped_column(Text)
