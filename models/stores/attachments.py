"""Bytes of attachments: once in each store, for as long as an item has them."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import Connection, text

from jiyi.errors import InvalidRequest
from jiyi.stores.snapshots import MAX_ATTACHMENTS, Attached
from models.stores.kinds.kept import KeptStore


def keep(connection: Connection, store: KeptStore, attached: Sequence[Attached]) -> None:
    """Keep those that the store has not; its row is locked.

    Raises:
        InvalidRequest: the store would have more than ``MAX_ATTACHMENTS`` bytes.
    """
    for one in {one.note.attachment_id: one for one in attached}.values():
        values = {"store": store.store_id, "group": store.group_id, "sha256": one.note.attachment_id, "data": one.data}
        connection.execute(_KEEP, {**values, "size": len(one.data), "mime": one.note.mime_type})
    if attached and (size := int(connection.execute(_SIZE, {"store": store.store_id}).scalar_one())) > MAX_ATTACHMENTS:
        raise InvalidRequest(
            [f"blocks: the attachments of the store {store.name!r} would be {size:,} bytes, more than {MAX_ATTACHMENTS:,}"]
        )


def read(connection: Connection, store_id: UUID, sha256s: Sequence[str]) -> dict[str, bytes]:
    """Those of the bytes that the store has, by their SHA-256."""
    return {row.sha256: bytes(row.data) for row in connection.execute(_READ, {"store": store_id, "ids": list(sha256s)})}


def described(connection: Connection, store_id: UUID, sha256: str) -> tuple[bytes, str] | None:
    """Bytes and media type."""
    row = connection.execute(_ONE, {"store": store_id, "id": sha256}).one_or_none()
    return None if row is None else (bytes(row.data), row.mime_type)


def drop_unused(connection: Connection, store_id: UUID) -> None:
    """Those that no item has any more go."""
    connection.execute(_DROP, {"store": store_id})


_KEEP = text("""
    INSERT INTO attachments (store_id, sha256, group_id, data, size, mime_type)
    VALUES (:store, :sha256, :group, :data, :size, :mime) ON CONFLICT DO NOTHING
""")
_SIZE = text("SELECT coalesce(sum(size), 0) FROM attachments WHERE store_id = :store")
_READ = text("SELECT sha256, data FROM attachments WHERE store_id = :store AND sha256 = ANY(:ids)")
_ONE = text("SELECT data, mime_type FROM attachments WHERE store_id = :store AND sha256 = :id")
_DROP = text("""
    DELETE FROM attachments a WHERE a.store_id = :store AND NOT EXISTS (
        SELECT FROM store_items i WHERE i.group_id = a.group_id AND i.store_id = a.store_id AND i.attachments @> ARRAY[a.sha256]
    )
""")
