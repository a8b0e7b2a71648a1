"""When an agent's new turns are looked through: the first ones at once, what follows together, nothing twice."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from jiyi.settings import Settings

#: New turns of a conversation; fewer wait for more, or for the session's end.
EXTRACT_MIN_MESSAGES = 4
#: New turns that one extraction looks through at most.
EXTRACT_MAX_MESSAGES = 60


@dataclass(frozen=True, slots=True)
class Waiting:
    """An agent's turns that were not looked through yet: how many, and since when the first of them waits."""

    count: int
    since: datetime | None
    last_run: datetime | None = None
    #: Nothing more is to be expected: the session has ended.
    ended: bool = False


def due_at(waiting: Waiting, now: datetime, settings: Settings) -> datetime | None:
    """When the turns are to be looked through; None if there are none.

    Enough turns: at once, or when the last run's window ends. Fewer: with what follows, at the end of the session, or
    after ``JIYI_EXTRACT_WAIT_SECONDS``.
    """
    if not waiting.count or waiting.since is None:
        return None
    if waiting.ended:
        return now
    # A time that is still to come was noted while a clock was wrong.
    window_ends = now if waiting.last_run is None else min(waiting.last_run, now) + timedelta(seconds=settings.extract_window_seconds)
    if waiting.count >= EXTRACT_MIN_MESSAGES:
        return max(now, window_ends)
    return max(now, window_ends, min(waiting.since, now) + timedelta(seconds=settings.extract_wait_seconds))
