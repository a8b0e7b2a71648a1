"""Overviews and abstracts of memories (L1, L0): which lack them, and how they are stored."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import Connection, Row, text


def to_summarise(connection: Connection, node_ids: Sequence[UUID]) -> list[Row[tuple[UUID, str, str, str]]]:
    """(node_id, group_id, agent_id, description) of those that have no overview."""
    return list(connection.execute(_TO_SUMMARISE, {"ids": list(node_ids)}))


def save(connection: Connection, node_id: UUID, overview: str, abstract: str) -> None:
    connection.execute(_SAVE, {"id": node_id, "overview": overview, "abstract": abstract})


_TO_SUMMARISE = text("SELECT node_id, group_id, agent_id, description FROM memory_nodes WHERE node_id = ANY(:ids) AND overview IS NULL")
_SAVE = text("""
    UPDATE memory_nodes SET overview = :overview, abstract = :abstract, changed_xid = pg_current_xact_id() WHERE node_id = :id
""")
