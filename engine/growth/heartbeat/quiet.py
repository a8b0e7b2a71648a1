"""Quiet hours: when alerts wait, and until when."""

from __future__ import annotations

from datetime import datetime, time, timedelta
from zoneinfo import ZoneInfo

from jiyi.protocol.growth.cron import local

#: First and last minute, in the agent's time zone.
QuietHours = tuple[time, time]


def is_quiet(now: datetime, quiet: QuietHours | None, zone: ZoneInfo) -> bool:
    """Whether a moment is within quiet hours, which may cross midnight; the last minute is outside."""
    if quiet is None:
        return False
    start, end = quiet
    clock = now.astimezone(zone).time().replace(tzinfo=None)
    return start <= clock < end if start < end else clock >= start or clock < end


def loud_from(now: datetime, quiet: QuietHours | None, zone: ZoneInfo) -> datetime:
    """The first moment from now on that is outside of quiet hours."""
    if quiet is None or not is_quiet(now, quiet, zone):
        return now
    today = now.astimezone(zone).date()
    moments = [local(today + timedelta(days=days), quiet[1], zone) for days in (0, 1)]
    return next(moment for moment in moments if moment > now)
