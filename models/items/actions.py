"""Actions on items: what programs such as LangGraph's stores keep for themselves (docs/integrations.md)."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from jiyi.protocol.base import Rows
from jiyi.protocol.items import GetItems, Item, ItemsWritten, ListNamespaces, PutItems
from models.db.actions import Context, action, by_worker
from models.db.connection import unit_of_work
from models.items import storage
from models.items.storage import EMBED_VALUES

search_items = by_worker("items.search")


@action("items.put")
def put_items(context: Context, request: PutItems) -> ItemsWritten:
    """Store or delete items.

    A JSON object under a namespace and a key, in place of what was there. All of a request are stored, or
    none.
    """
    last = {(*item.namespace, item.key): item for item in request.items}
    gone = [item for item in last.values() if item.value is None]
    deleted = storage.delete(context.connection, context.group_id, gone)
    pending_ids = storage.put(
        context.connection, context.group_id, [item for item in last.values() if item.value is not None]
    )
    context.enqueue(EMBED_VALUES, [(item_id, context.group_id) for item_id in pending_ids])
    context.audit("items", stored=len(last) - len(gone), deleted=deleted)
    return ItemsWritten(stored=len(last) - len(gone), deleted=deleted)


@action("items.get")
def get_items(context: Context, request: GetItems) -> Rows[Item | None]:
    """Get items.

    By namespace and key, in the order asked; null where there is none. Their time to live restarts unless
    the request says otherwise.
    """
    entries = storage.get(context.connection, context.group_id, request.items)
    read = [
        entry[0]
        for entry, reference in zip(entries, request.items, strict=True)
        if entry is not None and reference.refresh_ttl
    ]
    context.after_commit(lambda: refresh(context.group_id, read))
    return Rows(rows=[entry and entry[1] for entry in entries])


@action("items.namespaces")
def list_namespaces(context: Context, request: ListNamespaces) -> Rows[list[str]]:
    """List namespaces.

    Those that have items, in alphabetical order; by what they begin or end with, or cut to a depth.
    """
    return Rows(rows=storage.namespaces(context.connection, context.group_id, request))


def refresh(group_id: str, ids: Sequence[UUID]) -> None:
    """Restart the time to live of items that were read, apart from the reading, which only reads."""
    if ids:
        with unit_of_work() as connection:
            storage.refresh(connection, group_id, ids)
