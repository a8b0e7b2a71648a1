"""Tables of declared stores (``docs/workflows.md``)."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from pgvector.sqlalchemy import VECTOR
from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    ForeignKeyConstraint,
    Identity,
    Index,
    UniqueConstraint,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from models.db.base import EMPTY_LIST, EMPTY_OBJECT, HOT, NO_TEXTS, NOW, Base, partial_index


def _of_store() -> ForeignKeyConstraint:
    return ForeignKeyConstraint(
        ["group_id", "store_id"], ["stores.group_id", "stores.store_id"], ondelete="CASCADE"
    )


class StoreRow(Base):
    """A declared store, of a group or of one run of a graph.

    A change of its items locks its row: so ``revision`` grows in the order of commits, and readers that have
    seen one revision need only newer items.
    """

    __tablename__ = "stores"
    __table_args__ = (
        UniqueConstraint("group_id", "run_id", "name"),
        UniqueConstraint("group_id", "store_id"),
        HOT,
    )

    store_id: Mapped[UUID] = mapped_column(primary_key=True)
    group_id: Mapped[str]
    #: Empty: the group's.
    run_id: Mapped[str] = mapped_column(server_default=text("''"))
    name: Mapped[str]
    type: Mapped[str]
    #: As declared, without its secrets.
    config: Mapped[dict[str, Any]] = mapped_column(server_default=EMPTY_OBJECT)
    #: Secrets of the configuration by their path, encrypted (``models.stores.rows``).
    secrets: Mapped[bytes | None]
    #: Grows with each change of the items.
    revision: Mapped[int] = mapped_column(BigInteger, server_default=text("0"))
    #: The revision whose index is in the file of ``index_path``; NULL: none.
    saved_revision: Mapped[int | None] = mapped_column(BigInteger)
    #: Grows when items other than the oldest are deleted: readers then read again what they have cached.
    generation: Mapped[int] = mapped_column(server_default=text("0"))
    #: ``ready``, or what is wrong: ``corrupt``, ``unreadable``.
    state: Mapped[str] = mapped_column(server_default=text("'ready'"))
    state_reason: Mapped[str] = mapped_column(server_default=text("''"))
    #: When the file of its path was read, and when its sources were scanned.
    loaded_at: Mapped[datetime | None]
    scanned_at: Mapped[datetime | None]
    created_at: Mapped[datetime] = mapped_column(server_default=NOW)
    used_at: Mapped[datetime] = mapped_column(server_default=NOW)


class StoreItem(Base):
    """What a store keeps: what an agent said, or a chunk of a file."""

    __tablename__ = "store_items"
    __table_args__ = (
        _of_store(),
        CheckConstraint("(embedding IS NULL) = (embedding_model IS NULL)", name="embedding_has_model"),
        Index("store_items_position_idx", "group_id", "store_id", "position"),
        Index("store_items_revision_idx", "group_id", "store_id", "revision"),
        Index("store_items_once_idx", "group_id", "store_id", "dedupe_hash", unique=True),
        Index("store_items_key_idx", "group_id", "store_id", "key", unique=True),
        Index("store_items_content_hash_idx", "group_id", "store_id", "content_hash"),
        partial_index(None, "file_id IS NOT NULL", "group_id", "file_id"),
        Index("store_items_attachments_idx", "attachments", postgresql_using="gin"),
    )

    item_id: Mapped[UUID] = mapped_column(primary_key=True)
    group_id: Mapped[str]
    store_id: Mapped[UUID]
    #: The item's ``id`` for people and files: of a chunk its source, path and number; else the item's own id,
    #: unless it was imported.
    key: Mapped[str]
    #: In the order of arrival.
    position: Mapped[int] = mapped_column(BigInteger, Identity(always=True))
    #: The store's when the item was written last.
    revision: Mapped[int] = mapped_column(BigInteger)
    content_summary: Mapped[str]
    #: SHA-256 of the content: equal contents share their vectors.
    content_hash: Mapped[bytes]
    #: The same where a store has equal contents once; NULL where it may repeat itself.
    dedupe_hash: Mapped[bytes | None]
    input_snapshot: Mapped[dict[str, Any] | None]
    output_snapshot: Mapped[dict[str, Any] | None]
    #: ``metadata`` is SQLAlchemy's own name.
    item_metadata: Mapped[dict[str, Any]] = mapped_column("metadata", JSONB, server_default=EMPTY_OBJECT)
    #: SHA-256 of the attachments whose bytes are in ``attachments``, in hexadecimal.
    attachments: Mapped[list[str]] = mapped_column(server_default=NO_TEXTS)
    #: Of a chunk: its file, and which of its chunks it is.
    file_id: Mapped[UUID | None]
    chunk_index: Mapped[int | None]
    #: What it is found by without a vector (``jiyi.text.words``), between spaces.
    tokens: Mapped[str] = mapped_column(server_default=text("''"))
    embedding: Mapped[Any | None] = mapped_column(VECTOR())
    embedding_model: Mapped[str | None]
    created_at: Mapped[datetime] = mapped_column(server_default=NOW)


class StoreFile(Base):
    """A file of a store's sources, and how far its index is."""

    __tablename__ = "store_files"
    __table_args__ = (_of_store(), UniqueConstraint("group_id", "store_id", "source", "path"))

    file_id: Mapped[UUID] = mapped_column(primary_key=True)
    group_id: Mapped[str]
    store_id: Mapped[UUID]
    #: The source's ``path`` as declared, and the file's within it.
    source: Mapped[str]
    path: Mapped[str]
    #: ``pending``, ``indexed``, or why it is not: ``unreadable``, ``too_large``, ``encrypted``, ``changing``
    #: …
    state: Mapped[str] = mapped_column(server_default=text("'pending'"))
    state_reason: Mapped[str] = mapped_column(server_default=text("''"))
    #: SHA-256 of the indexed bytes; size and modification time show quickly whether they changed.
    file_hash: Mapped[bytes | None]
    size: Mapped[int] = mapped_column(BigInteger, server_default=text("0"))
    modified_ns: Mapped[int] = mapped_column(BigInteger, server_default=text("0"))
    encoding: Mapped[str] = mapped_column(server_default=text("'utf-8'"))
    #: How it was cut, in characters.
    chunk_size: Mapped[int | None]
    chunk_overlap: Mapped[int | None]
    chunks_count: Mapped[int] = mapped_column(server_default=text("0"))
    seen_at: Mapped[datetime] = mapped_column(server_default=NOW)
    indexed_at: Mapped[datetime | None]


