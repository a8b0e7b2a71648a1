"""Reading a blackboard: the latest items, oldest first, without scores."""

from __future__ import annotations

from jiyi.protocol.stores.asking import FoundItems, RetrieveItems
from jiyi.protocol.stores.items import Hit
from models.db.connection import reading
from models.stores import items
from models.stores.kinds.kept import KeptStore


def search(store: KeptStore, request: RetrieveItems) -> FoundItems:
    """The latest ``top_k``, whatever is asked."""
    with reading() as connection:
        rows = items.latest(connection, store, request.top_k)
        return FoundItems(hits=[Hit(item=items.item_of(connection, row)) for row in reversed(rows)])
