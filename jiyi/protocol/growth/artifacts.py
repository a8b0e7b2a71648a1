"""Requests and answers about skills, workflows, patterns, votes and evolution events."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from jiyi.protocol.base import DEFAULT_PAGE, Name, PageSize, Request
from jiyi.protocol.events import Vote
from jiyi.protocol.growth.artifact_types import ArtifactKind, EvolutionEvent, Recommendation, Sentiment, Signal, Status

MAX_REASON_CHARS = 1_000

Reason = Annotated[str, Field(max_length=MAX_REASON_CHARS)]


class ArtifactId(Request):
    """Which skill, or which workflow."""

    id: UUID


class Deciding(ArtifactId):
    """Which one, and why."""

    reason: Reason | None = None


class ArtifactsQuery(Request):
    """Which skills, or workflows: of an agent, of a status; ``before`` is the last id of the page before."""

    agent_id: Name | None = None
    status: Status | None = None
    before: UUID | None = None
    limit: PageSize = DEFAULT_PAGE


class ArtifactState(BaseModel):
    """A skill, or a workflow (``pipeline``), as it is now; only what is accepted and enabled is meant to be used."""

    id: UUID
    artifact: ArtifactKind
    agent_id: str
    name: str
    description: str
    triggers: list[str]
    tools: list[str]
    #: Of a skill Markdown, of a workflow YAML.
    body: str
    confidence: float
    #: What the gate found.
    issues: list[str]
    status: Status
    enabled: bool
    #: Memories, or trajectories, that it rests on.
    evidence: list[UUID]
    evidence_count: int
    decided_by: str | None
    decided_at: datetime | None
    created_at: datetime
    updated_at: datetime
    #: None without votes.
    trust_score: float | None
    votes: int
    recommendation: Recommendation | None


class ArtifactRows(BaseModel):
    """A page of skills, or workflows; ``next`` is what to pass on as ``before``."""

    rows: list[ArtifactState]
    next: UUID | None = None


class PatternsQuery(Request):
    """Whose patterns."""

    agent_id: Name
    limit: PageSize = DEFAULT_PAGE


class PatternState(BaseModel):
    """What experiences of one problem, or runs of one chain of tools, have in common."""

    #: What may come of it.
    artifact: ArtifactKind
    pattern_hash: str
    title: str
    wordings: list[str]
    common_steps: list[str]
    tools_used: list[str]
    industry_context: str | None
    total_reuse: int
    sessions: int
    confidence: float
    evidence: list[UUID]
    updated_at: datetime


class PatternRows(BaseModel):
    rows: list[PatternState]


class GiveFeedback(Request, Vote):
    """A vote on a skill or a workflow; the same ``id`` counts once."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: UUID | None = Field(None, description="Your own id; the same one counts once. A new one unless given.")


class TrustQuery(Request):
    """Whose artifacts' trust; all of the group's unless an agent is named."""

    agent_id: Name | None = None
    limit: PageSize = DEFAULT_PAGE


class TrustState(BaseModel):
    """How far an artifact is trusted; neutral votes do not count."""

    id: UUID
    artifact: ArtifactKind
    agent_id: str
    name: str
    positive: int
    negative: int
    neutral: int
    total: int
    trust_score: float
    recommendation: Recommendation | None
    last_updated: datetime


class TrustRows(BaseModel):
    rows: list[TrustState]


class GivenFeedback(BaseModel):
    """The vote's id, and what all votes come to."""

    id: UUID
    trust_score: float
    total: int
    recommendation: Recommendation | None


class VotesQuery(Request):
    """Votes on which artifact."""

    id: UUID
    limit: PageSize = DEFAULT_PAGE


class VoteState(BaseModel):
    id: UUID
    artifact_id: UUID
    signal: Signal
    sentiment: Sentiment
    comment: str | None
    given_by: str
    given_at: datetime


class VoteRows(BaseModel):
    rows: list[VoteState]


class EvolutionQuery(Request):
    """Which evolution events: of an agent, of an artifact; ``before`` is the last id of the page before."""

    agent_id: Name | None = None
    artifact_id: UUID | None = None
    before: UUID | None = None
    limit: PageSize = DEFAULT_PAGE


class EvolutionRow(EvolutionEvent):
    """An evolution event with when it happened, and who did it."""

    id: UUID
    at: datetime
    actor: str


class EvolutionRows(BaseModel):
    rows: list[EvolutionRow]
    next: UUID | None = None


class HintQuery(Request):
    """Whose hint."""

    agent_id: Name


class PendingHint(BaseModel):
    """A candidate that waits."""

    id: UUID
    artifact: ArtifactKind
    name: str
    description: str


class Hint(BaseModel):
    """What may be put into a prompt, at most 150 tokens; empty, and no id, if nothing waits."""

    text: str = ""
    id: UUID | None = None
    artifact: ArtifactKind | None = None
