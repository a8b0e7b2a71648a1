"""What memories rest on: their evidence, level by level, each memory once."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, text


def why(connection: Connection, group_id: str, node_id: UUID, depth: int, limit: int) -> dict[str, Any]:
    """The memory and its evidence, ``depth`` levels of it and ``limit`` memories at most.

    Ends whatever rests on what: a memory that was met is not looked at again. Memories of other groups are not met.
    """
    nodes: dict[UUID, dict[str, Any]] = {}
    missing: list[UUID] = []
    level = [node_id]
    for _ in range(depth + 1):
        wanted, level = level[: limit - len(nodes)], level[limit - len(nodes) :]
        found = {row["node_id"]: row for row in _nodes(connection, group_id, wanted)}
        nodes.update(found)
        missing += [wanted_id for wanted_id in wanted if wanted_id not in found]
        beneath = [evidence for row in found.values() for evidence in row["evidence"]]
        known = {*nodes, *missing, *level}
        level += [evidence for evidence in dict.fromkeys(beneath) if evidence not in known]
        if not level or len(nodes) == limit:
            break
    return {"node_id": node_id, "nodes": nodes, "missing": missing, "beyond": level}


def _nodes(connection: Connection, group_id: str, node_ids: Sequence[UUID]) -> list[dict[str, Any]]:
    rows = connection.execute(_NODES, {"group": group_id, "ids": list(node_ids)}).mappings()
    found = {row["node_id"]: dict(row) for row in rows}
    for row in found.values():
        row["evidence"] = _evidence(row.pop("filling"))
    return [found[node_id] for node_id in node_ids if node_id in found]


def _evidence(filling: list[Any]) -> list[UUID]:
    """The ids in a memory's ``filling``, which in a conversation holds what was said."""
    ids = []
    for entry in filling:
        with suppress(ValueError, TypeError, AttributeError):
            ids.append(UUID(entry))
    return ids


_NODES = text("""
    SELECT node_id, agent_id, type, created_at, depth, poignancy, description, provenance, filling FROM memory_nodes
    WHERE group_id = :group AND node_id = ANY(:ids)
""")
