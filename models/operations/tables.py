"""Tables of embedding models, re-embedding and LLM usage."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any
from uuid import UUID

from pgvector.sqlalchemy import VECTOR
from sqlalchemy import BigInteger, CheckConstraint, text
from sqlalchemy.orm import Mapped, mapped_column

from models.db.base import HOT, NOW, Base, of_memory, partial_index


class EmbeddingModelRow(Base):
    """A model that has embedded memories, or is about to (``models.operations.embedding_models``)."""

    __tablename__ = "embedding_models"
    __table_args__ = (
        CheckConstraint("state IN ('active', 'filling', 'retired')", name="state"),
        partial_index("embedding_models_one_each_idx", "state <> 'retired'", "state", unique=True),
    )

    model: Mapped[str] = mapped_column(primary_key=True)
    #: What makes its vectors (``engine.providers.spec``).
    spec: Mapped[str]
    #: Values of a vector; None before the first one.
    dimensions: Mapped[int | None]
    #: ``active``: new memories and questions; ``filling``: the deployment moves to it; ``retired``: was
    #: active.
    state: Mapped[str]
    #: The model that was active when the move to this one began.
    replaces: Mapped[str | None]
    #: The move takes along vectors of all other models, imported ones too.
    everything: Mapped[bool] = mapped_column(server_default=text("false"))
    #: How far the move has come through the nodes' ids, in this round.
    position: Mapped[UUID | None]
    created_at: Mapped[datetime] = mapped_column(server_default=NOW)
    active_since: Mapped[datetime | None]


class NextVector(Base):
    """A node's vector by the model of a move, until it replaces the old one in the node."""

    __tablename__ = "next_vectors"
    __table_args__ = (of_memory(),)

    node_id: Mapped[UUID] = mapped_column(primary_key=True)
    group_id: Mapped[str] = mapped_column(primary_key=True)
    model: Mapped[str]
    embedding: Mapped[Any] = mapped_column(VECTOR())


class LLMUsageRow(Base):
    """What a group's questions to LLMs have used, by day (UTC), prompt and model."""

    __tablename__ = "llm_usage"
    __table_args__ = (HOT,)

    #: Empty for questions that were asked for no group.
    group_id: Mapped[str] = mapped_column(primary_key=True)
    day: Mapped[date] = mapped_column(primary_key=True)
    #: With its version: ``insights@1``.
    prompt: Mapped[str] = mapped_column(primary_key=True)
    model: Mapped[str] = mapped_column(primary_key=True)
    #: Answered, not usable, not usable at once, answered by rules in its place; entries left out
    #: (``engine.providers.llm_prompts``).
    questions: Mapped[int] = mapped_column(BigInteger, server_default="0")
    unusable: Mapped[int] = mapped_column(BigInteger, server_default="0")
    repaired: Mapped[int] = mapped_column(BigInteger, server_default="0")
    by_rules: Mapped[int] = mapped_column(BigInteger, server_default="0")
    dropped: Mapped[int] = mapped_column(BigInteger, server_default="0")
    #: Of all questions together.
    seconds: Mapped[float] = mapped_column(server_default="0")
    calls: Mapped[int] = mapped_column(BigInteger)
    #: Calls that returned nothing usable.
    failures: Mapped[int] = mapped_column(BigInteger)
    prompt_tokens: Mapped[int] = mapped_column(BigInteger)
    completion_tokens: Mapped[int] = mapped_column(BigInteger)
    #: In the currency of the prices that are set; 0 where none is.
    cost: Mapped[float]
