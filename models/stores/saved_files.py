"""The ``.json`` files that stores are loaded from and saved to; which files a store may read and write
(``JIYI_STORE_ROOTS``).

A saved index spares the vectors of its texts wherever the same files are indexed again. A path is looked at
as the file system sees it, after ``..`` and symbolic links: what points out of the folders is refused.
"""

from __future__ import annotations

import hashlib
import logging
import os
import tempfile
from base64 import b64decode
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import UUID

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, text

from engine.stores.children import parse
from engine.stores.chunks import FilePlace, ScannedFile, chunk_of
from engine.stores.items import model_name
from engine.stores.limits import RefusedDocument
from engine.stores.saved_files import (
    LIMITS,
    MAX_FILE,
    CorruptStoreFile,
    IndexConfig,
    IndexedFile,
    written_index,
    written_items,
)
from jiyi.errors import ConfigError, InvalidRequest
from jiyi.protocol.stores import MemoryItem, SavedStore
from jiyi.protocol.wire.vectors import Float32
from jiyi.settings import get_settings
from jiyi.stores.snapshots import detach
from jiyi.stores.types import EmbeddingConfig
from models.db.actions import Context
from models.folders import make_private
from models.operations import embedding_models
from models.stores import file_rows, items, rows
from models.stores.items import NewItem
from models.stores.rows import StoreRecord

log = logging.getLogger(__name__)
#: What a corrupt file is called from then on, before the time.
ASIDE = ".corrupt-"
#: Of a file's name, in the names of files beside it: of four bytes each they leave room for what is added.
MAX_KEPT_CHARS = 50
#: Texts and vectors, in order, by source and path.
_Files = dict[FilePlace, list[tuple[str, NDArray[np.float32] | None]]]
SETTING = "JIYI_STORE_ROOTS"
#: In the home, the folder with one folder for each group.
OWN_FOLDER = "stores"
#: Of a file's or folder's name: the limit of Linux's file systems.
MAX_NAME_BYTES = 255
#: Trees of processes and devices: nothing of them is read, whatever the setting says.
PSEUDO = tuple(Path(name) for name in ("/proc", "/sys", "/dev"))


def check_path(group_id: str, path: str | None, field: str) -> None:
    """Raises :class:`ConfigError` unless the file may be written where it is to be."""
    if path is None:
        return
    target = storage_path(group_id, path, field)
    folder = next(parent for parent in target.parents if parent.exists())
    written = [folder, target] if target.exists() else [folder]
    if not folder.is_dir() or not all(os.access(one, os.W_OK) for one in written):
        raise ConfigError(
            f"{field}: {target.name!r} cannot be written in its folder: give the service the right to, or"
            " another path"
        )


def load_items(context: Context, store: StoreRecord, *, once: bool) -> None:
    """Read the store's file, the first time. A corrupt one is set aside, and reported."""
    connection = context.connection
    if store.loaded or store.config.path is None:
        return
    revision, path = rows.mark_loaded(connection, store.store_id), _path(store)
    pending: list[tuple[UUID, str]] = []
    try:
        with connection.begin_nested(), closing(_parts(path, "items")) as loaded:
            for part in loaded:
                new = _new(MemoryItem.model_validate(part), once=once)
                new_ids = items.insert(connection, store, new, revision)
                if new_ids is not None:
                    pending.append((new_ids[0], store.group_id))
    except CorruptStoreFile as error:
        _set_aside(connection, store, path, error)
        return
    items.trim(connection, store, store.config.max_items)
    if once:
        context.enqueue(items.EMBED_ITEMS, pending)


def save(connection: Connection, store: StoreRecord) -> SavedStore:
    """Write all items, or the index, to the store's file; without a path there is nothing to write."""
    count, name = items.count(connection, store), getattr(store.config, "path", None)
    if name is not None:
        parts = _index_parts if store.type == "file" else _item_parts
        _write(_path(store), parts(connection, store))
        if store.type == "file" and store.state == "corrupt":
            rows.set_state(connection, store.store_id, "ready")
    return SavedStore(path=name, items=count)


