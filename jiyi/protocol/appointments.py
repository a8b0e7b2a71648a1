"""Appointments and heartbeats of agents: cron expressions, schedules, alerts, and the requests on them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from itertools import islice
from typing import Annotated, Any, Literal, Self
from uuid import UUID, uuid4
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError
from pydantic import AfterValidator, AwareDatetime, BaseModel, Field, model_validator

from jiyi.protocol.base import ById, ForUser, Name, OfAgent, Paged, Request, UserId
from jiyi.zones import TimeZone, zone_of

#: Characters of a message that asks for a schedule, and of what is to be done.
MAX_TEXT_CHARS, MAX_TASK_CHARS = 4_000, 500
#: Seconds between two runs of an interval: from a minute to ten years.
LEAST_SECONDS, MOST_SECONDS = 60, 315_360_000
#: Next runs that are shown at most.
MOST_RUNS = 50

#: How sure a time is read; of what is cancelled, moved or listed, whether it is clear which appointment is
#: meant.
Certainty = Literal["exact", "ambiguous", "unclear", "none"]
ScheduleKind = Literal["cron", "once", "interval"]
TargetType = Literal["reminder", "agent", "hand", "workflow"]
State = Literal["active", "paused", "ended"]


def local(day: date, clock: time, zone: ZoneInfo) -> datetime:
    """A local time; one that does not exist becomes the moment that many minutes after the change."""
    return datetime.combine(day, clock, zone).astimezone(UTC).astimezone(zone)


def runs(cron: str, tz: str, after: datetime) -> Iterator[datetime]:
    """Times of a cron expression after a moment, in UTC, each once. Raises ValueError for a wrong one."""
    try:
        times = CronSim(cron, after.astimezone(zone_of(tz)))
        last = after
        for occurrence in times:
            moment = occurrence.astimezone(UTC)
            if moment > last:
                yield moment
                last = moment
    except CronSimError as error:
        raise ValueError(f"cron: {error}") from error


def next_run(**timing: Any) -> datetime | None:
    """The first time after a moment, as :func:`next_runs` takes it; None if there is none any more."""
    return next(next_runs(**timing, count=1), None)


def next_runs(
    *,
    kind: str,
    cron: str | None,
    at: datetime | None,
    every_seconds: int | None,
    tz: str,
    after: datetime,
    count: int,
) -> Iterator[datetime]:
    """The next times, at most so many."""
    if kind == "cron":
        yield from islice(runs(cron or "", tz, after), count)
    elif at is not None and kind == "once":
        if at > after:
            yield at.astimezone(UTC)
    elif at is not None and every_seconds:
        yield from (
            moment for _, moment in zip(range(count), _steps(at, every_seconds, tz, after), strict=False)
        )


def _steps(first: datetime, seconds: int, tz: str, after: datetime) -> Iterator[datetime]:
    """Steps from the first time; those of whole days keep the local time of day across a clock change."""
    zone = zone_of(tz)
    if seconds % timedelta(days=1).total_seconds():
        start = first.astimezone(UTC)
        passed = max(0, int((after - start).total_seconds() // seconds) + (after >= start))
        while True:
            yield start + timedelta(seconds=passed * seconds)
            passed += 1
    days = seconds // 86_400
    begun = first.astimezone(zone)
    passed = max(0, (after.astimezone(zone).date() - begun.date()).days // days)
    while True:
        moment = local(
            begun.date() + timedelta(days=passed * days), begun.time().replace(tzinfo=None), zone
        ).astimezone(UTC)
        if moment > after:
            yield moment
        passed += 1


def check_cron(cron: str) -> str:
    """The expression. Raises ValueError if it has not five fields, or never comes."""
    if len(cron.split()) != 5:
        raise ValueError("a cron expression has five fields: minute, hour, day of month, month, day of week")
    try:
        next(CronSim(cron, datetime(2026, 1, 1, tzinfo=UTC)))
    except (CronSimError, StopIteration) as error:
        raise ValueError(f"no cron expression: {error or 'it never comes'}") from error
    return cron


Cron = Annotated[str, Field(max_length=200), AfterValidator(check_cron)]


class Target(BaseModel):
    """Who does it: a reminder notifies the user; an agent, a hand or a workflow has an id."""

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
    runs: int = Field(3, ge=0, le=MOST_RUNS, description="Next runs that are returned for each reading.")


class ScheduleParse(BaseModel):
    """What a message asks for: one reading if it is exact, several if it is ambiguous, none else."""

    certainty: Certainty
    intent: bool
    readings: list[ScheduleReading] = []
    reason: str | None = None


class Timing(Request):
    """When something is to be done, in words or field by field, and what."""

    text: str | None = Field(
        None,
        min_length=1,
        max_length=MAX_TEXT_CHARS,
        description="A message, or when, in words; of an ambiguous one the likeliest reading.",
    )
    tz: TimeZone | None = Field(None, description="The agent's, or the schedule's, unless given.")
    kind: ScheduleKind | None = None
    cron: Cron | None = None
    at: AwareDatetime | None = None
    every_seconds: int | None = Field(None, ge=LEAST_SECONDS, le=MOST_SECONDS)
    task: str | None = Field(None, max_length=MAX_TASK_CHARS)

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if self.text is not None and self.kind is not None:
            raise ValueError("kind: give a text or the fields of a schedule, not both")
        if self.text is None and self._says_when():
            needed = {"cron": "cron", "once": "at", "interval": "every_seconds", None: "kind"}[self.kind]
            if getattr(self, needed) is None:
                raise ValueError(f"{needed}: needed, unless text is given")
        if self._reads_task() and self.task is not None and not self.task.strip():
            raise ValueError("task: must not be blank")
        return self

    def _reads_task(self) -> bool:
        return True

    def _says_when(self) -> bool:
        return True


class CreateSchedule(Timing, OfAgent):
    """A schedule: by the message that asks for it, or field by field."""

    target: Target | None = None
    session_id: Name | None = None
    user_id: UserId | None = Field(None, description="Whose it is, of the people whom the agent talks with.")

    @model_validator(mode="after")
    def _has_a_task(self) -> Self:
        if self.text is None and self.task is None:
            raise ValueError("task: needed, unless text is given")
        return self

    def _reads_task(self) -> bool:
        """A text says what for."""
        return self.text is None


class UpdateSchedule(Timing, ById):
    """What is to change of a schedule: its time in words or fields, its task, whether it is paused."""

    paused: bool | None = Field(None, description="Whether it does not run until this is false again.")

    @model_validator(mode="after")
    def _some_change(self) -> Self:
        if (self.text, self.kind, self.task, self.tz, self.paused) == (None,) * 5:
            raise ValueError("text: needed, unless kind, tz, task or paused is given")
        return self

    def _says_when(self) -> bool:
        return self.kind is not None


class ListSchedules(Paged, ForUser):
    agent_id: Name | None = None
    state: State | None = None


class ScheduleState(BaseModel):
    """A stored schedule."""

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
    user_id: str | None = None
    created_at: datetime
    next_run_at: datetime | None
    next_runs: list[datetime] = Field([], description="Some to come; only of one schedule by its id.")


class AskSchedules(Request, ForUser, use_attribute_docstrings=True):
    """A message to an agent, which may ask something of its appointments."""

    agent_id: Name
    text: str = Field(min_length=1, max_length=MAX_TEXT_CHARS)
    tz: TimeZone | None = Field(None, description="The user's; the agent's unless given.")
    session_id: Name | None = None
    request_id: UUID = Field(default_factory=uuid4, description="The same request sent again is done once.")
    completes: str | None = Field(None, min_length=1, max_length=MAX_TEXT_CHARS)
    """The message before it that was asked back for a time: a text that says hardly more than a time is
    that time."""


class AskedSchedules(BaseModel):
    """What a message asked of an agent's appointments, and what was done or asked back (``confirmation``).
    ``schedule``: what was made, cancelled or moved, ``reason``: why there is none; ``schedules``: those
    listed, or perhaps meant.
    """

    certainty: Certainty
    schedule: ScheduleState | None = None
    confirmation: str | None = None
    alternatives: list[ScheduleReading] = []
    reason: str | None = None
    asked: Literal["new", "cancel", "move", "list"] | None = None
    schedules: list[ScheduleState] = []


Urgency = Literal["low", "medium", "high"]
Channel = Literal["ui", "desktop", "all"]
Proactivity = Literal["silent", "light", "standard", "autonomous"]
Minutes = Annotated[int, Field(ge=1, le=10_080, description="Minutes between two ticks: up to a week.")]
Clock = Annotated[
    str, Field(pattern=r"^([01]\d|2[0-3]):[0-5]\d$", description="A time of day, such as 22:00.")
]

#: Most alerts of one tick, by default, and the most that may be set.
ALERTS, MOST_ALERTS = 5, 50


class QuietHours(BaseModel):
    """Hours in which alerts wait, in the agent's time zone; they may cross midnight."""

    start: Clock
    end: Clock

    @model_validator(mode="after")
    def _some_hours(self) -> QuietHours:
        if self.start == self.end:
            raise ValueError("end: must differ from start; for no quiet hours give null")
        return self

    @property
    def times(self) -> tuple[time, time]:
        return time.fromisoformat(self.start), time.fromisoformat(self.end)


