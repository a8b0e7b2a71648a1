"""What is shown of retrieved memories: read once, and remembered while they do not change."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from psycopg.rows import dict_row
from sqlalchemy import Connection

from models.db.connection import driver
from models.retrieval.agent_index import AgentIndex

#: Nodes that an index remembers: the same ones are retrieved again and again.
REMEMBERED = 1_000


def describe(connection: Connection, index: AgentIndex, rows: Sequence[int]) -> dict[UUID, dict[str, Any]]:
    """All that is shown of the index's rows, by node id. Under the index's lock."""
    xids, accessed = index.columns["xid"], index.columns["last_accessed"]
    wanted = {index.node_ids[row]: row for row in rows}
    known = index.described
    new = [node_id for node_id, row in wanted.items() if node_id not in known or known[node_id][0] != xids[row]]
    if new:
        with driver(connection).cursor(binary=True, row_factory=dict_row) as cursor:
            for found in cursor.execute(_DESCRIBE, {"group": index.key.group_id, "ids": new}):
                known[found["node_id"]] = (found.pop("xid"), found)
    described = {}
    for node_id, row in wanted.items():
        if node_id in known:  # not erased meanwhile
            known.move_to_end(node_id)
            # The database hears of accesses later than the index.
            described[node_id] = known[node_id][1] | {"last_accessed": datetime.fromtimestamp(accessed[row], UTC)}
    while len(known) > REMEMBERED:
        known.popitem(last=False)
    return described


_DESCRIBE = """
    SELECT node_id, agent_id, session_id, type, node_count, depth, created_at, expires_at, subject, predicate, object,
        description, embedding_key, poignancy, keywords, filling, provenance, changed_xid::text::bigint AS xid
    FROM memory_nodes WHERE group_id = %(group)s AND node_id = ANY(%(ids)s)
"""