def _path(store: StoreRecord) -> Path:
    field = "index_path" if store.type == "file" else "memory_path"
    return storage_path(store.group_id, store.config.path, f"{store.name}.{field}")


def _item_parts(connection: Connection, store: StoreRecord) -> Iterator[str]:
    every = items.every(connection, store)
    return written_items(items.item_of(connection, row, vector=True) for row in every)


def _index_parts(connection: Connection, store: StoreRecord) -> Iterator[str]:
    file_rows.note_saved(connection, store.store_id)  # which keeps others from changing it meanwhile
    model = _model(connection, store)
    config = IndexConfig(
        chunk_size=store.config.chunk_size, chunk_overlap=store.config.chunk_overlap, embedding_model=model
    )
    # with the vectors of one model: the file can name no more
    every = (
        items.item_of(connection, row, vector=row.embedding_model == model)
        for row in items.every(connection, store)
    )
    return written_index(_files(connection, store), every, config)


def _write(path: Path, parts: Iterable[str]) -> None:
    """Write a file as a whole: who reads it sees the old one or the new one."""
    make_private(path.parent)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:MAX_KEPT_CHARS]}-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.writelines(parts)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _parts(path: Path, parser: str) -> Generator[Any]:
    """What the parser of this name (:mod:`engine.stores.child`) yields of a file; nothing if there is none.

    Raises:
        CorruptStoreFile: it is none that the parser reads, or costs too much to be read.
        ConfigError: it cannot be read.
    """
    try:
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_size > MAX_FILE:
                raise CorruptStoreFile(f"has more than {MAX_FILE:,} bytes")
            yield from parse(parser, file, LIMITS)
    except FileNotFoundError:
        return
    except RefusedDocument as refused:
        raise CorruptStoreFile(refused.reason) from None
    except OSError as error:
        raise ConfigError(f"memory_path: {path.name!r} cannot be read: {error.strerror}") from None


def _set_aside(connection: Connection, store: StoreRecord, path: Path, error: CorruptStoreFile) -> None:
    """Keep a corrupt file under another name, and say so in the store's state."""
    aside = path.with_name(f"{path.name[:MAX_KEPT_CHARS]}{ASIDE}{datetime.now(UTC):%Y%m%dT%H%M%S%f}")
    path.rename(aside)
    reason = f"{path.name}: {error}; it is kept as {aside.name}, and the store began empty"
    rows.set_state(connection, store.store_id, "corrupt", reason)
    log.warning("store %s of %s is corrupt: %s", store.store_id, store.group_id, reason)


def _new(item: MemoryItem, *, once: bool) -> NewItem:
    """Raises :class:`CorruptStoreFile` for an item that nobody could have stored."""
    try:
        (input_snapshot, output), attached = detach(item.input_snapshot, item.output_snapshot)
    except InvalidRequest as error:
        raise CorruptStoreFile(f"item {item.id[:100]!r}: {error}") from None
    return NewItem(
        key=item.id,
        content_summary=item.content_summary,
        metadata=item.metadata,
        input_snapshot=input_snapshot,
        output_snapshot=output,
        attached=attached,
        once=once,
        created_at=datetime.fromtimestamp(item.timestamp, UTC),
    )


def save_changed_index(connection: Connection, store: StoreRecord) -> str:
    """Write the index if it has changed since, and nothing of it is being made; why it could not be written.

    That a corrupt file was set aside stays in the store's state until somebody saves the store.
    """
    if store.config.path is None or store.state == "corrupt":
        return ""
    try:
        if file_rows.is_to_be_saved(connection, store):
            save(connection, store)
    except (ConfigError, OSError) as error:
        return f"index_path: {error}"
    return ""