class HeartbeatConfig(BaseModel):
    """How often an agent looks after itself, and how it speaks up."""

    enabled: bool = False
    interval_minutes: int = 30
    quiet_hours: QuietHours | None = QuietHours(start="22:00", end="08:00")
    tz: str = "UTC"
    channel: Channel = "ui"
    proactivity: Proactivity = "standard"
    max_alerts: int = ALERTS


class ConfigureHeartbeat(Request):
    """What is to change of an agent's heartbeat. ``quiet_hours`` null, or off: none."""

    agent_id: Name
    enabled: bool | None = None
    interval_minutes: Minutes | None = None
    quiet_hours: QuietHours | Literal["off"] | None = None
    tz: TimeZone | None = Field(None, description="Becomes the agent's time zone.")
    channel: Channel | None = None
    proactivity: Proactivity | None = None
    max_alerts: int | None = Field(None, ge=1, le=MOST_ALERTS)

    @model_validator(mode="before")
    @classmethod
    def _null_is_off(cls, body: Any) -> Any:
        """Calls over the broker leave nulls out, so that one that is meant has a word."""
        if isinstance(body, dict) and "quiet_hours" in body and body["quiet_hours"] is None:
            return {**body, "quiet_hours": "off"}
        return body


class HeartbeatState(BaseModel):
    """An agent's heartbeat: how it is configured, and when it beat last and beats next."""

    agent_id: str
    config: HeartbeatConfig
    last_tick_at: datetime | None = None
    next_tick_at: datetime | None = None
    quiet_now: bool = False
    open_alerts: int = 0


