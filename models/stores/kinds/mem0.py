"""The mem0 store: mem0 keeps it and searches it; what is written waits here until it was sent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from pydantic import BaseModel
from sqlalchemy import Connection, text

from engine.providers.public_addresses import check_public
from engine.stores.headers import without_headers
from engine.stores.items import metadata_of
from jiyi.errors import ConfigError
from jiyi.protocol.stores.asking import SavedStore, UpdateStore, WrittenItem
from jiyi.stores.config.types import Mem0MemoryConfig
from models.db.actions import Context
from models.stores import items, rows
from models.stores.items import NewItem
from models.stores.kinds.kept import Kept, KeptStore

#: The kind of work that an item owes which is to be sent.
SEND_ITEM = "send_item"


@dataclass(frozen=True, slots=True)
class ItemToSend:
    """What a user said, and where it goes."""

    item_id: UUID
    store_id: UUID
    content: str


def check(_group_id: str, config: BaseModel, path: str) -> None:
    """Raises :class:`ConfigError`."""
    assert isinstance(config, Mem0MemoryConfig)
    if config.api_key is None:
        raise ConfigError([f"{path}.api_key: mem0 needs one"])
    if (why := check_public(config.base_url)) is not None:
        raise ConfigError([f"{path}.base_url: {why}"])


def load(context: Context, store: KeptStore) -> None:
    """There is nothing to load: mem0 has it."""
    rows.mark_loaded(context.connection, store.store_id)


def update(context: Context, store: KeptStore, request: UpdateStore) -> WrittenItem:
    """Owe the sending of what the user said: of inputs, without the headers that tell where they came from."""
    said = without_headers(request.inputs_text or (request.input_snapshot.text if request.input_snapshot else ""))
    if not said:
        return WrittenItem(item_id=None, reason="the user said nothing")
    new = NewItem(content_summary=said, metadata=metadata_of(request.role, said, ()))
    made = items.insert(context.connection, store, new, rows.bump(context.connection, store.store_id))
    assert made is not None, "its key is new"
    context.enqueue(SEND_ITEM, [(made[0], store.group_id)])
    return WrittenItem(item_id=made[1])


def save(context: Context, store: KeptStore) -> SavedStore:
    """There is nothing to save: mem0 has it, but for what waits to be sent."""
    waiting = context.connection.execute(items.COUNT, {"group": store.group_id, "store": store.store_id}).scalar_one()
    return SavedStore(path=None, items=int(waiting))


def reindex(context: Context, store: KeptStore) -> int:
    """Owe the sending of what waits."""
    ids = list(context.connection.execute(_WAITING, {"store": store.store_id}).scalars())
    context.enqueue(SEND_ITEM, [(item_id, store.group_id) for item_id in ids])
    return len(ids)


def to_send(connection: Connection, item_ids: Sequence[UUID]) -> list[ItemToSend]:
    """Those that still wait, oldest first."""
    return [ItemToSend(row.item_id, row.store_id, row.content_summary) for row in connection.execute(_TO_SEND, {"ids": list(item_ids)})]


def sent(connection: Connection, sent_items: Sequence[ItemToSend]) -> None:
    """They are mem0's now."""
    connection.execute(_SENT, {"ids": [one.item_id for one in sent_items]})


_WAITING = text("SELECT item_id FROM store_items WHERE store_id = :store ORDER BY position")
_TO_SEND = text("SELECT item_id, store_id, content_summary FROM store_items WHERE item_id = ANY(:ids) ORDER BY position")
_SENT = text("DELETE FROM store_items WHERE item_id = ANY(:ids)")
KEPT = Kept(check=check, load=load, update=update, save=save, reindex=reindex)
