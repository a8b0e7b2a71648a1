"""What an agent's look at itself gives."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, Field

#: Characters of one finding: a sentence or two.
MAX_FINDING_CHARS = 1_000
#: Findings of each kind, and ids of the evidence of one.
MAX_FINDINGS, MAX_EVIDENCE = 10, 20

Finding = Annotated[str, Field(pattern=r"\S", max_length=MAX_FINDING_CHARS)]
#: Numbers of the lines that it rests on, from 0.
Lines = Annotated[list[int], Field(min_length=1, max_length=MAX_EVIDENCE)]


class Pattern(BaseModel):
    """What went well, or wrong, more than once."""

    kind: Literal["positive", "negative"]
    text: Finding
    evidence: Lines


class Improvement(BaseModel):
    """What the agent could do better."""

    text: Finding
    evidence: Lines


class IdentityChange(BaseModel):
    """A line that is to be added to one of the agent's files."""

    file: Literal["SOUL", "AGENTS", "HEARTBEAT"]
    addition: Finding
    reason: Finding
    evidence: Lines


class MetaMemory(BaseModel):
    """What the agent should remember about itself."""

    text: Finding
    #: 1 mundane … 10 vital.
    importance: float = Field(5, ge=1, le=10)
    evidence: Lines


class SelfReflected(BaseModel):
    """All that one look gives; each finding names the lines that it rests on."""

    patterns: list[Pattern] = Field([], max_length=MAX_FINDINGS)
    improvements: list[Improvement] = Field([], max_length=MAX_FINDINGS)
    identity_changes: list[IdentityChange] = Field([], max_length=MAX_FINDINGS)
    meta_memories: list[MetaMemory] = Field([], max_length=MAX_FINDINGS)
