"""What the service does for each type of store that it keeps, in the transaction of the action that asks for
it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from sqlalchemy import text

from engine.providers.spec import check_public
from engine.stores import devall
from engine.stores.items import (
    LEAST_SUMMARY,
    key_content,
    metadata_of,
    noted_text,
    summary_of,
    without_headers,
)
from jiyi.errors import ConfigError
from jiyi.protocol.stores import UpdateStore, WrittenItem
from jiyi.stores.snapshots import detach
from jiyi.stores.types import BlackboardMemoryConfig, SimpleMemoryConfig
from models.db.actions import Context
from models.stores import file_rows, items, rows, saved_files
from models.stores.items import EMBED_ITEMS, NewItem
from models.stores.rows import StoreRecord

#: Kinds of work: look through a store's sources; read one file and index it; send an item to mem0.
SCAN, INDEX, SEND_ITEM = "scan_files", file_rows.INDEX, "send_item"


class Backend(ABC):
    """A type of store that the service keeps."""

    @abstractmethod
    def check(self, group_id: str, config: Any, path: str) -> None:
        """Check a group's declaration for what only the service knows: folders, addresses. ``path`` names the
        declaration in errors.

        Raises:
            ConfigError: with the path of what is wrong.
        """

    @abstractmethod
    def load(self, context: Context, store: StoreRecord) -> None:
        """A graph begins to use it: read its file the first time, enqueue the work that updates it."""

    @abstractmethod
    def update(self, context: Context, store: StoreRecord, request: UpdateStore) -> WrittenItem:
        """Store what a node said. Raises :class:`jiyi.errors.InvalidRequest`: an attachment is too large."""

    def reindex(self, context: Context, store: StoreRecord) -> int:  # noqa: ARG002
        """Enqueue the work that rebuilds its index; returns how many items or files there are."""
        return 0


class SimpleBackend(Backend):
    """What agents said, each once, the oldest dropped first; embedded by pending work."""

    def check(self, group_id: str, config: Any, path: str) -> None:
        saved_files.check_path(group_id, config.path, f"{path}.memory_path")
        items.check_embedder(config.embedding, f"{path}.embedding")

    def load(self, context: Context, store: StoreRecord) -> None:
        saved_files.load_items(context, store, once=True)

    def update(self, context: Context, store: StoreRecord, request: UpdateStore) -> WrittenItem:
        """Store an output with what it answers; nothing without an output, or if it says next to nothing."""
        config: SimpleMemoryConfig = store.config
        (input_snapshot, output_snapshot), attached = detach(request.input_snapshot, request.output_snapshot)
        output = output_snapshot.text if output_snapshot else ""
        if not output.strip():
            return WrittenItem(item_id=None, reason="there is no output")
        inputs = request.inputs_text or (input_snapshot.text if input_snapshot else "")
        if config.fidelity == "devall":
            summary = summary_of(devall.key_content(inputs), devall.key_content(output))
        else:
            most = config.max_content_length
            summary = summary_of(key_content(inputs, most), key_content(output, most))
        if len(summary) < LEAST_SUMMARY:
            return WrittenItem(item_id=None, reason=f"the summary has fewer than {LEAST_SUMMARY} characters")
        new = NewItem(
            content_summary=summary,
            metadata=metadata_of(request.role, inputs, attached, len(output)),
            input_snapshot=input_snapshot,
            output_snapshot=output_snapshot,
            attached=attached,
            once=True,
        )
        ids = items.insert(context.connection, store, new, rows.bump(context.connection, store.store_id))
        if ids is None:
            return WrittenItem(item_id=None, reason="the store has it already")
        if config.embedding is not None:
            context.enqueue(EMBED_ITEMS, [(ids[0], store.group_id)])
        dropped = items.trim(context.connection, store, config.max_items)
        return WrittenItem(item_id=ids[1], dropped=dropped)

    def reindex(self, context: Context, store: StoreRecord) -> int:
        """Enqueue every item's vector again; until that is done, items are found by their words."""
        rows.bump(context.connection, store.store_id)
        ids = context.connection.execute(_FORGET_VECTORS, items.of_store(store)).scalars().all()
        if store.config.embedding is not None:
            context.enqueue(EMBED_ITEMS, [(item_id, store.group_id) for item_id in ids])
        return len(ids)


