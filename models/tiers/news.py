"""What the tiers tell those who watch a group (``models.queue.stream``), once it is committed. Never raises for a Valkey that is away."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

from jiyi.protocol.knowledge import Promoted
from jiyi.tiers.retrieval_node import NodeEvent
from models.queue import stream
from models.queue.stream import News

#: What is told of the memory-retrieval node's state.
STATE_FIELDS = ("status", "context_length", "context_tokens", "skipped")


def screened(group_id: str, accepted: Sequence[UUID], refused: Mapping[str, int], fallen_out: int) -> None:
    """Outputs have, or have not, become working memory."""
    told: list[News] = []
    if accepted:
        ids = [str(entry_id) for entry_id in accepted[: stream.MAX_IDS]]
        told.append((group_id, "wm.accepted", {"ids": ids, "count": len(accepted), "fallen_out": fallen_out}))
    if refused:
        told.append((group_id, "wm.rejected", {"count": sum(refused.values()), "reasons": dict(refused)}))
    stream.publish_all(told)


def promoted(group_id: str, done: Promoted) -> None:
    """Entries, or texts, have become knowledge. A preview, and what was known already, is no news."""
    new = [str(piece.knowledge_id) for piece in done.pieces if not piece.known]
    if new and done.promoted_at is not None:
        told = {"ids": new[: stream.MAX_IDS], "count": len(new), "entries": len(done.entries)}
        stream.publish(group_id, "memory.promoted", **told)


def digested(group_id: str, digest_id: UUID, items: int) -> None:
    """A group's quarantine was digested."""
    stream.publish(group_id, "digest.ready", id=str(digest_id), items=items)


def node_told(group_id: str, event: NodeEvent, node_id: str, session_id: str | None) -> None:
    """The memory-retrieval node told something: counts and names only, as what an error says may quote what was asked."""
    data, own = event["data"], {"node": node_id, "session": session_id}
    match event["event"]:
        case "node_state_change":
            stream.publish(group_id, "node_state_change", **own, **{name: data[name] for name in STATE_FIELDS if name in data})
        case "memory_retrieved":
            stream.publish(group_id, "memory.retrieved", **own | data)
        case "memory_retrieval_error":
            stream.publish(group_id, "memory.retrieval_error", **own, tier=data.get("tier"))
