"""Pain points, what is proposed against them, and an agent's self-review; requests and answers of the
commands on them.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal, get_args
from uuid import UUID

from pydantic import BaseModel, Field

from jiyi.protocol.base import ById, Name, OfAgent, Paged, Request, UserId
from jiyi.protocol.proposals import SolutionProposal
from jiyi.protocol.reflection import SelfTrigger

#: What kind of trouble it is.
Category = Literal["fault", "slow", "wrong", "tedious", "unclear", "other"]
#: From mild to grave: of two the graver one is kept.
Severity = Literal["low", "medium", "high"]
#: ``open`` → ``proposed`` (there is a proposal to decide on) → ``solved``; or ``dismissed`` by somebody.
Status = Literal["open", "proposed", "solved", "dismissed"]
CATEGORIES: tuple[Category, ...] = get_args(Category)
SEVERITIES: tuple[Severity, ...] = get_args(Severity)

#: Characters of a summary, and of one step: a sentence or two.
MAX_SUMMARY_CHARS, MAX_STEP_CHARS = 300, 500
MAX_STEPS, MAX_FOUND = 20, 50

Summary = Annotated[str, Field(pattern=r"\S", max_length=MAX_SUMMARY_CHARS)]
StepText = Annotated[str, Field(pattern=r"\S", max_length=MAX_STEP_CHARS)]


def graver(severity: Severity, other: Severity) -> Severity:
    """The graver of two."""
    return max(severity, other, key=SEVERITIES.index)


def confidence_of(turns: int, step: float) -> float:
    """The confidence that this hurts: ``step`` (0 … 1) per distinct turn about it, at most 1."""
    return min(1.0, round(turns * step, 6))


#: Characters of a note.
MAX_NOTE_CHARS = 1_000

#: How a pain point ends: its proposal helped or did not, or it needs no more thought.
Resolution = Literal["confirmed", "rejected", "dismissed", "reopened"]


class PainEvidence(BaseModel):
    """A turn, or a report, that says so."""

    source_id: UUID
    quote: str
    said_at: datetime
    session_id: str | None = None


class PainPoint(BaseModel):
    """A recurring user problem; each distinct turn about it raises the confidence."""

    pain_id: UUID
    agent_id: str
    user_id: str | None
    summary: str
    category: Category
    severity: Severity
    occurrence_count: int
    confidence: float
    status: Status
    first_seen: datetime
    last_seen: datetime
    evidence: list[PainEvidence] = Field([], description="Where it was said, newest first; only by its id.")
    proposals: list[SolutionProposal] = Field([], description="Every one against it; only by its id.")


class ListPains(Paged):
    """Which pain points; those felt last first."""

    agent_id: Name | None = Field(None, description="Only this agent's.")
    status: Status | None = Field(None, description="Only those in this state.")


class ReportPain(Request):
    """Something hurts: said by a program or a person, not in a conversation."""

    agent_id: Name
    summary: Summary
    user_id: UserId | None = Field(None, description="Whom it hurts.")
    category: Category | None = Field(None, description="What kind of trouble; by its words, unless given.")
    severity: Severity | None = Field(None, description="How grave; by its words, unless given.")
    report_id: UUID | None = Field(None, description="The same report sent again counts once.")


class ResolvePain(ById):
    """How a pain point ends."""

    resolution: Resolution
    proposal_id: UUID | None = Field(None, description="The proposal that was read: no other is decided on.")


class ProposeSolution(ById):
    """Propose what might be done: these steps, or what the agent can think of."""

    title: Summary | None = None
    steps: list[StepText] = Field([], max_length=MAX_STEPS)


class PainChanged(BaseModel):
    """The pain point after the change; ``experience`` is the address of the memory that a confirmed proposal
    became, ``proposal`` what is proposed now: none yet where a worker is to think of one.
    """

    pain: PainPoint
    experience: str | None = None
    proposal: SolutionProposal | None = None


#: Conversations and hours between two looks, at most.
MAX_CONVERSATIONS, MAX_HOURS = 10_000, 8_760


class SelfSettings(BaseModel):
    """How often an agent reviews itself, and what may come of it."""

    #: After so many conversations that have ended, and after so many hours with something new; 0: this is no
    #: reason.
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
    """The current settings, and how far it is to the next self-review."""

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
    follow_deployment: bool = Field(
        False, description="Have the deployment's numbers of conversations and hours again, unless given."
    )
