"""Tables of retrieval besides the memories: terms of large agents, and recent retrievals."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import (
    ARRAY,
    BigInteger,
    CheckConstraint,
    Double,
    ForeignKeyConstraint,
    Index,
    Integer,
    Text,
    Uuid,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from models.db.base import Base, Timestamp


class TermFrequency(Base):
    """In how many texts of a large agent a term occurs; the empty term counts the terms of all texts
    together.

    What was there when the agent became large and what came since are counted apart, so that counting the
    first does not hold up the second; the sum counts.
    """

    __tablename__ = "term_frequencies"
    __table_args__ = (
        ForeignKeyConstraint(
            ["group_id", "agent_id"], ["agents.group_id", "agents.agent_id"], ondelete="CASCADE"
        ),
        CheckConstraint("counted IN ('at first', 'since')", name="counted"),
    )

    group_id: Mapped[str] = mapped_column(Text, primary_key=True)
    agent_id: Mapped[str] = mapped_column(Text, primary_key=True)
    term: Mapped[str] = mapped_column(Text, primary_key=True)
    counted: Mapped[str] = mapped_column(Text, primary_key=True)
    texts: Mapped[int] = mapped_column(BigInteger)


class RetrievalRow(Base):
    """What was asked of an agent, by whom, and what it returned (:mod:`models.retrieval.records`)."""

    __tablename__ = "retrievals"
    __table_args__ = (
        ForeignKeyConstraint(
            ["group_id", "agent_id"], ["agents.group_id", "agents.agent_id"], ondelete="CASCADE"
        ),
        Index(None, "group_id", "retrieval_id"),
        Index(None, "group_id", "agent_id", "retrieval_id"),
    )

    retrieval_id: Mapped[UUID] = mapped_column(primary_key=True)
    group_id: Mapped[str] = mapped_column(Text)
    agent_id: Mapped[str] = mapped_column(Text)
    asked_at: Mapped[datetime] = mapped_column(Timestamp)
    asked_by: Mapped[str] = mapped_column(Text)
    focal_texts: Mapped[list[str]] = mapped_column(ARRAY(Text))
    #: Of the request, as far as they differ from the defaults.
    options: Mapped[dict[str, Any]] = mapped_column(JSONB)
    ms: Mapped[float] = mapped_column(Double)
    #: How many memories each focal text returned.
    found: Mapped[list[int]] = mapped_column(ARRAY(Integer))
    #: The first ``records.RESULTS`` of each focal text, one list after the other; ``scores`` goes along.
    node_ids: Mapped[list[UUID]] = mapped_column(ARRAY(Uuid))
    scores: Mapped[list[float]] = mapped_column(ARRAY(Double))
