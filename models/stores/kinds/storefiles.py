"""The ``.json`` files that stores are loaded from and saved to (DA-26, DA-51, DA-55)."""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import Connection

from jiyi.errors import ConfigError
from jiyi.protocol.stores.asking import SavedStore
from jiyi.protocol.stores.items import MemoryItem
from jiyi.stores import formats
from jiyi.stores.snapshots import detach
from models.db.actions import Context
from models.stores import items, rows
from models.stores.items import NewItem
from models.stores.kinds.kept import KeptStore
from models.stores.paths import kept_path

log = logging.getLogger(__name__)

#: What a corrupt file is called from then on, before the time.
ASIDE = ".corrupt-"


def check(group_id: str, path: str | None, field: str) -> None:
    """Raises :class:`ConfigError` unless the file may be written where it is to be."""
    if path is None:
        return
    found = kept_path(group_id, path, field)
    folder = next(one for one in found.parents if one.exists())
    if not folder.is_dir() or not os.access(folder, os.W_OK) or (found.exists() and not os.access(found, os.W_OK)):
        raise ConfigError([f"{field}: {found.name!r} cannot be written in its folder: give the service the right to, or another path"])


def load(context: Context, store: KeptStore, *, once: bool) -> None:
    """Read the store's file, the first time: what the store has not yet is added. A corrupt one is set aside, and reported."""
    connection = context.connection
    if store.loaded or store.config.path is None:
        return
    revision = rows.bump(connection, store.store_id)
    rows.mark_loaded(connection, store.store_id)
    path = kept_path(store.group_id, store.config.path, f"{store.name}.memory_path")
    try:
        found = formats.read_items(text_of(path))
    except formats.CorruptStoreFile as error:
        set_aside(connection, store, path, error)
        return
    new = [(one, _new(one, once=once)) for one in found]
    stored = [items.insert(connection, store, one, revision) for _, one in new]
    items.trim(connection, store, store.config.max_items)
    if once:
        context.owe(items.EMBED_ITEMS, [(made[0], store.group_id) for made in stored if made is not None])


def save(context: Context, store: KeptStore) -> SavedStore:
    """Write all items to the store's file, as a whole: who reads it sees the old one or the new one."""
    count = int(context.connection.execute(items.COUNT, {"group": store.group_id, "store": store.store_id}).scalar_one())
    if store.config.path is None:
        return SavedStore(path=None, items=count)
    path = kept_path(store.group_id, store.config.path, f"{store.name}.memory_path")
    written = write(path, context.connection, store)
    return SavedStore(path=str(path), items=written)


def write(path: Path, connection: Connection, store: KeptStore) -> int:
    """The store's items as a file; how many they are."""
    count = 0

    def counted() -> Iterator[MemoryItem]:
        nonlocal count
        for row in items.every(connection, store):
            count += 1
            yield items.item_of(connection, row, vector=True)

    write_parts(path, formats.written(counted()))
    return count


def write_parts(path: Path, parts: Iterable[str]) -> None:
    """Write a file as a whole: who reads it sees the old one or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:60]}-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.writelines(parts)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def text_of(path: Path) -> str:
    """What is in a file; "" if there is none. Raises :class:`formats.CorruptStoreFile` or :class:`ConfigError`."""
    try:
        if path.stat().st_size > formats.MAX_FILE:
            raise formats.CorruptStoreFile(f"has more than {formats.MAX_FILE:,} bytes")
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
    except UnicodeDecodeError:
        raise formats.CorruptStoreFile("is no UTF-8") from None
    except OSError as error:
        raise ConfigError([f"memory_path: {path.name!r} cannot be read: {error.strerror}"]) from None


def set_aside(connection: Connection, store: KeptStore, path: Path, error: formats.CorruptStoreFile) -> None:
    """Keep a corrupt file under another name, and say so in the store's state (DA-51)."""
    aside = path.with_name(f"{path.name}{ASIDE}{datetime.now(UTC):%Y%m%dT%H%M%S%f}")
    path.rename(aside)
    rows.set_state(connection, store.store_id, "corrupt", f"{path.name}: {error}; it is kept as {aside.name}, and the store began empty")
    log.warning("store %s of %s: %s is corrupt, set aside as %s", store.store_id, store.group_id, path.name, aside.name)


def _new(item: MemoryItem, *, once: bool) -> NewItem:
    """Vectors of files are not taken over: nothing says which model made them."""
    given, attached = (None, []) if item.input_snapshot is None else detach(item.input_snapshot)
    output, more = (None, []) if item.output_snapshot is None else detach(item.output_snapshot)
    return NewItem(
        key=item.id,
        content_summary=item.content_summary,
        metadata=item.metadata,
        input_snapshot=given,
        output_snapshot=output,
        attached=[*attached, *more],
        once=once,
        created_at=datetime.fromtimestamp(item.timestamp, UTC),
    )
