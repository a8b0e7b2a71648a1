"""Accesses of memories, as a retrieval notes them."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from models.db.valkey import valkey
from models.memory import access


def touch(group_id: str, node_ids: Sequence[UUID], at: float) -> bool:
    """Note an access at ``at`` (epoch seconds). True: queue a flush."""
    with valkey().pipeline(transaction=False) as pipe:
        access.touch(pipe, group_id, node_ids, at)
        return bool(pipe.execute()[-1])
