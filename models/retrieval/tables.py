"""The table that retrieval from large agents needs besides the memories."""

from __future__ import annotations

from sqlalchemy import BigInteger, CheckConstraint, ForeignKeyConstraint, Text
from sqlalchemy.orm import Mapped, mapped_column

from models.db.base import Base


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
