"""When a schedule runs next, in its time zone.

A time that a clock change skips is kept at the first moment after it; one that comes twice is kept once, the first time.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from itertools import islice
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError


@lru_cache(maxsize=1_024)
def zone_of(name: str) -> ZoneInfo:
    """The time zone of an IANA name, such as ``Asia/Shanghai``.

    Raises:
        ValueError: there is none of that name.
    """
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ValueError(f"no time zone {name[:100]!r}; use a name such as Asia/Shanghai or Europe/Berlin") from error


def local(day: date, clock: time, zone: ZoneInfo) -> datetime:
    """A local time; one that does not exist becomes the moment that many minutes after the change."""
    return datetime.combine(day, clock, zone).astimezone(UTC).astimezone(zone)


def check_cron(cron: str) -> None:
    """Raises ValueError if it is no cron expression of five fields, or one that never comes."""
    if len(cron.split()) != 5:
        raise ValueError("cron: needs five fields: minute, hour, day of month, month, day of week")
    try:
        next(CronSim(cron, datetime(2026, 1, 1, tzinfo=UTC)))
    except (CronSimError, StopIteration) as error:
        raise ValueError(f"cron: {error or 'never comes'}") from error


def runs(cron: str, tz: str, after: datetime) -> Iterator[datetime]:
    """Times of a cron expression after a moment, in UTC, each once.

    Raises:
        ValueError: a wrong expression or time zone.
    """
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


def next_run(*, kind: str, cron: str | None, at: datetime | None, every_seconds: int | None, tz: str, after: datetime) -> datetime | None:
    """The first time after a moment, in UTC; None if there is none any more."""
    return next(next_runs(kind=kind, cron=cron, at=at, every_seconds=every_seconds, tz=tz, after=after, count=1), None)


def next_runs(
    *, kind: str, cron: str | None, at: datetime | None, every_seconds: int | None, tz: str, after: datetime, count: int
) -> Iterator[datetime]:
    """The next times, at most so many."""
    if kind == "cron":
        yield from islice(runs(cron or "", tz, after), count)
    elif at is not None and kind == "once":
        if at > after:
            yield at.astimezone(UTC)
    elif at is not None and every_seconds:
        yield from (moment for _, moment in zip(range(count), _steps(at, every_seconds, tz, after), strict=False))


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
        moment = local(begun.date() + timedelta(days=passed * days), begun.time().replace(tzinfo=None), zone).astimezone(UTC)
        if moment > after:
            yield moment
        passed += 1
