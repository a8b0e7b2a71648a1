"""The fields of retrieved memories for the answer (:class:`RetrievedNode`): read once, cached while the row does not change."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from psycopg import sql
from psycopg.rows import dict_row
from sqlalchemy import Connection

from engine.retrieval.ordering import Shown
from jiyi.protocol.retrieval import RetrievedNode
from models.db.connection import driver
from models.db.rows import names
from models.memory.tables import MemoryNode
from models.retrieval.access_order import Rows
from models.retrieval.agent_index import AgentIndex
from models.retrieval.described import Described

#: Memories whose fields an index caches: the same ones are retrieved again and again.
CACHED = 1_000


def describe(connection: Connection, index: AgentIndex, rows: Rows) -> tuple[dict[int, dict[str, Any]], dict[int, Shown]]:
    """The fields of the index's rows, and what their places depend on, by row. Call it under the index's lock."""
    wanted, xids = rows.tolist(), index.columns["xid"][rows].tolist()
    accessed = index.columns["last_accessed"][rows].tolist()
    times = {at: datetime.fromtimestamp(at, UTC) for at in set(accessed)}  # of many at once, as they were returned together
    known = index.described
    new = [index.node_id(row) for row, xid in dict(zip(wanted, xids, strict=True)).items() if row not in known or known[row].xid != xid]
    if new:
        with driver(connection).cursor(binary=True, row_factory=dict_row) as cursor:
            for found in cursor.execute(_DESCRIBE, {"group": index.key.group_id, "ids": new}):
                known[index.row_of(found["node_id"])] = Described.of(found.pop("xid"), found)
    fields, shown = {}, {}
    for row, at in zip(wanted, accessed, strict=True):
        described = known.get(row)
        if described is not None:  # not erased meanwhile
            known.move_to_end(row)
            # The database hears of accesses later than the index.
            fields[row] = described.fields | {"last_accessed": times[at]}
            shown[row] = described.shown
    while len(known) > CACHED:
        known.popitem(last=False)
    return fields, shown


_DESCRIBE = sql.SQL("""
    SELECT {}, changed_xid::text::bigint AS xid FROM memory_nodes WHERE group_id = %(group)s AND node_id = ANY(%(ids)s)
""").format(sql.SQL(", ").join(map(sql.Identifier, names(RetrievedNode, MemoryNode))))
