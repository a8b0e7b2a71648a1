"""What follows from conversations in other subjects, in the same transaction: each registers it here.

``models.wiring`` imports the modules that register.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import Connection

from models.memory.agents import AgentName
from models.memory.event_types import Hooks


@dataclass(frozen=True, slots=True)
class ExtractionCounts:
    """What was stored of an agent's turns; the agent is locked."""

    name: AgentName
    agent_key: UUID
    #: Processed turns; memories and experiences extracted from them.
    turns: int
    memories: int
    experiences: int


#: Enqueue what follows from an extraction.
after_extraction: Hooks[Callable[[Connection, ExtractionCounts], None]] = Hooks()
#: Note what follows from an injection of so many memories, and of experiences among them.
after_injection: Hooks[Callable[[Connection, AgentName, int, int], None]] = Hooks()


def extracted(connection: Connection, extraction: ExtractionCounts) -> None:
    for function in after_extraction:
        function(connection, extraction)


def injected(connection: Connection, name: AgentName, memories: int, experiences: int) -> None:
    for function in after_injection:
        function(connection, name, memories, experiences)
