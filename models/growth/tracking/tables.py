"""The table of what grew, and what of it was used, per agent and day."""

from __future__ import annotations

from datetime import date

from sqlalchemy import Text, text
from sqlalchemy.orm import Mapped, mapped_column

from models.db.base import HOT, Base
from models.growth.pains.tables import of_agent


class GrowthTally(Base):
    """How many of a kind of thing an agent grew on a day (UTC), and how often one was used."""

    __tablename__ = "growth_tallies"
    __table_args__ = (of_agent(), HOT)

    group_id: Mapped[str] = mapped_column(Text, primary_key=True)
    agent_id: Mapped[str] = mapped_column(Text, primary_key=True)
    day: Mapped[date] = mapped_column(primary_key=True)
    #: Such as ``experience``, ``pain``, ``proposal``, ``identity``, ``thought``.
    what: Mapped[str] = mapped_column(Text, primary_key=True)
    grown: Mapped[int] = mapped_column(server_default=text("0"))
    used: Mapped[int] = mapped_column(server_default=text("0"))
