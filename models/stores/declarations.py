"""A graph's declarations as they are kept: its stores, and the map of which node uses which."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, text

from jiyi.errors import ConfigError
from jiyi.protocol.stores import AppliedGraph, AppliedStore, ApplyGraph
from jiyi.stores.declarations import GraphConfig, MemoryStoreConfig, parse_graph
from models.db.actions import Context
from models.stores import rows
from models.stores.backends import BACKENDS


def apply(context: Context, request: ApplyGraph) -> AppliedGraph:
    """Make or change what a graph declares; what it no longer declares stays.

    Raises:
        ConfigError: with the path of each thing that is wrong; nothing is changed.
    """
    graph = parse_graph({"memory": request.memory, "nodes": request.nodes})
    for number, store in enumerate(graph.stores):
        if store.type in BACKENDS:
            BACKENDS[store.type].check(context.group_id, store.config, f"memory[{number}].config")
    done = [_declare(context, request, number, store) for number, store in enumerate(graph.stores)]
    _map(context.connection, context.group_id, request.graph, graph)
    if any(one.change in ("made", "changed") for one in done):
        context.audit(request.graph, stores={one.name: one.change for one in done}, nodes=sorted(graph.nodes)[:100])
    return AppliedGraph(graph=request.graph, stores=done, nodes=len(graph.nodes))


def _declare(context: Context, request: ApplyGraph, number: int, store: MemoryStoreConfig) -> AppliedStore:
    if not store.kind.kept_by_service:
        return AppliedStore(name=store.name, type=store.type, store_id=None, change="of_the_program")
    own = is_of_run(store)
    if own and not request.run_id:
        return AppliedStore(name=store.name, type=store.type, store_id=None, change="of_each_run")
    run_id = request.run_id if own else ""
    there = rows.find(context.connection, context.group_id, store.name, run_id)
    if there is not None and there.run_id == run_id and there.type != store.type:
        raise ConfigError(
            [f"memory[{number}].type: the store {store.name!r} is a {there.type} store: delete it first, or choose another name"]
        )
    config: Mapping[str, Any] = request.memory[number]["config"]
    store_id, change = rows.declare(context.connection, context.group_id, run_id, store.name, store.type, config)
    if change != "unchanged":
        kept = rows.need(context.connection, context.group_id, store.name, run_id)
        BACKENDS[store.type].load(context, kept)
    return AppliedStore(name=store.name, type=store.type, store_id=store_id, change=change)


def is_of_run(store: MemoryStoreConfig) -> bool:
    """Whether each run of the graph has its own: one that is written, and has no path."""
    return store.type in ("simple", "blackboard") and getattr(store.config, "path", None) is None


def _map(connection: Connection, group_id: str, name: str, graph: GraphConfig) -> None:
    types = {store.name: store.type for store in graph.stores}
    connection.execute(_CLEAR, {"group": group_id, "graph": name})
    rows_of: Sequence[dict[str, Any]] = [
        {
            "group": group_id,
            "graph": name,
            "node": node_id,
            "number": number,
            "store": one.name,
            "type": types[one.name],
            "stages": None if one.retrieve_stage is None else [str(stage) for stage in one.retrieve_stage],
            **one.model_dump(include={"top_k", "similarity_threshold", "read", "write"}),
        }
        for node_id, attached in graph.nodes.items()
        for number, one in enumerate(attached)
    ]
    if rows_of:
        connection.execute(_ADD, rows_of)


_CLEAR = text("DELETE FROM store_nodes WHERE group_id = :group AND graph = :graph")
_ADD = text("""
    INSERT INTO store_nodes (group_id, graph, node_id, number, store_name, store_type, retrieve_stage, top_k, similarity_threshold,
        read, write)
    VALUES (:group, :graph, :node, :number, :store, :type, :stages, :top_k, :similarity_threshold, :read, :write)
""")
