"""Looking at stores: what there is, how far indexes are, which node uses what, what was done."""

from __future__ import annotations

from sqlalchemy import Connection, text

from jiyi.protocol.stores import (
    FilePage,
    FilesQuery,
    ItemPage,
    ItemsQuery,
    ListedFile,
    ListedItem,
    MapQuery,
    NodeStore,
    Operation,
    OperationPage,
    OperationsQuery,
    StoreMap,
    StorePage,
    StoresQuery,
    StoreState,
)
from jiyi.stores.registry import store_type
from models.db.rows import fetch
from models.stores import items, rows


def listed(connection: Connection, group_id: str, query: StoresQuery) -> StorePage:
    """A page of stores, newest first."""
    values = {"group": group_id, "run": query.run_id, "after": query.after, "one": None, "limit": query.limit + 1}
    found = [_described(one) for one in fetch(connection, StoreState, _STORES, **values)]
    more = len(found) > query.limit
    return StorePage(stores=found[: query.limit], next=found[query.limit - 1].store_id if more else None)


def state(connection: Connection, group_id: str, name: str, run_id: str) -> StoreState:
    """One store. Raises :class:`jiyi.errors.NotFound`."""
    store_id = rows.need(connection, group_id, name, run_id).store_id
    values = {"group": group_id, "run": None, "after": None, "one": store_id, "limit": 1}
    return _described(fetch(connection, StoreState, _STORES, **values)[0])


def page_of_items(connection: Connection, group_id: str, query: ItemsQuery) -> ItemPage:
    """A page of items, newest first, without the bytes of their attachments."""
    store = rows.need(connection, group_id, query.name, query.run_id)
    found = items.latest(connection, store, query.limit + 1, query.before)
    shown = [
        ListedItem(
            **items.item_of(connection, row, whole=False).model_dump(), position=row.position, embedded=row.embedding_model is not None
        )
        for row in found[: query.limit]
    ]
    return ItemPage(items=shown, next=shown[-1].position if len(found) > query.limit else None)


def page_of_files(connection: Connection, group_id: str, query: FilesQuery) -> FilePage:
    """A page of the files of a store, in the order of their paths."""
    store = rows.need(connection, group_id, query.name, query.run_id)
    values = {"group": group_id, "store": store.store_id, "state": query.state, "after": query.after, "limit": query.limit + 1}
    found = fetch(connection, ListedFile, _FILES, **values)
    more = len(found) > query.limit
    return FilePage(files=found[: query.limit], next=found[query.limit - 1].file_id if more else None)


def node_map(connection: Connection, group_id: str, query: MapQuery) -> StoreMap:
    """Which node uses which store."""
    return StoreMap(nodes=fetch(connection, NodeStore, _MAP, group=group_id, graph=query.graph))


def operations(connection: Connection, group_id: str, query: OperationsQuery) -> OperationPage:
    """A page of the log, newest first."""
    values = {"group": group_id, "graph": query.graph, "before": query.before, "limit": query.limit + 1}
    found = [Operation.model_validate(dict(row)) for row in connection.execute(_OPERATIONS, values).mappings()]
    more = len(found) > query.limit
    return OperationPage(operations=found[: query.limit], next=found[query.limit - 1].operation_id if more else None)


def _described(found: StoreState) -> StoreState:
    known = store_type(found.type)
    return found.model_copy(update={"summary": "" if known is None else known.summary})


_FILES = text("""
    SELECT f.file_id, f.source, f.path, f.state, f.state_reason, f.size, f.chunks_count, f.indexed_at,
        (SELECT count(i.embedding) FROM store_items i WHERE i.group_id = f.group_id AND i.file_id = f.file_id) AS embedded
    FROM store_files f
    WHERE f.group_id = :group AND f.store_id = :store AND (CAST(:state AS text) IS NULL OR f.state = :state)
        AND (CAST(:after AS uuid) IS NULL OR (f.source, f.path) > (
            SELECT source, path FROM store_files WHERE group_id = :group AND file_id = :after
        ))
    ORDER BY f.source, f.path LIMIT :limit
""")
_STORES = text("""
    SELECT s.store_id, s.name, s.run_id, s.type, s.config, s.state, s.state_reason, s.created_at, s.used_at, s.loaded_at, s.scanned_at,
        i.items, i.pending, f.files, a.attachments, a.attachment_bytes
    FROM stores s
    CROSS JOIN LATERAL (
        SELECT count(*) AS items, count(*) FILTER (WHERE embedding IS NULL) AS pending FROM store_items
        WHERE group_id = s.group_id AND store_id = s.store_id
    ) i
    CROSS JOIN LATERAL (
        SELECT coalesce(jsonb_object_agg(state, number), '{}') AS files FROM (
            SELECT state, count(*) AS number FROM store_files WHERE group_id = s.group_id AND store_id = s.store_id GROUP BY 1
        ) n
    ) f
    CROSS JOIN LATERAL (
        SELECT count(*) AS attachments, coalesce(sum(size), 0)::bigint AS attachment_bytes FROM attachments
        WHERE group_id = s.group_id AND store_id = s.store_id
    ) a
    WHERE s.group_id = :group AND (CAST(:run AS text) IS NULL OR s.run_id = :run)
        AND (CAST(:after AS uuid) IS NULL OR s.store_id < :after) AND (CAST(:one AS uuid) IS NULL OR s.store_id = :one)
    ORDER BY s.store_id DESC LIMIT :limit
""")
_MAP = text("""
    SELECT graph, node_id, store_name, store_type, retrieve_stage, top_k, similarity_threshold, read, write FROM store_nodes
    WHERE group_id = :group AND (CAST(:graph AS text) IS NULL OR graph = :graph) ORDER BY graph, node_id, number
""")
_OPERATIONS = text("""
    SELECT operation_id, graph, run_id, node_id, operation_type, stage, item_count, attachment_count, input_size, output_size,
        duration_ms, stores, created_at
    FROM store_operations WHERE group_id = :group AND (CAST(:graph AS text) IS NULL OR graph = :graph)
        AND (CAST(:before AS uuid) IS NULL OR operation_id < :before)
    ORDER BY operation_id DESC LIMIT :limit
""")
