"""What the service does for each type of store that it keeps, in the transaction of the action that asks for
it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID, uuid4

from pydantic import BaseModel
from sqlalchemy import Connection, text

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
from jiyi.protocol.stores import AttachmentNote, SavedStore, Snapshot, UpdateStore, WrittenItem
from jiyi.stores.snapshots import Attached, detach
from jiyi.stores.types import BlackboardMemoryConfig, FileMemoryConfig, Mem0MemoryConfig, SimpleMemoryConfig
from models.db.actions import Context
from models.stores import file_rows, items, rows, saved_files
from models.stores.items import EMBED_ITEMS, NewItem
from models.stores.rows import StoreRecord

#: Kinds of work: look through a store's sources; read one file and index it; send an item to mem0.
SCAN, INDEX, SEND_ITEM = "scan_files", file_rows.INDEX, "send_item"


class Backend(Protocol):
    """A type of store that the service keeps."""

    def check(self, group_id: str, config: BaseModel, path: str, /) -> None:
        """Check a group's declaration for what only the service knows: folders, addresses. ``path`` names the
        declaration in errors.

        Raises:
            ConfigError: with the path of what is wrong.
        """
        ...

    def load(self, context: Context, store: StoreRecord, /) -> None:
        """A graph begins to use it: read its file the first time, owe the work that brings it up to date.
        Waits for none.
        """
        ...

    def update(self, context: Context, store: StoreRecord, request: UpdateStore, /) -> WrittenItem:
        """Store what a node said. Raises :class:`jiyi.errors.InvalidRequest`: an attachment is too large."""
        ...

    def save(self, context: Context, store: StoreRecord, /) -> SavedStore:
        """Write it to the file of its path, if it has one."""
        ...

    def reindex(self, context: Context, store: StoreRecord, /) -> int:
        """Owe the work that makes its index anew; returns how many items or files there are."""
        ...


class SimpleBackend:
    """What agents said, each once, the oldest out; embedded by work that is owed."""

    def check(self, group_id: str, config: BaseModel, path: str) -> None:
        assert isinstance(config, SimpleMemoryConfig)
        saved_files.check_path(group_id, config.path, f"{path}.memory_path")
        items.check_embedder(config.embedding, f"{path}.embedding")

    def load(self, context: Context, store: StoreRecord) -> None:
        saved_files.load_items(context, store, once=True)

    def update(self, context: Context, store: StoreRecord, request: UpdateStore) -> WrittenItem:
        """Store an output with what it answers; nothing without an output, or if it says next to nothing."""
        config: SimpleMemoryConfig = store.config
        taken = _detached(request)
        output = "" if taken.output is None else taken.output.text
        if not output.strip():
            return WrittenItem(item_id=None, reason="there is no output")
        inputs = request.inputs_text or ("" if taken.given is None else taken.given.text)
        if config.fidelity == "devall":
            summary = summary_of(devall.key_content(inputs), devall.key_content(output))
        else:
            summary = summary_of(
                key_content(inputs, config.max_content_length), key_content(output, config.max_content_length)
            )
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
        ids = items.insert(context.connection, store, new, revision)
        if ids is None:
            return WrittenItem(item_id=None, reason="the store has it already")
        dropped = items.trim(context.connection, store, config.max_items)
        if config.embedding is not None:
            context.enqueue(EMBED_ITEMS, [(ids[0], store.group_id)])
        return WrittenItem(item_id=ids[1], dropped=dropped)

    def save(self, context: Context, store: StoreRecord) -> SavedStore:
        return saved_files.save_items(context, store)

    def reindex(self, context: Context, store: StoreRecord) -> int:
        """Owe every item's vector anew; until then items are found by their words."""
        rows.bump(context.connection, store.store_id)
        ids = (
            context.connection.execute(_FORGET_VECTORS, {"group": store.group_id, "store": store.store_id})
            .scalars()
            .all()
        )
        if store.config.embedding is not None:
            context.enqueue(EMBED_ITEMS, [(item_id, store.group_id) for item_id in ids])
        return len(ids)


class BlackboardBackend:
    """What agents said last, oldest first, without vectors."""

    def check(self, group_id: str, config: BaseModel, path: str) -> None:
        assert isinstance(config, BlackboardMemoryConfig)
        saved_files.check_path(group_id, config.path, f"{path}.memory_path")

    def load(self, context: Context, store: StoreRecord) -> None:
        saved_files.load_items(context, store, once=False)

    def update(self, context: Context, store: StoreRecord, request: UpdateStore) -> WrittenItem:
        """Note the output, else what went in; nothing if both are empty."""
        taken = _detached(request)
        noted = noted_text(request.inputs_text, taken.given, taken.output)
        if not noted:
            return WrittenItem(item_id=None, reason="there is nothing to note")
        revision = rows.bump(context.connection, store.store_id)
        new = NewItem(
            key=f"bb_{uuid4()}",
            content_summary=noted,
            metadata=metadata_of(request.role, request.inputs_text, taken.notes),
            input_snapshot=taken.given,
            output_snapshot=taken.output,
            attached=taken.attached,
        )
        ids = items.insert(context.connection, store, new, revision)
        assert ids is not None, "its key is new"
        return WrittenItem(
            item_id=ids[1],
            dropped=items.trim(context.connection, store, store.config.max_items, store.config.max_age_hours),
        )

    def save(self, context: Context, store: StoreRecord) -> SavedStore:
        return saved_files.save_items(context, store)

    def reindex(self, _context: Context, _store: StoreRecord) -> int:
        """There is no index."""
        return 0


