"""What can be done with declared stores."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, insert, text
from uuid6 import uuid7

from jiyi.errors import ConfigError, NotFound
from jiyi.protocol.base import Count, JsonObject, Made, Request, Rows
from jiyi.protocol.stores import (
    AppliedGraph,
    AppliedStore,
    ApplyGraph,
    Attachment,
    AttachmentQuery,
    FilesQuery,
    ItemsQuery,
    ListedFile,
    ListedItem,
    LogOperation,
    SavedStore,
    StoreName,
    StoresQuery,
    StoreState,
    UpdateStore,
    WrittenItem,
)
from jiyi.stores.declarations import GraphConfig, MemoryStoreConfig, parse_graph
from jiyi.stores.declarations import schema as declarations_schema
from models.db.actions import Context, action, by_worker
from models.operations.numbers import prunes
from models.queue import stream
from models.stores import items, reads, rows, saved_files
from models.stores.backends import BACKENDS
from models.stores.rows import StoreRecord
from models.stores.tables import StoreNode, StoreOperation

#: Days after which stores of a graph's run that nobody used, and the log of what nodes did with stores, are
#: deleted.
RUNS_DAYS = 7


@action("stores.apply")
def apply(context: Context, request: ApplyGraph) -> AppliedGraph:
    """Declare a graph's stores.

    Makes or changes its stores, and keeps which node uses which. What is wrong is named by its path, like
    `memory[1].config.embedding`, and nothing is changed. Applying the same again changes nothing; what the
    graph no longer declares stays.
    """
    graph = parse_graph({"memory": request.memory, "nodes": request.nodes})
    for number, store in enumerate(graph.stores):
        if store.type in BACKENDS:
            BACKENDS[store.type].check(context.group_id, store.config, f"memory[{number}].config")
    outcomes = [_declare(context, request, number, store) for number, store in enumerate(graph.stores)]
    _map(context.connection, context.group_id, request.graph, graph)
    if any(store.change in ("made", "changed") for store in outcomes):
        changes = {store.name: store.change for store in outcomes}
        context.audit(request.graph, stores=changes, nodes=sorted(graph.nodes)[:100])
    return AppliedGraph(graph=request.graph, stores=outcomes, nodes=len(graph.nodes))


@action("stores.schema")
def schema(context: Context, request: Request) -> JsonObject:
    """Get the JSON Schema of declarations.

    The types of stores with their summaries, their fields and bounds, and those of attachments: for editors.
    """
    return declarations_schema()


@action("stores.list")
def listing(context: Context, request: StoresQuery) -> Rows[StoreState]:
    """List the stores.

    Each with its items, those without a vector yet, its files by their state; newest first.
    """
    return reads.listed(context.connection, context.group_id, request)


@action("stores.show")
def show(context: Context, request: StoreName) -> StoreState:
    """Show a store.

    Its configuration without secrets, what is in it, and how far its index is.
    """
    return reads.state(context.connection, context.group_id, request.name, request.run_id)


@action("stores.items")
def list_items(context: Context, request: ItemsQuery) -> Rows[ListedItem]:
    """List a store's items.

    Newest first, without the bytes of their attachments.
    """
    return reads.page_of_items(context.connection, context.group_id, request)


@action("stores.files")
def files(context: Context, request: FilesQuery) -> Rows[ListedFile]:
    """List a store's files.

    Each with how far its index is, and what is the matter with it; in the order of their paths.
    """
    return reads.page_of_files(context.connection, context.group_id, request)


@action("stores.attachment")
def attachment(context: Context, request: AttachmentQuery) -> Attachment:
    """Get an attachment.

    The bytes that came with a message, as they came.
    """
    store = _need(context, request)
    attachment_id = request.attachment_id
    matches = items.attachments(context.connection, store.store_id, [attachment_id])
    if attachment_id not in matches:
        raise NotFound(f"attachment_id: the store {store.name!r} has no attachment {attachment_id}")
    data, mime_type = matches[attachment_id]
    encoded = base64.b64encode(data).decode("ascii")
    return Attachment(attachment_id=attachment_id, mime_type=mime_type, size=len(data), data=encoded)


@action("stores.load")
def load(context: Context, request: StoreName) -> StoreState:
    """Make a store ready.

    Reads its file the first time, and enqueues the work that updates its index; waits for none of it.
    """
    store = _need(context, request)
    BACKENDS[store.type].load(context, store)
    rows.touch(context.connection, store.store_id)
    context.audit(store.name, run_id=store.run_id)
    return reads.state(context.connection, context.group_id, request.name, request.run_id)


retrieve = by_worker("stores.retrieve")


@action("stores.update")
def update(context: Context, request: UpdateStore) -> WrittenItem:
    """Store what a node said.

    Found by its words at once, by meaning when a worker has embedded it. What the store has already, or what
    says nothing, is not stored; the answer says why.
    """
    store = _need(context, request)
    result = BACKENDS[store.type].update(context, store, request)
    if result.item_id is not None:
        context.audit(store.name, item=result.item_id, role=request.role, run_id=store.run_id)
    return result


@action("stores.save")
def save(context: Context, request: StoreName) -> SavedStore:
    """Write a store to its file.

    In the original's format. Without a path there is nothing to do: items are kept when they are stored.
    """
    store = _need(context, request)
    result = saved_files.save(context.connection, store)
    if result.path is not None:
        context.audit(store.name, items=result.items, run_id=store.run_id)
    return result


@action("stores.reindex")
def reindex(context: Context, request: StoreName) -> Count:
    """Rebuild a store's index.

    Enqueues every item's vector, or every file; until that is done, items are found by their words.
    """
    store = _need(context, request)
    count = BACKENDS[store.type].reindex(context, store)
    context.audit(store.name, owed=count, run_id=store.run_id)
    return Count(count=count)


@action("stores.delete")
def delete(context: Context, request: StoreName) -> Count:
    """Delete a store.

    With all that it holds; its file and its sources stay.
    """
    store = _need(context, request)
    gone = items.count(context.connection, store)
    rows.delete(context.connection, store.store_id)
    context.audit(store.name, items=gone, run_id=store.run_id)
    return Count(count=gone)


@action("stores.log")
def log(context: Context, request: LogOperation) -> Made:
    """Log what a node did with its stores.

    Stage, counts, sizes and duration; sent to the live stream, and pruned after some days.
    """
    operation_id, group_id = uuid7(), context.group_id
    own = {"operation_id": operation_id, "group_id": group_id}
    context.connection.execute(insert(StoreOperation).values(**own, **request.model_dump(mode="json")))
    context.audit(request.graph, operation=operation_id, node=request.node_id, type=request.operation_type)
    details = {
        "graph": request.graph,
        "node": request.node_id,
        "operation": request.operation_type,
        "stage": request.stage,
        "stores": [store.name for store in request.stores[: stream.MAX_IDS]],
        "count": request.item_count,
        "ms": round(request.duration_ms, 1),
    }
    context.after_commit(lambda: stream.publish(group_id, "store.used", **details))
    return Made(id=operation_id)


def _need(context: Context, request: StoreName) -> StoreRecord:
    return rows.need(context.connection, context.group_id, request.name, request.run_id)


def _declare(context: Context, request: ApplyGraph, number: int, store: MemoryStoreConfig) -> AppliedStore:
    if not store.kind.kept_by_service:
        return AppliedStore(name=store.name, type=store.type, store_id=None, change="of_the_program")
    # each run of the graph has its own of what is written, and has no path
    own = store.type in ("simple", "blackboard") and getattr(store.config, "path", None) is None
    if own and not request.run_id:
        return AppliedStore(name=store.name, type=store.type, store_id=None, change="of_each_run")
    connection, group_id, run_id = context.connection, context.group_id, request.run_id if own else ""
    config: Mapping[str, Any] = request.memory[number]["config"]
    try:
        store_id, change = rows.declare(connection, group_id, run_id, store.name, store.type, config)
    except rows.TypeChanged as there:
        raise ConfigError(
            f"memory[{number}].type: the store {store.name!r} is a {there} store: delete it first, or choose"
            " another name"
        ) from None
    if change != "unchanged":
        BACKENDS[store.type].load(context, rows.need(connection, group_id, store.name, run_id))
    return AppliedStore(name=store.name, type=store.type, store_id=store_id, change=change)


def _map(connection: Connection, group_id: str, name: str, graph: GraphConfig) -> None:
    types = {store.name: store.type for store in graph.stores}
    connection.execute(_CLEAR, {"group": group_id, "graph": name})
    for node_id, attached in graph.nodes.items():
        for number, item in enumerate(attached):
            place = {"group_id": group_id, "graph": name, "node_id": node_id, "number": number}
            store = {"store_name": item.name, "store_type": types[item.name]}
            use = item.model_dump(mode="json", exclude={"name"})
            connection.execute(insert(StoreNode).values(**place, **store, **use))


_CLEAR = text("DELETE FROM store_nodes WHERE group_id = :group AND graph = :graph")


prunes("store_operations", "created_at < :before", RUNS_DAYS)
# Stores of a graph's run, with all that they hold; the group's stay.
prunes("stores", "run_id <> '' AND used_at < :before", RUNS_DAYS)
