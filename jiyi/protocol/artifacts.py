"""Skills and workflows: patterns, candidates, the votes on them, what happens to them, and the requests on
all of that.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from pydantic import BaseModel, Field

from jiyi.protocol.base import Request

#: What a pattern can become; a workflow is called pipeline where it is voted on.
ArtifactKind = Literal["skill", "pipeline"]
MAX_NAME_CHARS, MAX_DESCRIPTION_CHARS, MAX_BODY_CHARS = 120, 500, 20_000
MAX_TRIGGERS, MAX_TOOLS = 8, 20
MAX_COMMENT_CHARS = 1_000
#: Evidence that a pattern names, the newest: all that one run looks at, so that an erasure finds it.
MAX_EVIDENCE = 1_000

Title = Annotated[str, Field(max_length=MAX_NAME_CHARS)]
Line = Annotated[str, Field(pattern=r"\S", max_length=MAX_DESCRIPTION_CHARS)]


Signal = Literal["explicit", "implicit_usage", "usage_count", "completion_rate"]
Sentiment = Literal["positive", "negative", "neutral"]
Recommendation = Literal["archive", "optimise", "promote"]


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
    signal: Signal = Field(
        "explicit",
        description="How it is known: said, seen in use, counted, or by how often it was completed.",
    )
    comment: Annotated[str, Field(max_length=MAX_COMMENT_CHARS)] | None = Field(None, description="Why.")


class GiveFeedback(Request, Vote, frozen=True, extra="forbid"):
    """A vote on a skill or a workflow; the same ``id`` counts once."""

    id: UUID | None = Field(None, description="Your own id, which counts once; a new one unless given.")


class GivenFeedback(BaseModel):
    """The vote's id, and what all votes come to."""

    id: UUID
    trust_score: float
    total: int
    recommendation: Recommendation | None


class Hint(BaseModel):
    """What may be put into a prompt, at most 150 tokens; empty, and no id, if nothing waits."""

    text: str = ""
    id: UUID | None = None
    artifact: ArtifactKind | None = None
