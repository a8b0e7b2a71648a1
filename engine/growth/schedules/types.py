"""A time in words, as what it means: exact, ambiguous or unclear."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

Kind = Literal["cron", "once", "interval"]
Target = Literal["reminder", "agent", "workflow"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedSchedule:
    """When something is to be done, and what."""

    kind: Kind
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
