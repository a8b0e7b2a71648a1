"""What a pain point is, and what is proposed against it."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from pydantic import BaseModel, Field

from jiyi.protocol.conversations.types import Outcome

#: What kind of trouble it is.
Category = Literal["fault", "slow", "wrong", "tedious", "unclear", "other"]
#: From mild to grave: of two the graver one is kept.
Severity = Literal["low", "medium", "high"]
#: ``open`` → ``proposed`` (there is a proposal to decide on) → ``solved``; or ``dismissed`` by somebody.
Status = Literal["open", "proposed", "solved", "dismissed"]
ProposalStatus = Literal["pending", "confirmed", "rejected"]
CATEGORIES: tuple[Category, ...] = get_args(Category)
SEVERITIES: tuple[Severity, ...] = get_args(Severity)

#: Characters of a summary, and of one step: a sentence or two.
MAX_SUMMARY_CHARS, MAX_STEP_CHARS = 300, 500
MAX_STEPS, MAX_FOUND = 20, 50

Summary = Annotated[str, Field(pattern=r"\S", max_length=MAX_SUMMARY_CHARS)]
Step = Annotated[str, Field(pattern=r"\S", max_length=MAX_STEP_CHARS)]


class FoundPain(BaseModel):
    """Trouble that a message tells of."""

    summary: Summary
    category: Category = "other"
    severity: Severity = "medium"
    #: Number of the message, from 0.
    turn: int = Field(ge=0)


class FoundPains(BaseModel):
    """What the new messages of a conversation tell of trouble, and which of them say that something helped."""

    pains: list[FoundPain] = Field([], max_length=MAX_FOUND)
    #: Numbers of messages in which the user says that what was advised works.
    helped: list[int] = Field([], max_length=MAX_FOUND)


class KnownSolution(BaseModel):
    """An experience that may help: what was done about a problem like this one, and how that ended."""

    problem: str
    steps: list[str]
    outcome: Outcome


class ProposedSolution(BaseModel):
    """What might be done about a pain point, step by step."""

    title: Summary
    steps: list[Step] = Field(min_length=1, max_length=MAX_STEPS)


def graver(one: Severity, other: Severity) -> Severity:
    """The graver of two."""
    return max(one, other, key=SEVERITIES.index)


def confidence_of(turns: int, step: float) -> float:
    """How sure it is that this hurts: ``step`` (0 … 1) a distinct turn that told of it, at most 1."""
    return min(1.0, round(turns * step, 6))
