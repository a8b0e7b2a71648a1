"""The blackboard: what agents said last, oldest first, without vectors."""

from __future__ import annotations

from uuid import uuid4

from pydantic import BaseModel

from engine.stores.items import metadata_of, noted_text
from jiyi.protocol.stores.asking import SavedStore, UpdateStore, WrittenItem
from jiyi.stores.config.types import BlackboardMemoryConfig
from models.db.actions import Context
from models.stores import items, rows
from models.stores.items import NewItem
from models.stores.kinds import storefiles, updates
from models.stores.kinds.kept import Kept, KeptStore


def check(group_id: str, config: BaseModel, path: str) -> None:
    """Raises :class:`jiyi.errors.ConfigError`."""
    assert isinstance(config, BlackboardMemoryConfig)
    storefiles.check(group_id, config.path, f"{path}.memory_path")


def load(context: Context, store: KeptStore) -> None:
    storefiles.load(context, store, once=False)


def update(context: Context, store: KeptStore, request: UpdateStore) -> WrittenItem:
    """Note the output, else what went in; nothing if both are empty."""
    taken = updates.taken(request)
    text = noted_text(request.inputs_text, taken.given, taken.output)
    if not text:
        return WrittenItem(item_id=None, reason="there is nothing to note")
    revision = rows.bump(context.connection, store.store_id)
    new = NewItem(
        key=f"bb_{uuid4()}",
        content_summary=text,
        metadata=metadata_of(request.role, request.inputs_text, taken.notes),
        input_snapshot=taken.given,
        output_snapshot=taken.output,
        attached=taken.attached,
    )
    made = items.insert(context.connection, store, new, revision)
    assert made is not None, "its key is new"
    return WrittenItem(item_id=made[1], dropped=items.trim(context.connection, store, store.config.max_items))


def save(context: Context, store: KeptStore) -> SavedStore:
    return storefiles.save(context, store)


def reindex(_context: Context, _store: KeptStore) -> int:
    """There is no index."""
    return 0


KEPT = Kept(check=check, load=load, update=update, save=save, reindex=reindex)
