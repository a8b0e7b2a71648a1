"""The table of how often an agent looks at itself, and how far it has come."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Boolean, CheckConstraint, Index, Text, text
from sqlalchemy.orm import Mapped, mapped_column

from models.db.base import HOT, NOW, Base, Timestamp
from models.growth.pains.tables import of_agent

_TRUE, _FALSE = text("true"), text("false")


class SelfReflection(Base):
    """An agent's settings, NULL where the deployment's hold, and what has happened since its last look at itself."""

    __tablename__ = "self_reflections"
    __table_args__ = (of_agent(), CheckConstraint("conversations >= 0 AND hours >= 0", name="bounds"), Index(None, "last_at"), HOT)

    group_id: Mapped[str] = mapped_column(Text, primary_key=True)
    agent_id: Mapped[str] = mapped_column(Text, primary_key=True)
    conversations: Mapped[int | None]
    hours: Mapped[int | None]
    #: Proposals wait for somebody.
    require_approval: Mapped[bool] = mapped_column(Boolean, server_default=_TRUE)
    #: The agent may propose changes of its SOUL.
    allow_soul_modification: Mapped[bool] = mapped_column(Boolean, server_default=_FALSE)
    #: Ask the LLM; and have the rules answer while it is away.
    use_llm: Mapped[bool] = mapped_column(Boolean, server_default=_TRUE)
    fallback: Mapped[bool] = mapped_column(Boolean, server_default=_TRUE)
    #: Conversations that have ended since, ``node_count`` of the last turn that was seen, when that was.
    ended: Mapped[int] = mapped_column(server_default=text("0"))
    seen_to: Mapped[int] = mapped_column(server_default=text("0"))
    last_at: Mapped[datetime] = mapped_column(Timestamp, server_default=NOW)
    #: Somebody asked for one.
    asked: Mapped[bool] = mapped_column(Boolean, server_default=_FALSE)
