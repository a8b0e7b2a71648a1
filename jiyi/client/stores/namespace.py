"""``client.stores``: stores that graphs declare (``docs/stores.md``)."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from jiyi.client.calls import Calls, checked
from jiyi.protocol.queries import DEFAULT_PAGE
from jiyi.protocol.stores.asking import (
    AppliedGraph,
    ApplyGraph,
    AttachmentBytes,
    AttachmentQuery,
    DeletedStore,
    FilePage,
    FilesQuery,
    FoundItems,
    ItemPage,
    ItemsQuery,
    LogOperation,
    MapQuery,
    OperationPage,
    OperationsQuery,
    ReindexedStore,
    RetrieveItems,
    SavedStore,
    SchemaQuery,
    StoreMap,
    StoreName,
    StorePage,
    StoreSchema,
    StoresQuery,
    StoreState,
    UpdateStore,
    WrittenItem,
)
from jiyi.protocol.stores.items import Snapshot


class Stores:
    """The group's stores. ``run_id`` names the store of one run of a graph; without it, and if the run has none, it is the group's."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def apply(
        self, graph: str, memory: Sequence[Mapping[str, Any]], nodes: Sequence[Mapping[str, Any]] = (), *, run_id: str = ""
    ) -> AppliedGraph:
        """Declare a graph's stores and which of its nodes use them (:class:`jiyi.stores.graph.Graph` reads them from a file).

        Raises:
            ConfigError: with the path of what is wrong; nothing is changed.
        """
        request = checked(ApplyGraph, graph=graph, memory=list(memory), nodes=list(nodes), run_id=run_id)
        return AppliedGraph.model_validate(self._calls.act("stores.apply", request))

    def schema(self) -> dict[str, Any]:
        """The JSON Schema of declarations."""
        return StoreSchema.model_validate(self._calls.ask("stores.schema", SchemaQuery())).document

    def list(self, *, run_id: str | None = None, limit: int = DEFAULT_PAGE, after: UUID | None = None) -> StorePage:
        """A page of stores, newest first."""
        return StorePage.model_validate(self._calls.ask("stores.list", checked(StoresQuery, run_id=run_id, limit=limit, after=after)))

    def show(self, name: str, *, run_id: str = "") -> StoreState:
        """A store, what is in it, and how far its index is."""
        return StoreState.model_validate(self._calls.ask("stores.show", checked(StoreName, name=name, run_id=run_id)))

    def items(self, name: str, *, run_id: str = "", limit: int = DEFAULT_PAGE, before: int | None = None) -> ItemPage:
        """A page of a store's items, newest first."""
        query = checked(ItemsQuery, name=name, run_id=run_id, limit=limit, before=before)
        return ItemPage.model_validate(self._calls.ask("stores.items", query))

    def files(
        self, name: str, *, run_id: str = "", state: str | None = None, limit: int = DEFAULT_PAGE, after: UUID | None = None
    ) -> FilePage:
        """A page of a store's files in the order of their paths: how far their indexes are, what is the matter with them."""
        query = checked(FilesQuery, name=name, run_id=run_id, state=state, limit=limit, after=after)
        return FilePage.model_validate(self._calls.ask("stores.files", query))

    def attachment(self, name: str, attachment_id: str, *, run_id: str = "") -> bytes:
        """The bytes of an attachment, as they came."""
        query = checked(AttachmentQuery, name=name, run_id=run_id, attachment_id=attachment_id)
        return base64.b64decode(AttachmentBytes.model_validate(self._calls.ask("stores.attachment", query)).data)

    def load(self, name: str, *, run_id: str = "") -> StoreState:
        """Make a store ready; work that brings its index up to date is owed, and not waited for."""
        return StoreState.model_validate(self._calls.act("stores.load", checked(StoreName, name=name, run_id=run_id)))

    def retrieve(
        self,
        name: str,
        query: str,
        *,
        role: str = "",
        top_k: int = 3,
        similarity_threshold: float = -1,
        search: str | None = None,
        run_id: str = "",
        timeout: float | None = None,
    ) -> FoundItems:
        """The items of a store that fit a question best, with the parts of their scores.

        ``search``: how a store of files is searched: ``hybrid``, ``dense`` or ``lexical``; as declared unless given.
        """
        request = checked(
            RetrieveItems,
            name=name,
            run_id=run_id,
            role=role,
            query=query,
            top_k=top_k,
            similarity_threshold=similarity_threshold,
            search=search,
        )
        return FoundItems.model_validate(self._calls.ask("stores.retrieve", request, timeout))

    def update(
        self,
        name: str,
        *,
        role: str,
        inputs_text: str = "",
        input_snapshot: Snapshot | None = None,
        output_snapshot: Snapshot | str | None = None,
        run_id: str = "",
    ) -> WrittenItem:
        """Store what a node said."""
        output = Snapshot(text=output_snapshot) if isinstance(output_snapshot, str) else output_snapshot
        request = checked(
            UpdateStore, name=name, run_id=run_id, role=role, inputs_text=inputs_text, input_snapshot=input_snapshot, output_snapshot=output
        )
        return WrittenItem.model_validate(self._calls.act("stores.update", request))

    def save(self, name: str, *, run_id: str = "") -> SavedStore:
        """Write a store to the file of its path, in the original's format."""
        return SavedStore.model_validate(self._calls.act("stores.save", checked(StoreName, name=name, run_id=run_id)))

    def reindex(self, name: str, *, run_id: str = "") -> int:
        """Have a store's index made anew; how many items or files that are."""
        return ReindexedStore.model_validate(self._calls.act("stores.reindex", checked(StoreName, name=name, run_id=run_id))).owed

    def delete(self, name: str, *, run_id: str = "") -> int:
        """Delete a store with all that it holds; how many items that were."""
        return DeletedStore.model_validate(self._calls.act("stores.delete", checked(StoreName, name=name, run_id=run_id))).items

    def map(self, graph: str | None = None) -> StoreMap:
        """Which node uses which store."""
        return StoreMap.model_validate(self._calls.ask("stores.map", checked(MapQuery, graph=graph)))

    def log(self, operation: LogOperation) -> None:
        """Note what a node did with its stores."""
        self._calls.act("stores.log", operation)

    def operations(self, graph: str | None = None, *, limit: int = DEFAULT_PAGE, before: UUID | None = None) -> OperationPage:
        """A page of what nodes did with stores, newest first."""
        query = checked(OperationsQuery, graph=graph, limit=limit, before=before)
        return OperationPage.model_validate(self._calls.ask("stores.operations", query))
