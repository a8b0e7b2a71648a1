"""Folders with files, a store of them, and the work that is owed for it, done in this process."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sqlalchemy import text

from jiyi.protocol.stores import FoundStoreItems, RetrieveItems, SavedStore
from jiyi.stores.types import FileMemoryConfig
from models.db.actions import Actor, Context
from models.db.connection import unit_of_work
from models.db.scope import for_groups
from models.queue import pending_work
from models.stores import rows, saved_files
from models.stores.backends import INDEX, SCAN
from models.stores.items import EMBED_ITEMS
from models.stores.rows import StoreRecord
from tasks.framework.work import run_until_idle
from tasks.stores.index_files import index_file, scan_files
from tasks.stores.search import embed_items, search

#: Seconds before now that written files say they are from: young ones are read again by the next scan.
AGE = 60
FILES = "SELECT path, state, state_reason FROM store_files WHERE store_id = :id"


class Folder:
    """A group's store of the files in a folder."""

    def __init__(self, group: str, path: Path, **config: Any) -> None:
        self.group, self.path = group, path
        self.declare(**config)

    def declare(self, **config: Any) -> None:
        given = {"file_sources": [{"path": str(self.path)}]} | config
        FileMemoryConfig.model_validate(given)
        with unit_of_work() as connection:
            self.store_id, _ = rows.declare(connection, self.group, "", "notes", "file", given)

    def perform(self, deed: Callable[[Context, StoreRecord], Any]) -> Any:
        """Load, save or re-index it, as the action does."""
        with for_groups(self.group), unit_of_work() as connection:
            return deed(
                Context(connection, Actor(self.group), "test"), rows.need(connection, self.group, "notes")
            )

    @property
    def store(self) -> StoreRecord:
        with unit_of_work() as connection:
            return rows.need(connection, self.group, "notes")

    def write(self, name: str, content: str | bytes) -> Path:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        seen = path.stat()
        os.utime(path, ns=(seen.st_atime_ns, seen.st_mtime_ns - AGE * 10**9))
        return path

    def owe_scan(self) -> None:
        with unit_of_work() as connection:
            pending_work.enqueue(connection, SCAN, [(self.store_id, self.group)])

    def save(self) -> SavedStore:
        return self.perform(lambda context, store: saved_files.save(context.connection, store))

    @property
    def reason(self) -> str:
        """What is the matter with the store."""
        [row] = self._rows("SELECT state_reason FROM stores WHERE store_id = :id")
        return row.state_reason

    def scan_only(self) -> None:
        """Look through the folder; what follows is owed."""
        self.owe_scan()
        run_until_idle(SCAN, scan_files)

    def scan(self) -> None:
        """Look through the folder, and do all that follows."""
        self.scan_only()
        run_until_idle(INDEX, index_file)
        run_until_idle(EMBED_ITEMS, embed_items)

    def states(self) -> dict[str, str]:
        return {row.path: row.state for row in self._rows(FILES)}

    def reasons(self) -> dict[str, str]:
        return {row.path: row.state_reason for row in self._rows(FILES)}

    def chunks(self) -> list[Any]:
        """All that is indexed, in the order of its keys."""
        return self._rows("""
            SELECT item_id, key, content_summary, content_hash, chunk_index, metadata, tokens,
            embedding::text AS embedding, embedding_model
            FROM store_items WHERE store_id = :id ORDER BY key
        """)

    def ask(self, query: str, top_k: int = 3, **more: Any) -> FoundStoreItems:
        with for_groups(self.group):
            return search(self.store, RetrieveItems(name="notes", query=query, top_k=top_k, **more))

    def first(self, query: str, **more: Any) -> str:
        """What the best hit says; "" without one."""
        return next((hit.item.content_summary for hit in self.ask(query, **more).hits), "")

    def _rows(self, statement: str) -> list[Any]:
        with unit_of_work() as connection:
            return list(connection.execute(text(statement), {"id": self.store_id}))


MakeFolder = Callable[..., Folder]
