"""Erasure in what is kept of retrievals: who erases a memory erases what it answered, too."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import Connection, text

#: As in :data:`models.erasure.conversations.SCRUBBED`.
SCRUBBED = (
    (
        "retrievals",
        "retrieval_id::text",
        "array_to_string(focal_texts, ' '), options::text, asked_by",
        "group_id = :group",
        "DELETE FROM retrievals",
    ),
)


def delete(connection: Connection, group_id: str, ids: Sequence[UUID]) -> Counter[str]:
    """Retrievals that returned one of these memories."""
    return Counter(retrievals=connection.execute(_DELETE, {"group": group_id, "ids": list(ids)}).rowcount)


_DELETE = text("DELETE FROM retrievals WHERE group_id = :group AND node_ids && CAST(:ids AS uuid[])")