class AlertState(BaseModel):
    """One alert."""

    id: UUID
    agent_id: str
    title: str
    content: str
    urgency: Urgency
    source: str
    channel: Channel = Field(description="Who shows it: the admin (`ui`), the user's `desktop`, or all.")
    target_type: TargetType | None = Field(
        None, description="What a schedule's alert starts; None: it only reminds."
    )
    target_id: str | None = None
    timestamp: datetime
    deliver_at: datetime
    delivered_at: datetime | None
    acknowledged_at: datetime | None


class TickState(BaseModel):
    """What one tick found, and the alerts that it made."""

    due_at: datetime
    ran_at: datetime
    status: Literal["ok", "alert"]
    quiet: bool
    checks: dict[str, Any]
    alerts: list[AlertState] = []


class ListAlerts(Paged):
    """Alerts that are open, or ``everything``; of one agent, or of all."""

    agent_id: Name | None = None
    everything: bool = False
    channel: Channel | None = Field(None, description="Those of this channel, and those for all.")


class Health(BaseModel):
    """Memory, heartbeat and growth of a group, or of one agent, at one moment."""

    at: datetime
    memory: dict[str, Any]
    heartbeat: dict[str, Any]
    growth: dict[str, Any]


class HealthRequest(Request):
    agent_id: Name | None = None
