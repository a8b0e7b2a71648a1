"""Requests and answers of the commands on an agent's self-review."""

from __future__ import annotations

from datetime import datetime
from typing import Literal
from uuid import UUID

from pydantic import BaseModel, Field

from jiyi.protocol.base import DEFAULT_PAGE, Name, PageSize, Request
from jiyi.protocol.identity import OfAgent
from jiyi.protocol.reflection import ReflectionState, State, Trigger

#: Why an agent reviews itself: so many conversations have ended, or so many hours have passed with something new.
SelfTrigger = Literal["conversations", "hours"]
SELF_TRIGGERS: tuple[SelfTrigger, ...] = ("conversations", "hours")
#: Conversations and hours between two looks, at most.
MAX_CONVERSATIONS, MAX_HOURS = 10_000, 8_760


class SelfSettings(BaseModel):
    """How often an agent reviews itself, and what may come of it."""

    #: After so many conversations that have ended, and after so many hours with something new; 0: this is no reason.
    conversations: int
    hours: int
    #: Proposals wait for somebody; otherwise they are approved at once.
    require_approval: bool
    #: It may propose changes of its SOUL.
    allow_soul_modification: bool
    #: The LLM is asked; and the rules answer while it is away.
    use_llm: bool
    fallback: bool


class SelfState(BaseModel):
    """The settings in force, and how far it is to the next look."""

    agent_id: str
    settings: SelfSettings
    #: Conversations that have ended since the last look, when that was, and whether anything was said since.
    ended: int
    last_at: datetime | None
    anything_new: bool
    due: SelfTrigger | None
    #: When the hours are over, if anything is said until then.
    due_at: datetime | None


class ConfigureSelf(OfAgent):
    """Settings to change; those not given stay as they are."""

    conversations: int | None = Field(None, ge=0, le=MAX_CONVERSATIONS)
    hours: int | None = Field(None, ge=0, le=MAX_HOURS)
    require_approval: bool | None = None
    allow_soul_modification: bool | None = None
    use_llm: bool | None = None
    fallback: bool | None = None
    follow_deployment: bool = Field(False, description="Have the deployment's numbers of conversations and hours again, unless given.")


class Finding(BaseModel):
    """What a look found, with the turns that it rests on."""

    text: str
    evidence: list[UUID]


class FoundPattern(Finding):
    """What went well, or wrong, more than once."""

    kind: Literal["positive", "negative"]


class Findings(BaseModel):
    """What a self-review gave, beside thoughts; proposals wait, unless they need no approval."""

    patterns: list[FoundPattern] = []
    improvements: list[Finding] = []
    proposals: list[UUID] = []


class ListLooks(Request):
    """Which looks; the latest first."""

    agent_id: Name | None = None
    before: UUID | None = Field(None, description="Go on after this one.")
    limit: PageSize = DEFAULT_PAGE


class Look(BaseModel):
    """A reflection in which an agent looked at itself."""

    reflection_id: UUID
    agent_id: str
    trigger: Trigger
    state: State
    created_at: datetime
    finished_at: datetime | None
    thoughts: int
    llm: str | None
    findings: Findings | None


class LookPage(BaseModel):
    """``next`` is what to pass on as ``before``."""

    reflections: list[Look]
    next: UUID | None = None


class LookId(Request):
    """Which reflection."""

    reflection_id: UUID


class LookDetail(ReflectionState):
    """A reflection with its thoughts, and what it found about the agent itself."""

    findings: Findings | None
