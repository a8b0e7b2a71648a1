"""The log of what nodes did with stores."""

from __future__ import annotations

from uuid import UUID

from sqlalchemy import Connection, bindparam, text
from sqlalchemy.dialects.postgresql import JSONB
from uuid6 import uuid7

from jiyi.protocol.stores.asking import LogOperation


def note(connection: Connection, group_id: str, request: LogOperation) -> UUID:
    """Store an entry; its id."""
    operation_id = uuid7()
    connection.execute(_NOTE, {"id": operation_id, "group": group_id, **request.model_dump(mode="json")})
    return operation_id


_NOTE = text("""
    INSERT INTO store_operations (operation_id, group_id, graph, run_id, node_id, operation_type, stage, item_count, attachment_count,
        input_size, output_size, duration_ms, stores)
    VALUES (:id, :group, :graph, :run_id, :node_id, :operation_type, :stage, :item_count, :attachment_count, :input_size, :output_size,
        :duration_ms, :stores)
""").bindparams(bindparam("stores", type_=JSONB))