class AttachmentRow(Base):
    """Bytes that came with messages, once in each store."""

    __tablename__ = "attachments"
    __table_args__ = (_of_store(),)

    store_id: Mapped[UUID] = mapped_column(primary_key=True)
    #: In hexadecimal.
    sha256: Mapped[str] = mapped_column(primary_key=True)
    group_id: Mapped[str]
    data: Mapped[bytes]
    size: Mapped[int]
    mime_type: Mapped[str] = mapped_column(server_default=text("''"))
    created_at: Mapped[datetime] = mapped_column(server_default=NOW)


class StoreNode(Base):
    """A graph's node that reads or writes a store: the map of who uses what."""

    __tablename__ = "store_nodes"

    group_id: Mapped[str] = mapped_column(primary_key=True)
    graph: Mapped[str] = mapped_column(primary_key=True)
    node_id: Mapped[str] = mapped_column(primary_key=True)
    #: The order among the node's attachments.
    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    store_name: Mapped[str]
    store_type: Mapped[str]
    retrieve_stage: Mapped[list[str] | None]
    top_k: Mapped[int]
    similarity_threshold: Mapped[float]
    read: Mapped[bool]
    write: Mapped[bool]


class StoreOperation(Base):
    """What a node did with its stores, and how long it took; pruned after some days."""

    __tablename__ = "store_operations"
    __table_args__ = (Index(None, "group_id", "operation_id"),)

    operation_id: Mapped[UUID] = mapped_column(primary_key=True)
    group_id: Mapped[str]
    graph: Mapped[str]
    run_id: Mapped[str]
    node_id: Mapped[str]
    #: ``RETRIEVE`` or ``UPDATE``.
    operation_type: Mapped[str]
    stage: Mapped[str]
    item_count: Mapped[int] = mapped_column(server_default=text("0"))
    attachment_count: Mapped[int] = mapped_column(server_default=text("0"))
    #: Characters.
    input_size: Mapped[int] = mapped_column(server_default=text("0"))
    output_size: Mapped[int] = mapped_column(server_default=text("0"))
    duration_ms: Mapped[float] = mapped_column(server_default=text("0"))
    #: Of each store: name, items, error.
    stores: Mapped[list[Any]] = mapped_column(server_default=EMPTY_LIST)
    created_at: Mapped[datetime] = mapped_column(server_default=NOW)
