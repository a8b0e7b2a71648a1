"""The fields of retrieved memories for the answer (:class:`RetrievedNode`): read once, cached while the row does not change."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from psycopg import sql
from psycopg.rows import dict_row
from sqlalchemy import Connection

from jiyi.protocol.retrieval import RetrievedNode
from jiyi.retrieval.ordering import Shown
from models.db.connection import driver
from models.db.rows import names
from models.memory.tables import MemoryNode
from models.retrieval.agent_index import AgentIndex
from models.retrieval.described import Described

#: Memories whose fields an index caches: the same ones are retrieved again and again.
CACHED = 1_000


def describe(connection: Connection, index: AgentIndex, rows: Sequence[int]) -> tuple[dict[UUID, dict[str, Any]], dict[UUID, Shown]]:
    """The fields of the index's rows, and what their places depend on, by node id. Call it under the index's lock."""
    xids, accessed = index.columns["xid"], index.columns["last_accessed"]
    wanted = {index.node_id(row): row for row in rows}
    known = index.described
    new = [node_id for node_id, row in wanted.items() if node_id not in known or known[node_id].xid != xids[row]]
    if new:
        with driver(connection).cursor(binary=True, row_factory=dict_row) as cursor:
            for found in cursor.execute(_DESCRIBE, {"group": index.key.group_id, "ids": new}):
                known[found["node_id"]] = Described.of(found.pop("xid"), found)
    fields, shown = {}, {}
    for node_id, row in wanted.items():
        if node_id in known:  # not erased meanwhile
            known.move_to_end(node_id)
            # The database hears of accesses later than the index.
            fields[node_id] = known[node_id].fields | {"last_accessed": datetime.fromtimestamp(accessed[row], UTC)}
            shown[node_id] = known[node_id].shown
    while len(known) > CACHED:
        known.popitem(last=False)
    return fields, shown


_DESCRIBE = sql.SQL("""
    SELECT {}, changed_xid::text::bigint AS xid FROM memory_nodes WHERE group_id = %(group)s AND node_id = ANY(%(ids)s)
""").format(sql.SQL(", ").join(map(sql.Identifier, names(RetrievedNode, MemoryNode))))