class FileBackend:
    """The texts of files: only read, and indexed by work that is owed."""

    def check(self, group_id: str, config: BaseModel, path: str) -> None:
        assert isinstance(config, FileMemoryConfig)
        items.check_embedder(config.embedding, f"{path}.embedding")
        for number, source in enumerate(config.file_sources):
            saved_files.source_path(group_id, source.path, f"{path}.file_sources[{number}].path")
        saved_files.check_path(group_id, config.path, f"{path}.index_path")

    def load(self, context: Context, store: StoreRecord) -> None:
        """Take over an index that was built elsewhere, the first time, and owe a look through the sources;
        nobody waits for it.
        """
        saved_files.load_index(context, store)
        context.enqueue(SCAN, [(store.store_id, store.group_id)])

    def update(self, _context: Context, _store: StoreRecord, _request: UpdateStore) -> WrittenItem:
        return WrittenItem(item_id=None, reason="a store of files is only read")

    def save(self, context: Context, store: StoreRecord) -> SavedStore:
        return saved_files.save_index(context.connection, store)

    def reindex(self, context: Context, store: StoreRecord) -> int:
        """Owe the indexing of every file anew, and a look through the sources. Vectors of the same texts are
        taken over.
        """
        due = file_rows.make_due(context.connection, store.group_id, store.store_id)
        context.enqueue(INDEX, [(file_id, store.group_id) for file_id in due])
        context.enqueue(SCAN, [(store.store_id, store.group_id)])
        return len(due)


class Mem0Backend:
    """mem0 keeps it and searches it; what is written waits here until it was sent."""

    def check(self, _group_id: str, config: BaseModel, path: str) -> None:
        assert isinstance(config, Mem0MemoryConfig)
        if config.api_key is None:
            raise ConfigError([f"{path}.api_key: mem0 needs one"])
        if (problem := check_public(config.base_url)) is not None:
            raise ConfigError([f"{path}.base_url: {problem}"])

    def load(self, context: Context, store: StoreRecord) -> None:
        """There is nothing to load: mem0 has it."""
        rows.mark_loaded(context.connection, store.store_id)

    def update(self, context: Context, store: StoreRecord, request: UpdateStore) -> WrittenItem:
        """Owe the sending of what the user said: of inputs, without the headers that tell where they came
        from.
        """
        content = without_headers(
            request.inputs_text or (request.input_snapshot.text if request.input_snapshot else "")
        )
        if not content:
            return WrittenItem(item_id=None, reason="the user said nothing")
        new = NewItem(content_summary=content, metadata=metadata_of(request.role, content, ()))
        ids = items.insert(context.connection, store, new, rows.bump(context.connection, store.store_id))
        assert ids is not None, "its key is new"
        context.enqueue(SEND_ITEM, [(ids[0], store.group_id)])
        return WrittenItem(item_id=ids[1])

    def save(self, context: Context, store: StoreRecord) -> SavedStore:
        """There is nothing to save: mem0 has it, but for what waits to be sent."""
        return SavedStore(path=None, items=items.count(context.connection, store))

    def reindex(self, context: Context, store: StoreRecord) -> int:
        """Owe the sending of what waits."""
        ids = context.connection.execute(_WAITING, {"store": store.store_id}).scalars().all()
        context.enqueue(SEND_ITEM, [(item_id, store.group_id) for item_id in ids])
        return len(ids)


#: Type → what the service does for its stores.
BACKENDS: Mapping[str, Backend] = {
    "simple": SimpleBackend(),
    "file": FileBackend(),
    "blackboard": BlackboardBackend(),
    "mem0": Mem0Backend(),
}


@dataclass(frozen=True, slots=True)
class ItemToSend:
    """What a user said, and which mem0 store it goes to."""

    item_id: UUID
    store_id: UUID
    content: str


def items_to_send(connection: Connection, item_ids: Sequence[UUID]) -> list[ItemToSend]:
    """Those that still wait, oldest first."""
    return [
        ItemToSend(row.item_id, row.store_id, row.content_summary)
        for row in connection.execute(_TO_SEND, {"ids": list(item_ids)})
    ]


def forget_sent(connection: Connection, sent: Sequence[ItemToSend]) -> None:
    """They are mem0's now."""
    connection.execute(_SENT, {"ids": [item.item_id for item in sent]})


@dataclass(frozen=True, slots=True)
class _Detached:
    """An update's snapshots without bytes, and the attachments of both."""

    given: Snapshot | None
    output: Snapshot | None
    attached: list[Attached]

    @property
    def notes(self) -> list[AttachmentNote]:
        return [attachment.note for attachment in self.attached]


def _detached(request: UpdateStore) -> _Detached:
    given, of_input = (None, []) if request.input_snapshot is None else detach(request.input_snapshot)
    output, of_output = (None, []) if request.output_snapshot is None else detach(request.output_snapshot)
    return _Detached(given, output, [*of_input, *of_output])


_FORGET_VECTORS = text("""
    UPDATE store_items SET embedding = NULL, embedding_model = NULL WHERE group_id = :group
    AND store_id = :store RETURNING item_id
""")
_WAITING = text("SELECT item_id FROM store_items WHERE store_id = :store ORDER BY position")
_TO_SEND = text(
    "SELECT item_id, store_id, content_summary FROM store_items WHERE item_id = ANY(:ids) ORDER BY position"
)
_SENT = text("DELETE FROM store_items WHERE item_id = ANY(:ids)")
