"""What a promotion stores: pieces that stand by themselves, each known by its content.

Pure; the same plan is the preview that people see and what the task writes. A piece's id follows from its group and content:
promoting again, after a failure or by another hand, meets the same ids, and changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID, uuid5

from jiyi.text.splitting import OVERLAP, SIZE, split
from jiyi.text.words import content_digest

#: Of the ids of promoted pieces.
NAMESPACE = UUID("6f0f7f0e-3b1d-5c5e-9a57-6a1f0c6b7d21")


@dataclass(frozen=True, slots=True)
class PlannedPiece:
    """A piece to be stored."""

    knowledge_id: UUID
    content: str
    #: SHA-256 of the normalised content: unique in its group and for its agent.
    content_hash: bytes
    metadata: dict[str, Any]


def plan(
    text: str,
    *,
    group_id: str,
    promoted_at: datetime,
    agent_id: str | None = None,
    entry_ids: Sequence[UUID] = (),
    metadata: Mapping[str, Any] | None = None,
    size: int = SIZE,
    overlap: int = OVERLAP,
) -> list[PlannedPiece]:
    """The pieces of a text, in order; a piece that says the same as an earlier one is there once.

    ``metadata`` are the source's own; ``source``, ``promoted_at``, where the piece stands in the whole, and the entries that
    it comes from are added.
    """
    pieces = split(text, size, overlap)
    planned: dict[bytes, PlannedPiece] = {}
    for number, piece in enumerate(pieces):
        content_hash = content_digest(piece.text)
        said = {
            **(metadata or {}),
            "source": "promotion",
            "promoted_at": promoted_at.isoformat(),
            "piece": number + 1,
            "pieces": len(pieces),
            "entry_ids": [str(entry_id) for entry_id in entry_ids],
        }
        planned.setdefault(content_hash, PlannedPiece(knowledge_id(group_id, agent_id, content_hash), piece.text, content_hash, said))
    return list(planned.values())


def knowledge_id(group_id: str, agent_id: str | None, content_hash: bytes) -> UUID:
    """The id that this content has for this group, or for one of its agents."""
    # The lengths keep two different pairs of names from being one.
    whose = f"{len(group_id)}:{group_id}:" + ("-" if agent_id is None else f"{len(agent_id)}:{agent_id}")
    return uuid5(NAMESPACE, f"{whose}:{content_hash.hex()}")
