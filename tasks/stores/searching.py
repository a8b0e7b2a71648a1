"""The answer to a question to a store, whatever its type."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from jiyi.protocol.stores.asking import FoundItems, RetrieveItems
from models.db.actions import Actor
from models.db.connection import unit_of_work
from models.stores import actions, rows
from models.stores.kinds.kept import KeptStore
from tasks.framework.rpc import implements
from tasks.stores import blackboard, sending, simple
from tasks.stores.files import searching

#: Type → what searches its stores. Each opens connections of its own, in the scope of the group.
SEARCHES: Mapping[str, Callable[[KeptStore, RetrieveItems], FoundItems]] = {
    "simple": simple.search,
    "blackboard": blackboard.search,
    "file": searching.search,
    "mem0": sending.search,
}


@implements(actions.retrieve)
def retrieve(actor: Actor, request: RetrieveItems) -> FoundItems:
    """Search a store. Safe to repeat because it only notes that the store is used."""
    with unit_of_work() as connection:
        store = rows.need(connection, actor.group_id, request.name, request.run_id)
        rows.touch(connection, store.store_id)
    return SEARCHES[store.type](store, request)
