"""The ``.json`` files that stores are loaded from and saved to."""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

from sqlalchemy import Connection

from engine.parsing.children import parse
from engine.parsing.limits import Refused
from engine.stores import formats
from jiyi.errors import ConfigError, InvalidRequest
from jiyi.protocol.stores.asking import SavedStore
from jiyi.protocol.stores.items import MemoryItem
from jiyi.stores.snapshots import detach
from models.db.actions import Context
from models.folders import make_private
from models.stores import items, rows
from models.stores.items import NewItem
from models.stores.kinds.kept import KeptStore
from models.stores.paths import kept_path

log = logging.getLogger(__name__)

#: What a corrupt file is called from then on, before the time.
ASIDE = ".corrupt-"
#: Of a file's name, in the names of files beside it: four bytes each, they leave room for what is added (``paths.MAX_NAME_BYTES``).
MAX_KEPT_CHARS = 50


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
    owed: list[tuple[UUID, str]] = []
    try:
        with connection.begin_nested(), closing(parts(path, "items")) as found:
            for part in found:
                stored = items.insert(connection, store, _new(MemoryItem.model_validate(part), once=once), revision)
                if stored is not None:
                    owed.append((stored[0], store.group_id))
    except formats.CorruptStoreFile as error:
        set_aside(connection, store, path, error)
        return
    items.trim(connection, store, store.config.max_items)
    if once:
        context.enqueue(items.EMBED_ITEMS, owed)


def save(context: Context, store: KeptStore) -> SavedStore:
    """Write all items to the store's file, as a whole: who reads it sees the old one or the new one."""
    count = int(context.connection.execute(items.COUNT, {"group": store.group_id, "store": store.store_id}).scalar_one())
    if store.config.path is None:
        return SavedStore(path=None, items=count)
    path = kept_path(store.group_id, store.config.path, f"{store.name}.memory_path")
    written = write(path, context.connection, store)
    return SavedStore(path=store.config.path, items=written)


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
    make_private(path.parent)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:MAX_KEPT_CHARS]}-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.writelines(parts)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def parts(path: Path, parser: str) -> Generator[Any]:
    """What a parser of :data:`engine.parsing.child.PARSERS` yields of a file; nothing if there is none.

    Raises:
        CorruptStoreFile: it is none that the parser reads, or costs too much to be read.
        ConfigError: it cannot be read.
    """
    try:
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_size > formats.MAX_FILE:
                raise formats.CorruptStoreFile(f"has more than {formats.MAX_FILE:,} bytes")
            yield from parse(parser, file, formats.LIMITS)
    except FileNotFoundError:
        return
    except Refused as refused:
        raise formats.CorruptStoreFile(refused.reason) from None
    except OSError as error:
        raise ConfigError([f"memory_path: {path.name!r} cannot be read: {error.strerror}"]) from None


def set_aside(connection: Connection, store: KeptStore, path: Path, error: formats.CorruptStoreFile) -> None:
    """Keep a corrupt file under another name, and say so in the store's state."""
    aside = path.with_name(f"{path.name[:MAX_KEPT_CHARS]}{ASIDE}{datetime.now(UTC):%Y%m%dT%H%M%S%f}")
    path.rename(aside)
    rows.set_state(connection, store.store_id, "corrupt", f"{path.name}: {error}; it is kept as {aside.name}, and the store began empty")
    log.warning("store %s of %s: %s is corrupt, set aside as %s", store.store_id, store.group_id, path.name, aside.name)


def _new(item: MemoryItem, *, once: bool) -> NewItem:
    """Raises :class:`formats.CorruptStoreFile` for an item that nobody could have stored."""
    try:
        given, attached = (None, []) if item.input_snapshot is None else detach(item.input_snapshot)
        output, more = (None, []) if item.output_snapshot is None else detach(item.output_snapshot)
    except InvalidRequest as error:
        raise formats.CorruptStoreFile(f"item {item.id[:100]!r}: {error}") from None
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
