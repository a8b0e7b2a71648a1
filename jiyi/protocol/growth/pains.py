"""Requests and answers of the commands on pain points."""

from __future__ import annotations

from datetime import datetime
from typing import Literal
from uuid import UUID

from pydantic import BaseModel, Field

from jiyi.protocol.events import Name
from jiyi.protocol.growth.pain_types import MAX_STEPS, Category, ProposalStatus, Severity, Status, Step, Summary
from jiyi.protocol.queries import DEFAULT_PAGE, PageSize, Request

#: Characters of a note.
MAX_NOTE_CHARS = 1_000

#: How a pain point ends: its proposal helped or did not, or it needs no more thought.
Resolution = Literal["confirmed", "rejected", "dismissed", "reopened"]


class PainPoint(BaseModel):
    """What hurts a user of an agent: alike ones are one, and each distinct turn that tells of it makes it surer."""

    pain_id: UUID
    agent_id: str
    user_id: str
    summary: str
    category: Category
    severity: Severity
    occurrence_count: int
    confidence: float
    status: Status
    first_seen: datetime
    last_seen: datetime


class PainEvidence(BaseModel):
    """A turn, or a report, that told of it."""

    source_id: UUID
    quote: str
    said_at: datetime
    session_id: str | None = None


class SolutionProposal(BaseModel):
    """What might be done about it, step by step."""

    proposal_id: UUID
    pain_id: UUID
    title: str
    steps: list[str]
    status: ProposalStatus
    made_by: str
    created_at: datetime
    decided_at: datetime | None
    decided_by: str | None


class PainDetail(PainPoint):
    """With what told of it, newest first, and every proposal."""

    evidence: list[PainEvidence]
    proposals: list[SolutionProposal]


class ListPains(Request):
    """Which pain points; those felt last first."""

    agent_id: Name | None = Field(None, description="Only this agent's.")
    status: Status | None = Field(None, description="Only those in this state.")
    before: UUID | None = Field(None, description="Go on after this one.")
    limit: PageSize = DEFAULT_PAGE


class PainPage(BaseModel):
    """``next`` is what to pass on as ``before``."""

    pains: list[PainPoint]
    next: UUID | None = None


class PainId(Request):
    """Which pain point."""

    pain_id: UUID


class ReportPain(Request):
    """Something hurts: said by a program or a person, not in a conversation."""

    agent_id: Name
    summary: Summary
    user_id: Name | None = Field(None, description="Whom it hurts; the agent's user, unless named.")
    category: Category | None = Field(None, description="What kind of trouble; by its words, unless given.")
    severity: Severity | None = Field(None, description="How grave; by its words, unless given.")
    report_id: UUID | None = Field(None, description="The same report sent again counts once.")


class ResolvePain(Request):
    """How a pain point ends."""

    pain_id: UUID
    resolution: Resolution
    proposal_id: UUID | None = Field(None, description="The proposal that was read: another one is not decided on.")


class ProposeSolution(Request):
    """Propose what might be done: these steps, or what the agent can think of."""

    pain_id: UUID
    title: Summary | None = None
    steps: list[Step] = Field([], max_length=MAX_STEPS)


class PainChanged(BaseModel):
    """The pain point after the change; ``experience`` is the address of the memory that a confirmed proposal became."""

    pain: PainPoint
    experience: str | None = None


class ProposalAsked(BaseModel):
    """The proposal; none yet where a worker is to think of one."""

    pain: PainPoint
    proposal: SolutionProposal | None = None
