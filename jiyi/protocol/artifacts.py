"""Skills and workflows: patterns, candidates, the votes on them, what happens to them, and the requests on all of that."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal, get_args
from uuid import UUID

from pydantic import BaseModel, Field

from jiyi.protocol.base import DEFAULT_PAGE, Name, PageSize, Request

#: What a pattern can become; a workflow is called pipeline where it is voted on.
ArtifactKind = Literal["skill", "pipeline"]
MAX_NAME_CHARS, MAX_DESCRIPTION_CHARS, MAX_BODY_CHARS = 120, 500, 20_000
MAX_TRIGGERS, MAX_TOOLS = 8, 20
MAX_COMMENT_CHARS = 1_000
#: Evidence that a pattern names, the newest: all that one run looks at, so that an erasure finds it.
MAX_EVIDENCE = 1_000

Title = Annotated[str, Field(max_length=MAX_NAME_CHARS)]
Line = Annotated[str, Field(pattern=r"\S", max_length=MAX_DESCRIPTION_CHARS)]


class Pattern(BaseModel, frozen=True):
    """What experiences of one problem, or runs of one chain of tools, have in common."""

    kind: ArtifactKind
    #: Known again by these, the oldest first (SHA-256).
    hashes: list[bytes] = Field(min_length=1)
    title: str
    #: Different wordings of the same.
    wordings: list[str]
    common_steps: list[str]
    tools_used: list[str] = []
    industry_context: str | None = None
    #: How often it was told or used again; of a chain: successful runs.
    total_reuse: int
    #: How many sessions it is known from; 0 where that is not counted.
    sessions: int = 0
    confidence: float
    #: Memories, or trajectories, that it rests on, the oldest first.
    evidence: list[UUID]
    #: Who told it in private, and alone may be told it; None: everybody may.
    user_id: str | None = None


class SkillCandidate(BaseModel, frozen=True):
    """A skill as it is proposed; with the tools' chain as YAML for a body it is a workflow."""

    name: Title
    description: str = Field("", max_length=MAX_DESCRIPTION_CHARS)
    triggers: list[Line] = Field([], max_length=MAX_TRIGGERS)
    tools: list[Title] = Field([], max_length=MAX_TOOLS)
    body: str = Field(max_length=MAX_BODY_CHARS)
    #: 0 … 1; what is above is capped by the gate.
    confidence: float = Field(ge=0)


class GateReport(BaseModel, frozen=True):
    """What the gate found; ``confidence`` is at most 1."""

    passed: bool
    issues: list[str] = []
    confidence: float


Signal = Literal["explicit", "implicit_usage", "usage_count", "completion_rate"]
Sentiment = Literal["positive", "negative", "neutral"]
Recommendation = Literal["archive", "optimise", "promote"]

#: Votes, neutral ones left out, from which on there is a recommendation.
LEAST_VOTES = 5
#: Scores below which archiving and optimising are recommended, and above which promoting is.
ARCHIVE_BELOW, OPTIMISE_BELOW, PROMOTE_ABOVE = 0.2, 0.4, 0.8


class Trust(BaseModel, frozen=True):
    """What was voted, and what it comes to; ``score`` is 0 … 1, .5 without votes."""

    positive: int = 0
    negative: int = 0
    neutral: int = 0

    @property
    def total(self) -> int:
        """Votes that count: neutral ones do not."""
        return self.positive + self.negative

    @property
    def score(self) -> float:
        """``(positive + 1) / (total + 2)``."""
        return (self.positive + 1) / (self.total + 2)

    @property
    def recommendation(self) -> Recommendation | None:
        """What to do about it; None while there are too few votes, or nothing is to be done."""
        if self.total < LEAST_VOTES:
            return None
        if self.score < ARCHIVE_BELOW:
            return "archive"
        if self.score < OPTIMISE_BELOW:
            return "optimise"
        return "promote" if self.score > PROMOTE_ABOVE else None


EvolutionKind = Literal[
    "proposed",
    "refused",
    "registered",
    "returned",
    "approved",
    "rejected",
    "enabled",
    "disabled",
    "archived",
    "deleted",
    "feedback_given",
    "feedback_ignored",
    "recommended",
]
#: In the audit log their names begin so.
PREFIX = "evolution."
KINDS: tuple[EvolutionKind, ...] = get_args(EvolutionKind)


class EvolutionEvent(BaseModel, frozen=True):
    """One change of an artifact, or of how it is trusted. Holds ids and numbers, no texts."""

    kind: EvolutionKind
    agent_id: str
    artifact: ArtifactKind
    artifact_id: UUID
    evidence_count: int | None = None
    confidence: float | None = None
    #: Issues that the gate found.
    issues: int | None = None
    trust_score: float | None = None
    recommendation: Recommendation | None = None


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


class Vote(BaseModel, frozen=True, extra="ignore"):
    """What somebody thinks of a skill or a workflow: the payload of ``feedback.given``."""

    artifact: ArtifactKind = Field(description="A `skill`, or a `pipeline`, which is a workflow.")
    artifact_id: UUID = Field(description="Which one.")
    sentiment: Sentiment = Field(description="Neutral ones are kept, and do not count.")
    signal: Signal = Field("explicit", description="How it is known: said, seen in use, counted, or by how often it was completed.")
    comment: Annotated[str, Field(max_length=MAX_COMMENT_CHARS)] | None = Field(None, description="Why.")


class GiveFeedback(Request, Vote, frozen=True, extra="forbid"):
    """A vote on a skill or a workflow; the same ``id`` counts once."""

    id: UUID | None = Field(None, description="Your own id; the same one counts once. A new one unless given.")


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


class GivenFeedback(BaseModel):
    """The vote's id, and what all votes come to."""

    id: UUID
    trust_score: float
    total: int
    recommendation: Recommendation | None


class VoteState(BaseModel):
    id: UUID
    artifact_id: UUID
    signal: Signal
    sentiment: Sentiment
    comment: str | None
    given_by: str
    given_at: datetime


class EvolutionRow(EvolutionEvent):
    """An evolution event with when it happened, and who did it."""

    id: UUID
    at: datetime
    actor: str


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
