"""A time in words as what it means, when a schedule runs, and which of its runs is due.

A schedule runs once for each time it was due. What was missed while nothing ran is made good by one run, marked as missed, if
the last time was within a day; older times are only noted.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from jiyi.protocol.appointments import ScheduleKind, next_run

Target = Literal["reminder", "agent", "workflow"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedSchedule:
    """When something is to be done, and what."""

    kind: ScheduleKind
    #: Five fields in local time, Sunday 0. Of a schedule that runs once it is what one shows: cron has no year.
    cron: str | None = None
    #: Of ``once`` when, of ``interval`` the first time; with the time zone's offset.
    at: datetime | None = None
    #: Seconds between two runs of an interval that cron cannot say.
    every_seconds: int | None = None
    #: Name of the time zone (IANA).
    tz: str
    #: The words that say when.
    description: str
    #: 0 to 1.
    confidence: float
    #: What is to be done: the text without the words that say when and ask for it.
    task: str
    #: A reminder, something that the agent is to do, or a workflow.
    target: Target = "reminder"


@dataclass(frozen=True, slots=True)
class Exact:
    schedule: ParsedSchedule


@dataclass(frozen=True, slots=True)
class Ambiguous:
    """More than one reading, the likeliest first."""

    schedules: tuple[ParsedSchedule, ...]


@dataclass(frozen=True, slots=True)
class Unclear:
    """No time that can be kept. ``asked``: somebody did ask for one, so it is worth asking back."""

    reason: str
    asked: bool = False


Parsed = Exact | Ambiguous | Unclear


#: A run that comes later than this was missed; until then a busy worker is excuse enough.
ON_TIME = timedelta(minutes=5)
#: Times that passed longer ago are not made good.
MAKE_GOOD = timedelta(hours=24)


@dataclass(frozen=True, slots=True)
class Timing:
    """When a schedule runs."""

    kind: str
    cron: str | None
    at: datetime | None
    every_seconds: int | None
    tz: str

    def after(self, moment: datetime) -> datetime | None:
        return next_run(kind=self.kind, cron=self.cron, at=self.at, every_seconds=self.every_seconds, tz=self.tz, after=moment)


@dataclass(frozen=True, slots=True)
class Firing:
    """A run: the time it was due, whether it was missed, whether it is too late to be made good, and the next one."""

    due_at: datetime
    missed: bool
    skipped: bool
    next_run_at: datetime | None


def firing(timing: Timing, due_at: datetime, now: datetime) -> Firing | None:
    """The run of a schedule that was due at a time; None if that is still to come, as after a clock was put back."""
    if due_at > now:
        return None
    following = None if timing.kind == "once" else timing.after(now)
    late = now - due_at
    if late <= MAKE_GOOD:
        return Firing(due_at, late > ON_TIME, skipped=False, next_run_at=following)
    recent = timing.after(now - MAKE_GOOD - timedelta(seconds=1))
    if recent is not None and recent <= now:
        return Firing(recent, missed=now - recent > ON_TIME, skipped=False, next_run_at=following)
    return Firing(due_at, missed=True, skipped=True, next_run_at=following)
