"""What a piece of work has to tell when it is committed: to those who watch (``models.queue.stream``), and to the meters.

Never raises for a Valkey that is away.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from uuid import UUID

from models.operations import meters
from models.operations.meters import WORK
from models.queue import stream
from models.queue.dead_letters import INTAKE
from models.queue.stream import Kind, News

#: (group, agent, id) of a node.
Node = tuple[str, str, UUID]


def count_events(new: int, repeated: int) -> None:
    """Events were stored, and others had been before."""
    if new:
        meters.add("events", number=new)
    if repeated:
        meters.add("events", "repeated", number=repeated)


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
