"""A group's stores, asked as the doors ask."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from jiyi.protocol.base import Rows
from jiyi.protocol.stores import (
    AppliedGraph,
    ApplyGraph,
    FoundStoreItems,
    ItemsQuery,
    ListedItem,
    RetrieveItems,
    Snapshot,
    StoreName,
    StoreState,
    UpdateStore,
    WrittenItem,
)
from models.db.actions import Actor
from models.db.scope import for_groups
from models.stores import actions
from models.stores.items import EMBED_ITEMS
from tasks.framework.work import run_until_idle
from tasks.stores import search

#: The simple store of the group that most tests use, and a blackboard.
SIMPLE = {"name": "notes", "type": "simple", "config": {"memory_path": "notes.json"}}
BOARD = {"name": "board", "type": "blackboard", "config": {"memory_path": "board.json"}}


class Kept:
    """What one group does with its stores."""

    def __init__(self, group: str) -> None:
        self.group = group

    def perform(self, action: Any, request: BaseModel) -> Any:
        return action.perform(Actor(self.group), request)

    def apply(
        self,
        *memory: dict[str, Any],
        nodes: tuple[dict[str, Any], ...] = (),
        run_id: str = "",
        graph: str = "team",
    ) -> AppliedGraph:
        return self.perform(
            actions.apply, ApplyGraph(graph=graph, memory=list(memory), nodes=list(nodes), run_id=run_id)
        )

    def say(
        self, output: str, name: str = "notes", *, inputs: str = "", role: str = "writer", run_id: str = ""
    ) -> WrittenItem:
        request = UpdateStore(
            name=name, run_id=run_id, role=role, inputs_text=inputs, output_snapshot=Snapshot(text=output)
        )
        return self.perform(actions.update, request)

    def ask(
        self, query: str, name: str = "notes", *, run_id: str = "", top_k: int = 3, threshold: float = -1
    ) -> FoundStoreItems:
        with for_groups(self.group):
            request = RetrieveItems(
                name=name, run_id=run_id, query=query, top_k=top_k, similarity_threshold=threshold
            )
            return search.retrieve(Actor(self.group), request)

    def found(self, query: str, name: str = "notes", **options: Any) -> list[str]:
        return [hit.item.content_summary for hit in self.ask(query, name, **options).hits]

    def items(self, name: str = "notes", *, run_id: str = "", limit: int = 50) -> Rows[ListedItem]:
        return self.perform(actions.list_items, ItemsQuery(name=name, run_id=run_id, limit=limit))

    def state(self, name: str = "notes", *, run_id: str = "") -> StoreState:
        return self.perform(actions.show, StoreName(name=name, run_id=run_id))

    def load(self, name: str = "notes", *, run_id: str = "") -> StoreState:
        return self.perform(actions.load, StoreName(name=name, run_id=run_id))


def embed() -> int:
    """Do all embedding that is owed."""
    return run_until_idle(EMBED_ITEMS, search.embed_items)
