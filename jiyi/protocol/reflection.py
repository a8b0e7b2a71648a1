"""Reflections: asking for one, how far it is, and why: what a memory rests on."""

from __future__ import annotations

from datetime import datetime
from typing import Literal
from uuid import UUID

from pydantic import BaseModel, Field

from jiyi.protocol.base import ByIdForUser, Name, Paged
from jiyi.protocol.memory import Memory, MemoryBrief

#: Levels of evidence that are shown, and memories of them all, unless asked otherwise.
DEFAULT_DEPTH, DEFAULT_LIMIT = 5, 100
MAX_DEPTH, MAX_LIMIT = 20, 1_000

State = Literal["owed", "running", "waiting", "done", "nothing", "given up"]
#: Why there is a reflection.
Trigger = Literal["importance", "schedule", "request", "conversation", "conversations", "hours"]
#: Why an agent reviews itself: so many conversations have ended, or so many hours have passed with something
#: new.
SelfTrigger = Literal["conversations", "hours"]
SELF_TRIGGERS: tuple[SelfTrigger, ...] = ("conversations", "hours")


class NewThought(BaseModel):
    """A thought with its evidence."""

    node_id: UUID
    created_at: datetime
    expires_at: datetime | None
    description: str
    subject: str | None
    predicate: str | None
    object: str | None
    poignancy: float | None
    depth: int
    focal_point: str | None
    evidence: list[MemoryBrief]


class Finding(BaseModel):
    """What a self-review found, with the turns that it rests on."""

    text: str
    evidence: list[UUID]
    kind: Literal["positive", "negative"] | None = Field(
        None, description="Of a pattern: it went well, or wrong, more than once."
    )


class Findings(BaseModel):
    """What a self-review gave, beside thoughts; proposals wait, unless they need no approval."""

    patterns: list[Finding] = []
    improvements: list[Finding] = []
    proposals: list[UUID] = []


class ReflectionState(BaseModel):
    """``owed`` → ``running`` (→ ``waiting`` → ``running``) → ``done``, ``nothing`` to think about, or ``given
    up``; ``error`` says why.
    """

    reflection_id: UUID
    agent_id: str
    trigger: Trigger
    state: State
    attempts: int
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    focal_points: list[str]
    llm: str | None
    error: str | None
    thought_count: int = 0
    thoughts: list[NewThought] = Field([], description="Each with its evidence; only by the reflection's id.")
    findings: Findings | None = Field(None, description="Of a self-review: what was found.")

    @property
    def final(self) -> bool:
        return self.state in ("done", "nothing", "given up")


class WhyQuery(ByIdForUser):
    """What does a memory rest on?"""

    depth: int = Field(DEFAULT_DEPTH, ge=0, le=MAX_DEPTH, description="Levels of evidence.")
    limit: int = Field(DEFAULT_LIMIT, ge=1, le=MAX_LIMIT, description="Most memories of all levels together.")


class Reasons(BaseModel):
    """Each memory once, however often others rest on it: what rests on itself ends here.

    What is not shown is named by its id only.
    """

    node_id: UUID
    nodes: dict[UUID, Memory]
    #: Named as evidence, but no memories of this group.
    missing: list[UUID]
    #: Not looked at, because of the depth or the limit asked for.
    beyond: list[UUID]


class ReflectionsQuery(Paged):
    """Which reflections; the latest first."""

    agent_id: Name | None = Field(None, description="Only this agent's reflections.")
    state: State | None = Field(None, description="Only reflections in this state.")
