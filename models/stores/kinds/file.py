"""What the service does for a store of files: check its folders, owe the work that keeps its index."""

from __future__ import annotations

from pydantic import BaseModel

from jiyi.protocol.stores.asking import SavedStore, UpdateStore, WrittenItem
from jiyi.stores.config.types import FileMemoryConfig
from models.db.actions import Context
from models.stores import embedding, paths
from models.stores.files import rows, saved
from models.stores.kinds import storefiles
from models.stores.kinds.kept import Kept, KeptStore

#: Kinds of work: look through a store's sources; read one file and index it.
SCAN, INDEX = "scan_files", "index_file"


def check(group_id: str, config: BaseModel, path: str) -> None:
    """Raises :class:`jiyi.errors.ConfigError` for a path in none of the folders that stores may use."""
    assert isinstance(config, FileMemoryConfig)
    embedding.check(config.embedding, f"{path}.embedding")
    for number, source in enumerate(config.file_sources):
        paths.source_path(group_id, source.path, f"{path}.file_sources[{number}].path")
    storefiles.check(group_id, config.path, f"{path}.index_path")


def load(context: Context, store: KeptStore) -> None:
    """Take over an index that was built elsewhere, the first time, and owe a look through the sources; nobody waits for it."""
    saved.load(context, store)
    context.enqueue(SCAN, [(store.store_id, store.group_id)])


def update(_context: Context, _store: KeptStore, _request: UpdateStore) -> WrittenItem:
    """Nothing: files are only read."""
    return WrittenItem(item_id=None, reason="a store of files is only read")


def save(context: Context, store: KeptStore) -> SavedStore:
    """Write the index to the file of its ``index_path``."""
    return saved.save(context, store)


def reindex(context: Context, store: KeptStore) -> int:
    """Owe the indexing of every file anew, and a look through the sources. Vectors of the same texts are taken over."""
    files = rows.make_due(context.connection, store.group_id, store.store_id)
    context.enqueue(INDEX, [(file_id, store.group_id) for file_id in files])
    context.enqueue(SCAN, [(store.store_id, store.group_id)])
    return len(files)


KEPT = Kept(check=check, load=load, update=update, save=save, reindex=reindex)
