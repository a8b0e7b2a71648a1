"""Thoughts: what a reflection concludes, and the events that it becomes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID, uuid5

from engine.memory.nodes import THOUGHT_LIFETIME
from jiyi.protocol import events as wire
from jiyi.protocol.events import LATEST, Event


@dataclass(frozen=True, kw_only=True, slots=True)
class Thought:
    """What was concluded, and from what."""

    description: str
    subject: str
    predicate: str
    object: str
    poignancy: float
    #: In the order in which the LLM named it, each once.
    evidence: list[UUID]
    #: The question that it answers: ``insights@1``, ``planning@1``, ``memo@1``.
    prompt: str
    focal_point: str = ""

    @property
    def keywords(self) -> list[str]:
        """The triple's parts."""
        return list(dict.fromkeys((self.subject, self.predicate, self.object)))


@dataclass(frozen=True, kw_only=True, slots=True)
class Origin:
    """Whose thoughts they are, when they were thought, in which reflection, and with which LLM."""

    group_id: str
    agent_id: str
    now: datetime
    reflection_id: UUID
    llm: str
    session_id: str | None = None


def thought_id(reflection_id: UUID, position: int) -> UUID:
    """The event id of a reflection's thought: the same in each attempt, so that none is stored twice."""
    return uuid5(reflection_id, str(position))


def events_of(thoughts: Sequence[Thought], origin: Origin) -> list[Event]:
    """The thoughts as events like any other; ``provenance`` says where they come from.

    Raises:
        InvalidEvent: the LLM said something that cannot be stored.
    """
    return [_event(position, thought, origin) for position, thought in enumerate(thoughts)]


def _event(position: int, thought: Thought, origin: Origin) -> Event:
    expires_at = min(origin.now + THOUGHT_LIFETIME, LATEST)
    provenance = {"reflection": str(origin.reflection_id), "llm": origin.llm, "prompt": thought.prompt}
    if thought.focal_point:
        provenance["focal_point"] = thought.focal_point
    return wire.build(
        {
            "type": "memory.observed",
            "event_id": thought_id(origin.reflection_id, position),
            "occurred_at": origin.now,
            "group_id": origin.group_id,
            "agent_id": origin.agent_id,
            "session_id": origin.session_id,
            "correlation_id": str(origin.reflection_id),
            "payload": {
                "node_type": "thought",
                "description": thought.description,
                "subject": thought.subject,
                "predicate": thought.predicate,
                "object": thought.object,
                "keywords": thought.keywords,
                "poignancy": thought.poignancy,
                "evidence": thought.evidence,
                "expires_at": expires_at,
                "provenance": provenance,
            },
        }
    )