def load_index(context: Context, store: StoreRecord) -> None:
    """Take over the index in the store's file, the first time, if it says which model made its vectors.

    The scan that follows keeps of it what the files still say. A corrupt file is set aside, and reported.
    """
    connection = context.connection
    if store.loaded or store.config.path is None:
        return
    revision, path = rows.mark_loaded(connection, store.store_id), _path(store)
    try:
        model, files = _index(path)
    except CorruptStoreFile as error:
        _set_aside(connection, store, path, error)
        return
    if model is not None and not items.count(connection, store):
        _take_over(connection, store, revision, model, files)


def _index(path: Path) -> tuple[str | None, _Files]:
    """The model that made the vectors of a saved index, and its texts and vectors by source and path."""
    model: str | None = None
    files: _Files = {}
    for part in _parts(path, "index"):
        if "model" in part:
            model = part["model"]
            continue
        encoded = part["vector"]
        vector = _unit(np.frombuffer(b64decode(encoded), dtype=np.float64)) if encoded else None
        files.setdefault(FilePlace(part["source"], part["path"]), []).append((part["text"], vector))
    return model, files


def _take_over(connection: Connection, store: StoreRecord, revision: int, model: str, files: _Files) -> None:
    """Each file is read again before its chunks count: what is spared are the vectors of equal texts."""
    active = embedding_models.active_model(connection)
    dimensions = active.dimensions if active is not None and model == _model(connection, store) else None
    for place, contents in files.items():
        chunks = [
            chunk_of(store.store_id, place, number, chunk_text)
            for number, (chunk_text, _) in enumerate(contents)
        ]
        for file_id in file_rows.add(connection, store, [ScannedFile(place, 0, 0)]):
            file_rows.write_chunks(connection, store, file_id, revision, chunks, {"file_path": place.path})
        vectors = [
            {"id": chunk.item_id, "vector": vector, "model": model}
            for chunk, (_, vector) in zip(chunks, contents, strict=True)
            if vector is not None
            and dimensions in (None, vector.size)  # of another size: nothing could be compared with it
        ]
        if vectors:
            connection.execute(_FILL, vectors)


def _unit(vector: NDArray[np.float64]) -> Float32 | None:
    """As long as 1; None where it is none that could be compared."""
    length = float(np.linalg.norm(vector))
    return (vector / length).astype(np.float32) if np.isfinite(length) and length > 0 else None


def _files(connection: Connection, store: StoreRecord) -> Iterator[tuple[str, IndexedFile]]:
    for row in connection.execute(_FILES, items.of_store(store)).mappings():
        source, path = row["source"], row["path"]
        name = path if source.endswith(path) else f"{source.rstrip('/')}/{path}"
        file = {**row, "hash": bytes(row["file_hash"]).hex(), "indexed_at": row["indexed_at"].timestamp()}
        yield name, IndexedFile.model_validate(file)


def _model(connection: Connection, store: StoreRecord) -> str | None:
    """The model of the store's vectors: the deployment's, or, of its own embedder, that of the latest."""
    config: EmbeddingConfig = store.config.embedding
    if config.provider != "deployment":
        return connection.execute(_LATEST_MODEL, items.of_store(store)).scalar_one_or_none()
    active = embedding_models.active_model(connection)
    return None if active is None else model_name(active.model, config.params)


def roots(group_id: str, *, written: bool = False) -> list[Path]:
    """The folders whose files stores of the group may read, resolved: those of the setting.

    ``written``: where they may be saved to, and loaded from. That is the group's own folder, too; but the
    default of the setting, the service's own pages, is for reading alone.
    """
    names = [name.strip() for name in get_settings().store_roots.split(os.pathsep) if name.strip()]
    folders = [Path(name.replace("{group}", _file_name(group_id))).resolve() for name in names]
    if not written:
        return folders
    writable = folders if "store_roots" in get_settings().model_fields_set else []
    return [own_folder(group_id).resolve(), *writable]


