"""What a piece of work has to tell when it is committed: to those who watch (``models.queue.stream``), and to the meters.

Never raises for a Valkey that is away.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from uuid import UUID

from jiyi.protocol.stores.asking import LogOperation
from jiyi.protocol.tiers.knowledge import Promoted
from jiyi.tiers.memory_node import NodeEvent
from models.memory.ingestion.inbox import Stored
from models.operations import meters
from models.operations.series import WORK
from models.queue import stream
from models.queue.dead_letters import INTAKE
from models.queue.stream import Kind, News

#: What is told of the memory-retrieval node's state.
STATE_FIELDS = ("status", "context_length", "context_tokens", "skipped")

#: (group, agent, id) of a node.
Node = tuple[str, str, UUID]


def stored(done: Stored) -> None:
    """Events were stored, by whomever."""
    if done.events:
        meters.add("events", number=done.events)
    if done.repeated:
        meters.add("events", "repeated", number=done.repeated)
    configured: list[News] = [(group_id, "agent.configured", {"agent": agent_id}) for group_id, agent_id in done.configured]
    stream.publish_all([*about(done.nodes, "node.stored"), *configured])
    if done.refused:
        refused(done.refused)


def retrievable(nodes: Sequence[Node]) -> None:
    """Nodes have got their vectors."""
    stream.publish_all(about(nodes, "node.retrievable"))


def refused(groups: Iterable[str | None]) -> None:
    """Events became dead letters, of the groups that they say they are of (None: of none that can be read)."""
    counts = Counter(groups)
    meters.add("events", "rejected", number=counts.total())
    opened(INTAKE, {group_id: count for group_id, count in counts.items() if group_id is not None})


def opened(kind: str, counts: Mapping[str, int]) -> None:
    """Dead letters were opened: group → how many."""
    stream.publish_all((group_id, "letter.opened", {"kind": kind, "count": count}) for group_id, count in counts.items())


def resolved(group_id: str, count: int, action: str) -> None:
    """Dead letters were closed: ``replayed`` or ``discarded``."""
    if count:
        stream.publish(group_id, "letter.resolved", action=action, count=count)


def worked(kind: str, counts: Mapping[str, int]) -> None:
    """Work was settled: group → how many subjects."""
    if total := sum(counts.values()):
        meters.add(WORK, kind, "done", number=total)
        stream.publish_all((group_id, "work.done", {"kind": kind, "count": count}) for group_id, count in counts.items())


def failed(kind: str, counts: Mapping[str, int], error: BaseException, attempt: int) -> None:
    """An attempt failed. Of the error only its class is told: its words may be those of a memory."""
    if total := sum(counts.values()):
        meters.add(WORK, kind, "failed", number=total)
        told = {"kind": kind, "error": type(error).__name__, "attempt": attempt}
        stream.publish_all((group_id, "work.failed", {**told, "count": count}) for group_id, count in counts.items())


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


def store_used(group_id: str, done: LogOperation) -> None:
    """A node searched its stores, or wrote to them."""
    told = {"graph": done.graph, "node": done.node_id, "operation": done.operation_type, "stage": done.stage}
    stores = [store.name for store in done.stores[: stream.MAX_IDS]]
    stream.publish(group_id, "store.used", **told, stores=stores, count=done.item_count, ms=round(done.duration_ms, 1))


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


def about(nodes: Iterable[Node], kind: Kind) -> list[News]:
    """One piece of news for each group: the first ids, how many there are, and whose."""
    groups: dict[str, list[Node]] = {}
    for node in nodes:
        groups.setdefault(node[0], []).append(node)
    return [
        (
            group_id,
            kind,
            {
                "ids": [str(node_id) for _, _, node_id in its[: stream.MAX_IDS]],
                "count": len(its),
                "agents": stream.counted(Counter(agent_id for _, agent_id, _ in its)),
            },
        )
        for group_id, its in groups.items()
    ]
