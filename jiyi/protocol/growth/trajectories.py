"""Requests and answers about trajectories."""

from __future__ import annotations

from datetime import datetime
from typing import Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict

from jiyi.protocol.base import DEFAULT_PAGE, Name, PageSize, Request
from jiyi.protocol.growth.steps import StepType

RequestType = Literal["tool_task", "question", "request", "chat"]
#: How it ended: as asked, in part, not at all, or without an answer.
Completion = Literal["success", "partial", "failed", "abandoned"]
Satisfaction = Literal["positive", "negative", "neutral"]


class Link(BaseModel):
    """A step that matters; the same tool several times in a row is one link."""

    model_config = ConfigDict(frozen=True)

    step_type: StepType
    tool: str | None = None
    input: str = ""
    output: str = ""
    ok: bool | None = None
    ms: int | None = None
    times: int = 1


class TrajectoriesQuery(Request):
    """Whose trajectories, of one session if it is named; ``before`` is the last id of the page before."""

    agent_id: Name
    session_id: Name | None = None
    before: UUID | None = None
    limit: PageSize = DEFAULT_PAGE


class TrajectoryId(Request):
    """Which trajectory."""

    id: UUID


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


class TrajectoryRows(BaseModel):
    """A page of trajectories, newest first; ``next`` is what to pass on as ``before``."""

    rows: list[TrajectoryState]
    next: UUID | None = None


class StepsQuery(Request):
    """Which session's raw steps, as far as they are still kept."""

    agent_id: Name
    session_id: Name
    limit: PageSize = DEFAULT_PAGE


class StepState(BaseModel):
    """A raw step."""

    event_id: UUID
    step_index: int
    step_type: str
    tool: str | None
    input_summary: str
    output_summary: str
    ok: bool | None
    tokens: int | None
    duration_ms: int | None
    occurred_at: datetime
    trajectory_id: UUID | None


class StepRows(BaseModel):
    rows: list[StepState]
