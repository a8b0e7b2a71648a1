"""What events become: each subject registers its types of events, and the inbox knows none of them by name.

``models.wiring`` imports the modules that register.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Generic, NamedTuple, TypeVar
from uuid import UUID

from sqlalchemy import Connection

from engine import subjects
from jiyi.protocol.events import AgentConfigured, Event, EventKey, MemoryObserved
from models.db.base import Base
from models.memory.agents import AgentName, AgentRow

E = TypeVar("E")


@dataclass(frozen=True, slots=True, eq=False)
class EventType:
    """What an event of one type becomes, beside its own row in ``events``."""

    #: The memory that it becomes, if it becomes one.
    memory: Callable[[Any], MemoryObserved] | None = None
    #: A row of a table of its subject, by column, as COPY wants it (:class:`models.db.rows.Copy`).
    table: type[Base] | None = None
    row: Callable[[Any], Mapping[str, Any]] | None = None
    #: A kind of work, whose subject is the event.
    work_kind: str | None = None
    #: Whether it is of an agent, which is made and locked; else only its group is made.
    of_agent: bool = True


@dataclass(frozen=True, slots=True)
class StoredBatch:
    """Events whose rows are there, in the transaction that stores them; their agents are locked."""

    connection: Connection
    agents: Mapping[AgentName, AgentRow]
    events: Sequence[Event]
    #: (group_id, agent_id, node_id) of the new nodes.
    nodes: list[tuple[str, str, UUID]]
    #: Large agents → the tokens of their new nodes.
    terms: Mapping[AgentName, Sequence[Sequence[str]]]

    def of_type(self, event_type: type[E]) -> list[E]:
        """The events of one type; by identity, as ``isinstance`` takes seven times as long for others."""
        return [event for event in self.events if type(event) is event_type]


#: Keys of the events that must not be stored, only that they came.
Refuse = Callable[[Connection, Sequence[Event]], set[EventKey]]
#: Enqueues what follows from a batch.
FollowUp = Callable[[StoredBatch], None]

_TYPES: dict[type, EventType] = {
    MemoryObserved: EventType(memory=lambda event: event),
    AgentConfigured: EventType(),
}


class Hooks(Generic[E]):
    """Functions that subjects register, by a decorator; to go through them gives those of all."""

    def __init__(self) -> None:
        self._functions: list[E] = []

    def __call__(self, function: E) -> E:
        self._functions.append(function)
        return function

    def __iter__(self) -> Iterator[E]:
        subjects.need_all()
        return iter(self._functions)


#: Look at new events before they are stored.
refuses_events: Hooks[Refuse] = Hooks()
#: Enqueue what follows from stored events, in their transaction.
after_events: Hooks[FollowUp] = Hooks()


def register_event(event: type, becomes: EventType) -> None:
    _TYPES[event] = becomes


class Registry(NamedTuple):
    types: Mapping[type, EventType]
    refuse: Sequence[Refuse]
    follow_ups: Sequence[FollowUp]


def refusal(event: Event) -> str:
    """Why an event cannot be stored: it belongs to a subject that is off. Empty for all others."""
    subject = subjects.of_event(event.type)
    return "" if subject is None else str(subject.refusal)


@cache
def registry() -> Registry:
    return Registry(_TYPES, [*refuses_events], [*after_events])
