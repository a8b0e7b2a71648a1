"""Tables of items: JSON values under a namespace and a key."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from pgvector.sqlalchemy import VECTOR
from sqlalchemy import CheckConstraint, ForeignKey, Index, Text, UniqueConstraint, text
from sqlalchemy.dialects.postgresql import ARRAY, JSONB
from sqlalchemy.orm import Mapped, mapped_column

from models.db.base import NOW, Base, Timestamp


class ItemRow(Base):
    """A value that a program keeps for itself. Replaced as a whole; no history."""

    __tablename__ = "items"
    __table_args__ = (
        UniqueConstraint("group_id", "namespace", "key", name="items_group_id_namespace_key_key"),
        Index("items_expires_at_idx", "expires_at", postgresql_where=text("expires_at IS NOT NULL")),
    )

    item_id: Mapped[UUID] = mapped_column(primary_key=True)
    group_id: Mapped[str] = mapped_column(ForeignKey("groups.group_id", ondelete="CASCADE"))
    namespace: Mapped[list[str]] = mapped_column(ARRAY(Text))
    key: Mapped[str] = mapped_column(Text)
    value: Mapped[dict[str, Any]] = mapped_column(JSONB)
    created_at: Mapped[datetime] = mapped_column(Timestamp, server_default=NOW)
    updated_at: Mapped[datetime] = mapped_column(Timestamp, server_default=NOW)
    #: Minutes after the last access at which it is gone; NULL: it stays.
    ttl_minutes: Mapped[float | None]
    expires_at: Mapped[datetime | None] = mapped_column(Timestamp)


class ItemTextRow(Base):
    """A text that an item is found by. Without a vector of the model in use it owes one."""

    __tablename__ = "item_texts"
    __table_args__ = (CheckConstraint("(embedding IS NULL) = (embedding_model IS NULL)", name="embedding_has_model"),)

    item_id: Mapped[UUID] = mapped_column(ForeignKey("items.item_id", ondelete="CASCADE"), primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True)
    group_id: Mapped[str] = mapped_column(Text)
    content: Mapped[str] = mapped_column(Text)
    embedding: Mapped[Any | None] = mapped_column(VECTOR())
    embedding_model: Mapped[str | None] = mapped_column(Text)