def is_within(path: Path, allowed: Sequence[Path]) -> bool:
    """Whether a resolved path is in one of these folders.

    What is below the home is only in those that are there themselves: a folder around it, such as ``/``, does
    not open what the service keeps, and what stores are saved to is no source of another one.
    """
    home = get_settings().home.resolve()
    is_internal = path.is_relative_to(home)
    return not any(path.is_relative_to(tree) for tree in PSEUDO) and any(
        path.is_relative_to(folder) and (not is_internal or folder.is_relative_to(home)) for folder in allowed
    )


def storage_paths(connection: Connection, group_id: str) -> set[Path]:
    """What the group's stores are saved to, resolved: no source, or an index would be in the next one."""
    paths: set[Path] = set()
    for path in connection.execute(_STORAGE_PATHS, {"group": group_id}).scalars():
        with suppress(ConfigError):  # allowed when it was declared, and no longer
            paths.add(storage_path(group_id, path, "path"))
    return paths


def own_folder(group_id: str) -> Path:
    """Where relative ``memory_path`` and ``index_path`` of the group lead to."""
    return get_settings().home / OWN_FOLDER / _file_name(group_id)


def source_path(group_id: str, path: str, field: str) -> Path:
    """A file or folder to be read, resolved; a relative one where the service runs.

    Raises:
        ConfigError: it is in none of the folders. Whether it exists is not said.
    """
    return _within(group_id, Path(), path, field)


def storage_path(group_id: str, path: str, field: str) -> Path:
    """A ``.json`` file to be read and written, resolved; a relative one in the group's own folder.

    Raises:
        ConfigError: it is in none of the folders, or no ``.json`` file.
    """
    if Path(path).suffix.lower() != ".json":
        raise ConfigError(f"{field}: only .json files are loaded and saved; got {Path(path).name[:60]!r}")
    return _within(group_id, own_folder(group_id), path, field, written=True)


def _within(group_id: str, folder: Path, path: str, field: str, *, written: bool = False) -> Path:
    """The path, relative to the folder, resolved. Errors name what was given, no folder of the service."""
    if "\0" in path:
        raise ConfigError(f"{field}: a path has no NUL character")
    if any(len(os.fsencode(part)) > MAX_NAME_BYTES for part in Path(path).parts):
        raise ConfigError(
            f"{field}: a file's or folder's name is longer than {MAX_NAME_BYTES} bytes (UTF-8); give it a"
            " shorter one"
        )
    try:
        target = (folder / path).resolve()
    except (OSError, RuntimeError) as error:  # a loop of links, a name that is too long
        raise ConfigError(f"{field}: cannot be looked up: {type(error).__name__}") from None
    if not is_within(target, roots(group_id, written=written)):
        raise ConfigError(f"{field}: {path[:200]!r} is in none of the folders that {SETTING} names")
    return target


def _file_name(group_id: str) -> str:
    """A folder's name, another for each group. Of a long one its digest: no quoted name has ``%-``."""
    name = quote(group_id, safe="")
    if len(name) > MAX_NAME_BYTES:
        return f"%-{hashlib.sha256(group_id.encode()).hexdigest()}"
    return name if name.strip(".") else name.replace(".", "%2E")


_LATEST_MODEL = text("""
    SELECT embedding_model FROM store_items WHERE group_id = :group AND store_id = :store
    AND embedding_model IS NOT NULL
    ORDER BY revision DESC, position DESC LIMIT 1
""")
_FILES = text("""
    SELECT source, path, file_hash, size, chunks_count, indexed_at, encoding FROM store_files
    WHERE group_id = :group AND store_id = :store AND state = 'indexed' ORDER BY source, path
""")
_FILL = text("UPDATE store_items SET embedding = :vector, embedding_model = :model WHERE item_id = :id")
_STORAGE_PATHS = text("""
    SELECT DISTINCT path FROM stores s
    CROSS JOIN LATERAL (VALUES (config ->> 'index_path'), (config ->> 'memory_path')) AS kept (path)
    WHERE s.group_id = :group AND path LIKE '%.json'
""")
