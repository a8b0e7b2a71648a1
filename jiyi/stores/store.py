"""What every store can do, whoever keeps it: the interface of the built-in types, and of those of other people."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

from jiyi.protocol.stores import Hit, Snapshot
from jiyi.stores.declarations import Stage

if TYPE_CHECKING:
    from jiyi.client.client import Client


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What a node asks a store at a stage."""

    role: str
    query: str
    top_k: int
    #: Least cosine; -1: no limit.
    threshold: float
    stage: Stage


@dataclass(frozen=True, slots=True, kw_only=True)
class Payload:
    """What a node has to store."""

    role: str
    inputs_text: str
    input_snapshot: Snapshot | None = None
    output_snapshot: Snapshot | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """Where a store is made: for which graph and run, and the way to the service."""

    graph: str
    run_id: str
    client: Client | None = None


@dataclass(frozen=True, slots=True)
class Written:
    """What became of an update."""

    #: None: nothing was stored, for the reason.
    item_id: str | None
    reason: str = ""
    at: datetime | None = field(default=None)


class Store(Protocol):
    """A store of a graph. Methods may raise any error: the manager notes it, and no node fails for it but in :meth:`load`.

    One with ``durable = True`` keeps what :meth:`update` took when it returns, and is saved at the end of a run; others after each update.
    """

    def load(self) -> None:
        """Make ready for use. An error here is the graph's."""
        ...

    def retrieve(self, question: Question) -> list[Hit]:
        """The items that fit best, best first (a blackboard: oldest first); their scores as far as the store has any."""
        ...

    def update(self, payload: Payload) -> Written:
        """Store what a node said."""
        ...

    def save(self) -> None:
        """Write what is not yet kept for good."""
        ...
