"""What is kept of a memory that was retrieved, to show it again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from engine.retrieval.ordering import Shown


@dataclass(frozen=True, slots=True)
class Described:
    """A memory as it was when the transaction ``xid`` had changed it."""

    xid: int
    #: Those of a :class:`jiyi.protocol.retrieval.RetrievedNode` that are columns.
    fields: dict[str, Any]
    #: What its place in an answer depends on.
    shown: Shown

    @classmethod
    def of(cls, xid: int, fields: dict[str, Any]) -> Described:
        evidence = fields["filling"] if fields["type"] == "thought" else []
        shown = Shown(
            fields["node_id"],
            fields["embedding_key"],
            fields["created_at"].timestamp(),
            fields["subject"],
            frozenset(UUID(node_id) for node_id in evidence),
        )
        return cls(xid, fields, shown)
