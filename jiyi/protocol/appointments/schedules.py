"""Requests and answers of the commands on schedules."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from pydantic import AfterValidator, AwareDatetime, BaseModel, Field, model_validator

from jiyi.protocol.appointments.cron import check_cron, zone_of
from jiyi.protocol.base import DEFAULT_PAGE, Name, PageSize, Request

#: Characters of a message that asks for a schedule, and of what is to be done.
MAX_TEXT_CHARS, MAX_TASK_CHARS = 4_000, 500
#: Seconds between two runs of an interval: from a minute to ten years.
LEAST_SECONDS, MOST_SECONDS = 60, 315_360_000
#: Next runs that are shown at most.
MOST_RUNS = 50

#: How sure a time is read; of what is cancelled, moved or listed, whether it is clear which appointment is meant.
Certainty = Literal["exact", "ambiguous", "unclear", "none"]
ScheduleKind = Literal["cron", "once", "interval"]
TargetType = Literal["reminder", "agent", "hand", "workflow"]
State = Literal["active", "paused", "ended"]


def _is_zone(name: str) -> str:
    zone_of(name)
    return name


def _is_cron(cron: str) -> str:
    try:
        check_cron(cron)
    except ValueError as error:
        raise ValueError(str(error).removeprefix("cron: ")) from None  # the field's name stands before it already
    return cron


TimeZone = Annotated[str, Field(max_length=100, description="Name of a time zone, such as Asia/Shanghai (IANA)."), AfterValidator(_is_zone)]
Cron = Annotated[str, Field(max_length=200), AfterValidator(_is_cron)]


class Target(BaseModel):
    """Who does it: a reminder tells the user; an agent, a hand or a workflow has an id."""

    type: TargetType = "reminder"
    id: str | None = Field(None, max_length=200)


class ScheduleReading(BaseModel):
    """One reading of a message."""

    kind: ScheduleKind
    cron: str | None = None
    at: datetime | None = None
    every_seconds: int | None = None
    tz: str
    natural_description: str
    confidence: float
    task_description: str
    task_target: Target
    next_runs: list[datetime] = []


class ParseSchedule(Request):
    """A message, and when and where it was said."""

    text: str = Field(min_length=1, max_length=MAX_TEXT_CHARS)
    tz: TimeZone = "UTC"
    now: AwareDatetime | None = Field(None, description="When it was said; now unless given.")
    runs: int = Field(3, ge=0, le=MOST_RUNS, description="Next runs that are told of each reading.")


class ScheduleParse(BaseModel):
    """What a message asks for: one reading if it is exact, several if it is ambiguous, none else."""

    certainty: Certainty
    intent: bool
    readings: list[ScheduleReading] = []
    reason: str | None = None


class CreateSchedule(Request):
    """A schedule: by the message that asks for it, or field by field."""

    agent_id: Name
    text: str | None = Field(
        None, min_length=1, max_length=MAX_TEXT_CHARS, description="A message; of an ambiguous one the likeliest reading."
    )
    tz: TimeZone | None = Field(None, description="The agent's, of its heartbeat, unless given.")
    kind: ScheduleKind | None = None
    cron: Cron | None = None
    at: AwareDatetime | None = None
    every_seconds: int | None = Field(None, ge=LEAST_SECONDS, le=MOST_SECONDS)
    task: str | None = Field(None, max_length=MAX_TASK_CHARS)
    target: Target | None = None
    session_id: Name | None = None

    @model_validator(mode="after")
    def _one_way(self) -> CreateSchedule:
        if self.text is not None:
            if self.kind is not None:
                raise ValueError("kind: give a text or the fields of a schedule, not both")
            return self
        needed = {"cron": ("cron",), "once": ("at",), "interval": ("every_seconds",), None: ("kind",)}[self.kind]
        missing = [name for name in (*needed, "task") if getattr(self, name) is None]
        if missing:
            raise ValueError(f"{missing[0]}: needed, unless text is given")
        if not (self.task or "").strip():
            raise ValueError("task: must not be blank")
        return self


class ScheduleId(Request):
    id: UUID


class ListSchedules(Request):
    agent_id: Name | None = None
    state: State | None = None
    after: UUID | None = None
    limit: PageSize = DEFAULT_PAGE


class ListRuns(Request):
    id: UUID
    limit: PageSize = DEFAULT_PAGE


class ScheduleState(BaseModel):
    """A schedule as it is kept."""

    id: UUID
    agent_id: str
    state: State
    kind: ScheduleKind
    cron: str | None
    at: datetime | None
    every_seconds: int | None
    tz: str
    natural_description: str
    confidence: float
    task_description: str
    target_type: TargetType
    target_id: str | None
    session_id: str | None
    created_at: datetime
    next_run_at: datetime | None


class CreatedSchedule(BaseModel):
    """What became of a request: the schedule, or why there is none. ``confirmation`` is in the request's language."""

    certainty: Certainty
    schedule: ScheduleState | None = None
    confirmation: str | None = None
    alternatives: list[ScheduleReading] = []
    reason: str | None = None


class AskSchedules(Request):
    """A message to an agent, which may ask something of its appointments."""

    agent_id: Name
    text: str = Field(min_length=1, max_length=MAX_TEXT_CHARS)
    tz: TimeZone | None = Field(None, description="The user's; the agent's, of its heartbeat, unless given.")
    session_id: Name | None = None
    request_id: UUID | None = Field(None, description="The same request sent again is done once.")


class AskedSchedules(CreatedSchedule):
    """What a message asked of an agent's appointments and what was done, or asked back: ``confirmation`` says it in its language.

    ``schedule`` is the one that was taken down, cancelled or moved; ``schedules`` are those that were listed, or may be meant.
    """

    asked: Literal["new", "cancel", "move", "list"] | None = None
    schedules: list[ScheduleState] = []


class Schedules(BaseModel):
    schedules: list[ScheduleState]
    next: UUID | None = None


class ScheduleDetails(BaseModel):
    schedule: ScheduleState
    next_runs: list[datetime]


class ScheduleRunState(BaseModel):
    """One run; ``skipped``: it was noticed too late to be made good."""

    due_at: datetime
    fired_at: datetime
    missed: bool
    skipped: bool
    alert_id: UUID | None


class ScheduleRuns(BaseModel):
    runs: list[ScheduleRunState]


class Deleted(BaseModel):
    deleted: bool
