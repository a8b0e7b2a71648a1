"""Steps of conversations as they are kept, and the requests on the trajectories that are made of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from uuid import UUID

from pydantic import BaseModel

from jiyi.chat.secrets import masked

RequestType = Literal["tool_task", "question", "request", "chat"]
#: How it ended: as asked, in part, not at all, or without an answer.
Completion = Literal["success", "partial", "failed", "abandoned"]
Satisfaction = Literal["positive", "negative", "neutral"]


class Link(BaseModel, frozen=True):
    """A step that matters; the same tool several times in a row is one link."""

    step_type: StepType
    tool: str | None = None
    input: str = ""
    output: str = ""
    ok: bool | None = None
    ms: int | None = None
    times: int = 1


class TrajectoryState(BaseModel):
    """What a conversation's steps came to."""

    id: UUID
    agent_id: str
    session_id: str
    request_type: RequestType
    request: str
    tools_used: list[str]
    outcome: Completion
    satisfaction: Satisfaction | None
    tokens: int
    steps: int
    duration_ms: int
    execution_chain: list[Link]
    started_at: datetime
    ended_at: datetime


#: ``skill``: the text of an enabled skill, whose id is ``tool``, was in the prompt.
StepType = Literal["user_request", "retrieval", "skill", "tool_call", "tool_result", "generation"]

#: Characters that are kept of what a step got, and of what it gave.
SUMMARY_CHARS = 200
CUT = "…"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step; ``ok`` is None where nobody said whether it worked."""

    event_id: UUID
    step_index: int
    step_type: StepType
    occurred_at: datetime
    tool: str | None = None
    input: str = ""
    output: str = ""
    ok: bool | None = None
    tokens: int | None = None
    ms: int | None = None


def summary(text: str) -> str:
    """The beginning of a text in one line, with its secrets masked; at most ``SUMMARY_CHARS`` characters."""
    line = " ".join(masked(text).split())
    return line if len(line) <= SUMMARY_CHARS else line[: SUMMARY_CHARS - len(CUT)] + CUT


def in_order(steps: Iterable[Step]) -> list[Step]:
    """By their numbers, whenever they came; a step that was told twice comes once."""
    unique: dict[tuple[object, ...], Step] = {}
    for step in sorted(steps, key=lambda step: (step.step_index, step.occurred_at, step.event_id)):
        unique.setdefault((step.step_index, step.step_type, step.tool, step.input, step.output), step)
    return list(unique.values())
