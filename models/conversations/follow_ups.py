"""What follows from conversations in other subjects, in the same transaction: each registers it here.

``models.wiring`` imports the modules that register.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import Connection

from engine import subjects
from models.memory.agents import AgentName


@dataclass(frozen=True, slots=True)
class ExtractionCounts:
    """What was stored of an agent's turns; the agent is locked."""

    name: AgentName
    agent_key: UUID
    #: Processed turns; memories and experiences extracted from them.
    turns: int
    memories: int
    experiences: int


#: Enqueues what follows.
AfterExtraction = Callable[[Connection, ExtractionCounts], None]
#: Gets how many memories were put into a prompt, and how many of them are experiences.
AfterInjection = Callable[[Connection, AgentName, int, int], None]

_EXTRACTION: list[AfterExtraction] = []
_INJECTION: list[AfterInjection] = []


def after_extraction(function: AfterExtraction) -> AfterExtraction:
    """Have a function enqueue what follows from an extraction."""
    _EXTRACTION.append(function)
    return function


def after_injection(function: AfterInjection) -> AfterInjection:
    """Have a function note what follows from an injection."""
    _INJECTION.append(function)
    return function


def extracted(connection: Connection, extraction: ExtractionCounts) -> None:
    subjects.need_all()
    for function in _EXTRACTION:
        function(connection, extraction)


def injected(connection: Connection, name: AgentName, memories: int, experiences: int) -> None:
    subjects.need_all()
    for function in _INJECTION:
        function(connection, name, memories, experiences)
