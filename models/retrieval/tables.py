"""Tables of retrieval besides the memories: terms of large agents, and recent retrievals."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import ARRAY, BigInteger, CheckConstraint, Double, Index, Integer
from sqlalchemy.orm import Mapped, mapped_column

from models.db.base import Base, of_agent


class TermFrequency(Base):
    """In how many texts of a large agent a term occurs; the empty term counts the terms of all texts
    together.

    What was there when the agent became large and what came since are counted apart, so that counting the
    first does not hold up the second; the sum counts.
    """

    __tablename__ = "term_frequencies"
    __table_args__ = (of_agent(), CheckConstraint("counted IN ('at first', 'since')", name="counted"))

    group_id: Mapped[str] = mapped_column(primary_key=True)
    agent_id: Mapped[str] = mapped_column(primary_key=True)
    term: Mapped[str] = mapped_column(primary_key=True)
    counted: Mapped[str] = mapped_column(primary_key=True)
    texts: Mapped[int] = mapped_column(BigInteger)


class RetrievalRow(Base):
    """What was asked of an agent, by whom, and what it returned (:mod:`models.retrieval.records`)."""

    __tablename__ = "retrievals"
    __table_args__ = (
        of_agent(),
        Index(None, "group_id", "retrieval_id"),
        Index(None, "group_id", "agent_id", "retrieval_id"),
    )

    retrieval_id: Mapped[UUID] = mapped_column(primary_key=True)
    group_id: Mapped[str]
    agent_id: Mapped[str]
    asked_at: Mapped[datetime]
    asked_by: Mapped[str]
    focal_texts: Mapped[list[str]]
    #: Of the request, as far as they differ from the defaults.
    options: Mapped[dict[str, Any]]
    ms: Mapped[float] = mapped_column(Double)
    #: How many memories each focal text returned.
    found: Mapped[list[int]] = mapped_column(ARRAY(Integer))
    #: The first ``records.RESULTS`` of each focal text, one list after the other; ``scores`` goes along.
    node_ids: Mapped[list[UUID]]
    scores: Mapped[list[float]] = mapped_column(ARRAY(Double))
