"""Which run of a schedule is due, and when the next one is.

A schedule runs once for each time it was due. What was missed while nothing ran is made good by one run, marked as missed, if
the last time was within a day; older times are only noted.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from jiyi.protocol.growth.cron import next_run

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
