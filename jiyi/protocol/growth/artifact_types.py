"""Skills and workflows: patterns, candidates, the votes on them, and what happens to them."""

from __future__ import annotations

from typing import Annotated, Literal, get_args
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

#: What a pattern can become; a workflow is called pipeline where it is voted on.
ArtifactKind = Literal["skill", "pipeline"]
#: ``refused`` by the gate; ``pending`` until somebody decides; ``accepted``: registered, still to be enabled; ``declined``;
#: ``archived``: once accepted, now out of use; ``deleted``: its texts are gone.
Status = Literal["refused", "pending", "accepted", "declined", "archived", "deleted"]

MAX_NAME_CHARS, MAX_DESCRIPTION_CHARS, MAX_BODY_CHARS = 120, 500, 20_000
MAX_TRIGGERS, MAX_TOOLS = 8, 20
#: Evidence that a pattern names, the newest: all that one run looks at, so that an erasure finds it.
MAX_EVIDENCE = 1_000

Title = Annotated[str, Field(max_length=MAX_NAME_CHARS)]
Line = Annotated[str, Field(pattern=r"\S", max_length=MAX_DESCRIPTION_CHARS)]


class Pattern(BaseModel):
    """What experiences of one problem, or runs of one chain of tools, have in common."""

    model_config = ConfigDict(frozen=True)

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


class SkillCandidate(BaseModel):
    """A skill as it is proposed; with the tools' chain as YAML for a body it is a workflow."""

    model_config = ConfigDict(frozen=True)

    name: Title
    description: str = Field("", max_length=MAX_DESCRIPTION_CHARS)
    triggers: list[Line] = Field([], max_length=MAX_TRIGGERS)
    tools: list[Title] = Field([], max_length=MAX_TOOLS)
    body: str = Field(max_length=MAX_BODY_CHARS)
    #: 0 … 1; what is above is capped by the gate.
    confidence: float = Field(ge=0)


class GateReport(BaseModel):
    """What the gate found; ``confidence`` is at most 1."""

    model_config = ConfigDict(frozen=True)

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


class Trust(BaseModel):
    """What was voted, and what it comes to; ``score`` is 0 … 1, .5 without votes."""

    model_config = ConfigDict(frozen=True)

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
    "accepted",
    "declined",
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


class EvolutionEvent(BaseModel):
    """One change of an artifact, or of how it is trusted. Holds ids and numbers, no texts."""

    model_config = ConfigDict(frozen=True)

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
