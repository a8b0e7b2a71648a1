"""What the words of a time mean at a moment: a cron expression, one moment, or steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from engine.times.clocks import DEFAULT_HOUR, Clock
from engine.times.days import Day, within_whole
from engine.times.elements import Element
from engine.times.lexicon import add_months
from engine.times.offsets import Lead, Offset
from engine.times.recurring import Every
from jiyi.protocol.appointments import ScheduleKind, local

MINUTE, HOUR, DAY, WEEK = 60, 3_600, 86_400, 604_800
#: A reading that is asked back is worth so much.
SURE, UNSURE = 0.95, 0.6


@dataclass(frozen=True, slots=True)
class Reading:
    kind: ScheduleKind
    cron: str | None = None
    at: datetime | None = None
    every_seconds: int | None = None


@dataclass(frozen=True, slots=True)
class Read:
    """The readings of a time, the likeliest first; or why there is none."""

    readings: tuple[Reading, ...] = ()
    certain: bool = False
    reason: str = ""
    #: Its time has passed.
    over: bool = False


def read(elements: list[Element], span: tuple[Clock, Clock] | None, left_out: set[int], now: datetime, zone: ZoneInfo) -> Read:
    """What the words of one time mean; ``now`` in the time zone."""
    every = _merged([element for element in elements if isinstance(element, Every)])
    clocks = [element for element in elements if isinstance(element, Clock)]
    named = [element for element in elements if isinstance(element, Day)]
    whole = next((element for element in named if element.whole), None)
    day = next((element for element in named if not element.whole), None)
    day = whole if day is None else within_whole(whole, day) if whole is not None else day
    offset = next((element for element in elements if isinstance(element, Offset)), None)
    lead = next((element for element in elements if isinstance(element, Lead)), None)
    if every is not None:
        return _again(every, clocks, span, day, left_out, now, zone)
    if lead is not None and not any((clocks, day, offset)):
        return Read(reason="before what? It needs the time of that")
    if offset is not None:
        return _from_now(offset, clocks, now, zone)
    if day is None and not clocks:
        return Read(reason="no time")
    return _once(day, clocks, lead.by if lead else timedelta(), now, zone)


def _merged(recurrences: list[Every]) -> Every | None:
    """Several as one: every hour, on weekdays."""
    if not recurrences:
        return None
    first = recurrences[0]
    fields = {
        name: next((getattr(every, name) for every in recurrences if getattr(every, name) != "*"), "*") for name in ("dom", "month", "dow")
    }
    seconds = next((every.seconds for every in recurrences if every.seconds), None)
    minute = next((every.minute for every in recurrences if every.minute), 0)
    told = any(value != "*" for value in fields.values()) or (len(recurrences) > 1 and seconds is not None)
    if seconds is not None and seconds % WEEK == 0 and len(recurrences) > 1:
        told = fields["dow"] != "*"
    is_open = None if told and first.dom == "*" else next((every.open for every in recurrences if every.open), None)
    return Every(first.start, first.end, seconds=seconds, minute=minute, open=is_open, **fields)


def _again(
    every: Every, clocks: list[Clock], span: tuple[Clock, Clock] | None, day: Day | None, left_out: set[int], now: datetime, zone: ZoneInfo
) -> Read:
    dom, month, dow = every.dom, every.month, every.dow
    if every.open:
        if day is None or day.whole:
            return Read(reason=f"which day of the {every.open}?")
        first_day = day.dates[0]
        match every.open:
            case "week" | "fortnight" | "weekly":
                dow = str(first_day.isoweekday() % 7)
            case "month" | "monthly" | "months":
                dom = str(first_day.day)
            case "year" | "yearly" | "annually":
                dom, month = str(first_day.day), str(first_day.month)
            case _:
                return Read(reason=f"which day of the {every.open}?")
    if left_out:
        dow = ",".join(str(number) for number in range(7) if number not in left_out and (dow == "*" or number in _numbers(dow)))
        dow = {"1,2,3,4,5": "1-5"}.get(dow, dow)
        if not dow:
            return Read(reason="no day is left")
    seconds = 2 * WEEK if every.open == "fortnight" else every.seconds
    if seconds is not None and seconds >= DAY:
        return _steps(seconds, dow, clocks, day, now, zone)
    if seconds is not None:
        return _within_days(seconds, every.minute, clocks, span, f"{dom} {month} {dow}", now)
    return _on_days(clocks, dom, month, dow)


def _on_days(clocks: list[Clock], dom: str, month: str, dow: str) -> Read:
    """At times of day."""
    if not clocks:
        return Read((Reading("cron", f"0 {DEFAULT_HOUR} {dom} {month} {dow}"),), certain=False)
    if len({clock.minute for clock in clocks}) > 1:
        return Read(reason="times with different minutes are schedules of their own")
    minute, certain = clocks[0].minute, all(clock.certain for clock in clocks)
    if len(clocks) > 1:
        hours = ",".join(map(str, sorted({clock.hours[0] for clock in clocks})))
        return Read((Reading("cron", f"{minute} {hours} {dom} {month} {dow}"),), certain)
    clock = clocks[0]
    if clock.next_day and clock.hours[0] < DEFAULT_HOUR and dow[0].isdecimal() and "#" not in dow and "L" not in dow:
        dow = ",".join(str((number + 1) % 7) for number in sorted(_numbers(dow)))
    return Read(tuple(Reading("cron", f"{minute} {hour} {dom} {month} {dow}") for hour in clock.hours), certain)


def _within_days(  # noqa: PLR0911
    seconds: int, minute: int, clocks: list[Clock], span: tuple[Clock, Clock] | None, days: str, now: datetime
) -> Read:
    """Steps of hours and minutes, perhaps between two times of day."""
    hours, certain = "*", True
    if span is not None:
        first, last = span[0].hours[0], span[1].hours[0]
        if last <= first and len(span[1].hours) > 1:
            last = span[1].hours[1]
        if first > last:
            return Read(reason="the first time is after the last")
        hours, certain = f"{first}-{last}", span[0].certain and span[1].certain
        # From nine to five is said of a day at work: neither is worth asking back.
        certain = certain or (first < last and span[0].hours[0] == first)
    elif clocks:
        hours, certain = f"{clocks[0].hours[0]}-23", clocks[0].certain
    if seconds < MINUTE:
        return Read(reason="once a minute is the most often")
    if seconds % HOUR == 0 and (DAY % seconds == 0 or span or clocks):
        step = seconds // HOUR
        if hours == "*":
            return Read((Reading("cron", f"{minute} {'*' if step == 1 else f'*/{step}'} {days}"),), certain)
        return Read((Reading("cron", f"{minute} {hours}{'' if step == 1 else f'/{step}'} {days}"),), certain)
    if seconds % MINUTE == 0 and HOUR % seconds == 0:
        step = seconds // MINUTE
        return Read((Reading("cron", f"{'*' if step == 1 else f'*/{step}'} {hours} {days}"),), certain)
    if hours != "*" or days != "* * *":
        return Read(reason="such a step does not fit into days; leave the days out, or choose a step that divides an hour or a day")
    return Read((Reading("interval", None, now + timedelta(seconds=seconds), seconds),), certain=True)


def _steps(seconds: int, dow: str, clocks: list[Clock], day: Day | None, now: datetime, zone: ZoneInfo) -> Read:
    """Steps of days and weeks, from the first time on."""
    clock = clocks[0] if clocks else None
    start = day.dates[0] if day else now.date()
    if dow != "*":
        weekday = (min(_numbers(dow)) - 1) % 7
        start += timedelta(days=(weekday - start.weekday()) % 7)
    elif seconds % WEEK == 0 and day is None:
        return Read(reason="which day of the week?")
    at = now + timedelta(seconds=seconds)
    if clock is not None or dow != "*" or day is not None:
        at = local(start, time(clock.hours[0] if clock else DEFAULT_HOUR, clock.minute if clock else 0), zone)
        if at <= now:
            at = local(start + timedelta(days=7 if dow != "*" else 1), at.time(), zone)
    return Read((Reading("interval", None, at, seconds),), certain=clock is not None and clock.certain)


def _from_now(offset: Offset, clocks: list[Clock], now: datetime, zone: ZoneInfo) -> Read:
    if not offset.in_days:
        return Read((_moment((now + offset.by).astimezone(zone)),), certain=offset.certain)
    day = add_months(now.date(), offset.months) + timedelta(days=offset.by.days)
    if not clocks:
        return Read((_moment(local(day, now.time(), zone)),), certain=False)
    return Read(tuple(_moment(local(day, time(hour, clocks[0].minute), zone)) for hour in clocks[0].hours), clocks[0].certain)


def _once(day: Day | None, clocks: list[Clock], before: timedelta, now: datetime, zone: ZoneInfo) -> Read:
    if day is not None and day.whole:
        return Read(reason="which day?")
    today = now.date()
    dates = day.dates if day is not None else (today, today + timedelta(days=1))
    if not clocks:
        return _any_time([each - before for each in dates], now, zone)
    clock = clocks[0]
    # The midnight of today is the one that comes.
    midnight = clock.part == "midnight" or (clock.stated == 0 and clock.part is None)
    shift = timedelta(days=1 if clock.next_day or (midnight and (day is None or day.today)) else 0)
    if clock.part == "dawn" and day is not None and day.today and clock.hours[0] <= now.hour:
        shift = timedelta(days=1)
    found_moments = []
    for hour in clock.hours:
        moments = (local(each + shift, time(hour, clock.minute), zone) - before for each in dates)
        moment = next((later for later in moments if later > now), None)
        if moment is not None:
            found_moments.append(_moment(moment.astimezone(zone)))
    if not found_moments:
        return Read(reason="that time has passed", over=True)
    return Read(tuple(found_moments), certain=clock.certain and len(clocks) == 1 and (day is None or day.certain))


def _any_time(dates: Sequence[date], now: datetime, zone: ZoneInfo) -> Read:
    """A day without a time: in the morning, or later today."""
    for day in dates:
        moment = local(day, time(DEFAULT_HOUR), zone)
        if day == now.date() and moment <= now:
            moment = (now + timedelta(hours=1)).replace(minute=0, second=0, microsecond=0)
        if moment > now and moment.date() == day:
            return Read((_moment(moment),), certain=False)
    return Read(reason="that day has passed", over=True)


def _moment(at: datetime) -> Reading:
    return Reading("once", f"{at.minute} {at.hour} {at.day} {at.month} *", at)


def _numbers(dow: str) -> set[int]:
    """The weekdays of a cron field; those of a "third Friday" without their place."""
    numbers: set[int] = set()
    for part in dow.split(","):
        first, _, last = part.partition("-")
        if last:
            numbers |= set(range(int(first), int(last) + 1))
        else:
            numbers.add(int(first[0]))
    return numbers
