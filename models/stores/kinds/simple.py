"""The simple store: what agents said, each once, the oldest out; embedded by work that is owed."""

from __future__ import annotations

from pydantic import BaseModel
from sqlalchemy import text

from engine.stores.items import LEAST_SUMMARY, metadata_of, summary_of
from jiyi.protocol.stores.asking import SavedStore, UpdateStore, WrittenItem
from jiyi.stores.config.types import SimpleMemoryConfig
from models.db.actions import Context
from models.stores import embedding, items, rows
from models.stores.items import EMBED_ITEMS, NewItem
from models.stores.kinds import storefiles, updates
from models.stores.kinds.kept import Kept, KeptStore


def check(group_id: str, config: BaseModel, path: str) -> None:
    """Raises :class:`jiyi.errors.ConfigError`."""
    assert isinstance(config, SimpleMemoryConfig)
    storefiles.check(group_id, config.path, f"{path}.memory_path")
    embedding.check(config.embedding, f"{path}.embedding")


def load(context: Context, store: KeptStore) -> None:
    """Read its file the first time, and owe the vectors that its embedder has not made yet."""
    storefiles.load(context, store, once=True)


def update(context: Context, store: KeptStore, request: UpdateStore) -> WrittenItem:
    """Store an output with what it answers; nothing without an output, or if it says next to nothing."""
    config: SimpleMemoryConfig = store.config
    taken = updates.taken(request)
    output = "" if taken.output is None else taken.output.text
    if not output.strip():
        return WrittenItem(item_id=None, reason="there is no output")
    inputs = request.inputs_text or ("" if taken.given is None else taken.given.text)
    summary = summary_of(inputs, output, config.max_content_length, config.fidelity)
    if len(summary) < LEAST_SUMMARY:
        return WrittenItem(item_id=None, reason=f"the summary has fewer than {LEAST_SUMMARY} characters")
    revision = rows.bump(context.connection, store.store_id)
    new = NewItem(
        content_summary=summary,
        metadata=metadata_of(request.role, inputs, taken.notes, len(output)),
        input_snapshot=taken.given,
        output_snapshot=taken.output,
        attached=taken.attached,
        once=True,
    )
    made = items.insert(context.connection, store, new, revision)
    if made is None:
        return WrittenItem(item_id=None, reason="the store has it already")
    dropped = items.trim(context.connection, store, config.max_items)
    if config.embedding is not None:
        context.enqueue(EMBED_ITEMS, [(made[0], store.group_id)])
    return WrittenItem(item_id=made[1], dropped=dropped)


def save(context: Context, store: KeptStore) -> SavedStore:
    return storefiles.save(context, store)


def reindex(context: Context, store: KeptStore) -> int:
    """Owe every item's vector anew; until then items are found by their words."""
    rows.bump(context.connection, store.store_id, dropped=True)
    ids = list(context.connection.execute(_FORGET_VECTORS, {"group": store.group_id, "store": store.store_id}).scalars())
    if store.config.embedding is not None:
        context.enqueue(EMBED_ITEMS, [(item_id, store.group_id) for item_id in ids])
    return len(ids)


_FORGET_VECTORS = text("""
    UPDATE store_items SET embedding = NULL, embedding_model = NULL WHERE group_id = :group AND store_id = :store RETURNING item_id
""")
KEPT = Kept(check=check, load=load, update=update, save=save, reindex=reindex)
