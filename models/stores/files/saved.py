"""The index of a store of files, written to the file of its ``index_path`` and read from it.

The database holds the index. The file is for taking it elsewhere: an index that was built beforehand spares its vectors.
"""

from __future__ import annotations

import logging
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, text

from engine.stores import saved_files as formats
from engine.stores.changes import Found, Place
from engine.stores.chunks import chunk_of
from engine.stores.items import model_name
from engine.stores.saved_files import IndexConfig, IndexedFile, written_index
from jiyi.protocol.stores.asking import SavedStore
from jiyi.protocol.stores.items import MemoryItem
from jiyi.protocol.wire.vectors import Float32
from jiyi.stores.config.embedding import EmbeddingConfig
from jiyi.text.tokens import tokens
from models.db.actions import Context
from models.operations import embedding_models
from models.stores import items
from models.stores import rows as stores
from models.stores.files import rows
from models.stores.kinds import storefiles
from models.stores.kinds.kept import KeptStore
from models.stores.paths import kept_path

log = logging.getLogger(__name__)

#: Texts and vectors, in order, by source and path.
_Files = dict[tuple[str, str], list[tuple[str, NDArray[np.float32] | None]]]


def save(context: Context, store: KeptStore) -> SavedStore:
    """Write the index to the store's file, as a whole; without a path there is nothing to write."""
    connection = context.connection
    where = {"group": store.group_id, "store": store.store_id}
    count = int(connection.execute(items.COUNT, where).scalar_one())
    if store.config.path is None:
        return SavedStore(path=None, items=count)
    path = kept_path(store.group_id, store.config.path, f"{store.name}.index_path")
    model = _model(connection, store)
    config = IndexConfig(chunk_size=store.config.chunk_size, chunk_overlap=store.config.chunk_overlap, embedding_model=model)
    storefiles.write_parts(path, written_index(_files(connection, store), _items(connection, store, model), config))
    if store.state == "corrupt":
        stores.set_state(connection, store.store_id, "ready")
    return SavedStore(path=store.config.path, items=count)


def load(context: Context, store: KeptStore) -> None:
    """Take over the index in the store's file, the first time, if it says which model made its vectors.

    The scan that follows keeps of it what the files still say. A corrupt file is set aside, and reported.
    """
    connection = context.connection
    if store.loaded or store.config.path is None:
        return
    stores.bump(connection, store.store_id)
    stores.mark_loaded(connection, store.store_id)
    path = kept_path(store.group_id, store.config.path, f"{store.name}.index_path")
    try:
        model, files = _index(path)
    except formats.CorruptStoreFile as error:
        storefiles.set_aside(connection, store, path, error)
        return
    if model is None:
        return
    if connection.execute(items.COUNT, {"group": store.group_id, "store": store.store_id}).scalar_one():
        return
    _take_over(connection, store, model, files)


def _index(path: Path) -> tuple[str | None, _Files]:
    """The model that made the vectors of a saved index, and its texts and vectors by source and path."""
    model: str | None = None
    files: _Files = {}
    for part in storefiles.parts(path, "index"):
        if "model" in part:
            model = part["model"]
        else:
            vector = None if part["vector"] is None else _unit(np.frombuffer(b64decode(part["vector"]), dtype=np.float64))
            files.setdefault((part["source"], part["path"]), []).append((part["text"], vector))
    return model, files


def _take_over(connection: Connection, store: KeptStore, model: str, files: _Files) -> None:
    """Texts and vectors, file by file. Each file is read again before its chunks count: what is spared are the vectors of equal texts."""
    revision = stores.bump(connection, store.store_id, dropped=True)
    active = embedding_models.active_model(connection)
    known = active.dimensions if active is not None and model == _model(connection, store) else None
    for place, contents in files.items():
        added = rows.add(connection, store.group_id, store.store_id, [Found(Place(*place), 0, 0)])
        chunks = [chunk_of(store.store_id, *place, number, said) for number, (said, _) in enumerate(contents)]
        for file_id in added:
            words = [" ".join(tokens(chunk.text)) for chunk in chunks]
            rows.write_chunks(connection, store.group_id, store.store_id, file_id, revision, chunks, words, {"file_path": place[1]})
        vectors = [
            {"id": chunk.item_id, "vector": vector, "model": model}
            for chunk, (_, vector) in zip(chunks, contents, strict=True)
            if vector is not None and known in (None, vector.size)  # of another size: nothing could be compared with it
        ]
        if vectors:
            connection.execute(_FILL, vectors)


def _unit(given: NDArray[np.float64]) -> Float32 | None:
    """As long as 1; None where it is none that could be compared."""
    length = float(np.linalg.norm(given))
    return (given / length).astype(np.float32) if np.isfinite(length) and length > 0 else None


def _files(connection: Connection, store: KeptStore) -> Iterator[tuple[str, IndexedFile]]:
    for row in connection.execute(_FILES, {"group": store.group_id, "store": store.store_id}):
        name = row.path if row.source.endswith(row.path) else f"{row.source.rstrip('/')}/{row.path}"
        yield (
            name,
            IndexedFile(
                hash=bytes(row.file_hash).hex(),
                size=row.size,
                chunks_count=row.chunks_count,
                indexed_at=row.indexed_at.timestamp(),
                source=row.source,
                path=row.path,
                encoding=row.encoding,
            ),
        )


def _items(connection: Connection, store: KeptStore, model: str | None) -> Iterator[MemoryItem]:
    """All items, with the vectors of one model: the file can name no more."""
    for row in items.every(connection, store):
        yield items.item_of(connection, row, vector=row.embedding_model == model)


def _model(connection: Connection, store: KeptStore) -> str | None:
    """The model of the store's vectors: the deployment's active one, or, of a store with its own, the one that made the latest."""
    given: EmbeddingConfig = store.config.embedding
    if given.provider != "deployment":
        model: str | None = connection.execute(_LATEST_MODEL, {"group": store.group_id, "store": store.store_id}).scalar_one_or_none()
        return model
    active = embedding_models.active_model(connection)
    return None if active is None else model_name(active.model, given.params)


_LATEST_MODEL = text("""
    SELECT embedding_model FROM store_items WHERE group_id = :group AND store_id = :store AND embedding_model IS NOT NULL
    ORDER BY revision DESC, position DESC LIMIT 1
""")
_FILES = text("""
    SELECT source, path, file_hash, size, chunks_count, indexed_at, encoding FROM store_files
    WHERE group_id = :group AND store_id = :store AND state = 'indexed' ORDER BY source, path
""")
_FILL = text("UPDATE store_items SET embedding = :vector, embedding_model = :model WHERE item_id = :id")