class BlackboardBackend(Backend):
    """What agents said last, oldest first, without vectors."""

    def check(self, group_id: str, config: Any, path: str) -> None:
        saved_files.check_path(group_id, config.path, f"{path}.memory_path")

    def load(self, context: Context, store: StoreRecord) -> None:
        saved_files.load_items(context, store, once=False)

    def update(self, context: Context, store: StoreRecord, request: UpdateStore) -> WrittenItem:
        """Note the output, else what went in; nothing if both are empty."""
        (input_snapshot, output_snapshot), attached = detach(request.input_snapshot, request.output_snapshot)
        noted = noted_text(request.inputs_text, input_snapshot, output_snapshot)
        if not noted:
            return WrittenItem(item_id=None, reason="there is nothing to note")
        new = NewItem(
            key=f"bb_{uuid4()}",
            content_summary=noted,
            metadata=metadata_of(request.role, request.inputs_text, attached),
            input_snapshot=input_snapshot,
            output_snapshot=output_snapshot,
            attached=attached,
        )
        ids = items.insert(context.connection, store, new, rows.bump(context.connection, store.store_id))
        assert ids is not None, "its key is new"
        config: BlackboardMemoryConfig = store.config
        dropped = items.trim(context.connection, store, config.max_items, config.max_age_hours)
        return WrittenItem(item_id=ids[1], dropped=dropped)


class FileBackend(Backend):
    """The texts of files: only read, and indexed by pending work."""

    def check(self, group_id: str, config: Any, path: str) -> None:
        items.check_embedder(config.embedding, f"{path}.embedding")
        for number, source in enumerate(config.file_sources):
            saved_files.source_path(group_id, source.path, f"{path}.file_sources[{number}].path")
        saved_files.check_path(group_id, config.path, f"{path}.index_path")

    def load(self, context: Context, store: StoreRecord) -> None:
        """Take over an index that was built elsewhere, the first time, and enqueue a scan of the sources."""
        saved_files.load_index(context, store)
        context.enqueue(SCAN, [(store.store_id, store.group_id)])

    def update(self, context: Context, store: StoreRecord, request: UpdateStore) -> WrittenItem:
        del context, store, request
        return WrittenItem(item_id=None, reason="a store of files is only read")

    def reindex(self, context: Context, store: StoreRecord) -> int:
        """Enqueue every file again, and a scan of the sources. Vectors of equal texts are reused."""
        due = file_rows.make_due(context.connection, store)
        context.enqueue(INDEX, [(file_id, store.group_id) for file_id in due])
        context.enqueue(SCAN, [(store.store_id, store.group_id)])
        return len(due)


class Mem0Backend(Backend):
    """mem0 keeps it and searches it; what is written waits here until it was sent."""

    def check(self, group_id: str, config: Any, path: str) -> None:  # noqa: ARG002
        if config.api_key is None:
            raise ConfigError(f"{path}.api_key: mem0 needs one")
        if (problem := check_public(config.base_url)) is not None:
            raise ConfigError(f"{path}.base_url: {problem}")

    def load(self, context: Context, store: StoreRecord) -> None:
        """There is nothing to load: mem0 has it."""
        rows.mark_loaded(context.connection, store.store_id)

    def update(self, context: Context, store: StoreRecord, request: UpdateStore) -> WrittenItem:
        """Enqueue the user's text to be sent, without the headers that say where it came from."""
        input_text = request.input_snapshot.text if request.input_snapshot else ""
        content = without_headers(request.inputs_text or input_text)
        if not content:
            return WrittenItem(item_id=None, reason="the user said nothing")
        new = NewItem(content_summary=content, metadata=metadata_of(request.role, content, ()))
        ids = items.insert(context.connection, store, new, rows.bump(context.connection, store.store_id))
        assert ids is not None, "its key is new"
        context.enqueue(SEND_ITEM, [(ids[0], store.group_id)])
        return WrittenItem(item_id=ids[1])

    def reindex(self, context: Context, store: StoreRecord) -> int:
        """Enqueue the waiting items to be sent."""
        ids = items.waiting(context.connection, store)
        context.enqueue(SEND_ITEM, [(item_id, store.group_id) for item_id in ids])
        return len(ids)


#: Type → what the service does for its stores.
BACKENDS: Mapping[str, Backend] = {
    "simple": SimpleBackend(),
    "file": FileBackend(),
    "blackboard": BlackboardBackend(),
    "mem0": Mem0Backend(),
}


_FORGET_VECTORS = text("""
    UPDATE store_items SET embedding = NULL, embedding_model = NULL WHERE group_id = :group
    AND store_id = :store RETURNING item_id
""")
