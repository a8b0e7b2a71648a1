"""What the words of a time mean at a moment: a cron expression, one moment, or steps.

All time expressions of a sentence, and which of them belong to the request.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

from engine.times.clocks import DEFAULT_HOUR, Beside, Clock, Day, Impossible, add_months, find_clocks, within
from engine.times.days import find_days, within_whole
from engine.times.lunar import EACH_YEAR
from engine.times.recurring import Every, Lead, Offset, days_of_week, find_offsets, find_recurrences
from jiyi.protocol.appointments import ScheduleKind, local

MINUTE, HOUR, DAY, WEEK = 60, 3_600, 86_400, 604_800
#: A reading that is asked back is worth so much.
SURE, UNSURE = 0.95, 0.6


@dataclass(frozen=True, slots=True)
class TimeReading:
    kind: ScheduleKind
    cron: str | None = None
    at: datetime | None = None
    every_seconds: int | None = None


@dataclass(frozen=True, slots=True)
class Read:
    """The readings of a time, the likeliest first; or why there is none."""

    readings: tuple[TimeReading, ...] = ()
    certain: bool = False
    reason: str = ""
    #: Its time has passed.
    over: bool = False


def read(
    elements: list[Element],
    span: tuple[Clock, Clock] | None,
    left_out: set[int],
    now: datetime,
    zone: ZoneInfo,
) -> Read:
    """What the words of one time mean; ``now`` in the time zone."""
    every = _merged([element for element in elements if isinstance(element, Every)])
    clocks = [element for element in elements if isinstance(element, Clock)]
    days = [element for element in elements if isinstance(element, Day)]
    whole = next((element for element in days if element.whole), None)
    day = next((element for element in days if not element.whole), None)
    day = whole if day is None else within_whole(whole, day) if whole is not None else day
    offset = next((element for element in elements if isinstance(element, Offset)), None)
    lead = next((element for element in elements if isinstance(element, Lead)), None)
    if every is not None and day is not None and day.lunar:
        return Read(reason=EACH_YEAR)
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
        name: next((getattr(every, name) for every in recurrences if getattr(every, name) != "*"), "*")
        for name in ("dom", "month", "dow")
    }
    seconds = next((every.seconds for every in recurrences if every.seconds), None)
    minute = next((every.minute for every in recurrences if every.minute), 0)
    is_fixed = any(value != "*" for value in fields.values()) or (
        len(recurrences) > 1 and seconds is not None
    )
    if seconds is not None and seconds % WEEK == 0 and len(recurrences) > 1:
        is_fixed = fields["dow"] != "*"
    is_open = next((every.open for every in recurrences if every.open), None)
    is_open = None if is_fixed and first.dom == "*" else is_open
    return Every(first.start, first.end, seconds=seconds, minute=minute, open=is_open, **fields)


def _again(
    every: Every,
    clocks: list[Clock],
    span: tuple[Clock, Clock] | None,
    day: Day | None,
    left_out: set[int],
    now: datetime,
    zone: ZoneInfo,
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
        weekdays = (set(range(7)) if dow == "*" else _numbers(dow)) - left_out
        if not weekdays:
            return Read(reason="no day is left")
        dow = days_of_week(weekdays)
    seconds = 2 * WEEK if every.open == "fortnight" else every.seconds
    if seconds is not None and seconds >= DAY:
        return _steps(seconds, dow, clocks, day, now, zone)
    if seconds is not None:
        return _within_days(seconds, every.minute, clocks, span, f"{dom} {month} {dow}", now)
    return _on_days(clocks, dom, month, dow)


def _on_days(clocks: list[Clock], dom: str, month: str, dow: str) -> Read:
    """At times of day."""
    if not clocks:
        return Read((TimeReading("cron", f"0 {DEFAULT_HOUR} {dom} {month} {dow}"),), certain=False)
    if len({clock.minute for clock in clocks}) > 1:
        return Read(reason="times with different minutes are schedules of their own")
    minute, certain = clocks[0].minute, all(clock.certain for clock in clocks)
    if len(clocks) > 1:
        hours = ",".join(map(str, sorted({clock.hours[0] for clock in clocks})))
        return Read((TimeReading("cron", f"{minute} {hours} {dom} {month} {dow}"),), certain)
    clock = clocks[0]
    if clock.next_day and clock.hours[0] < DEFAULT_HOUR and re.fullmatch(r"[\d,-]+", dow):
        dow = ",".join(str((number + 1) % 7) for number in sorted(_numbers(dow)))
    crons = (f"{minute} {hour} {dom} {month} {dow}" for hour in clock.hours)
    return Read(tuple(TimeReading("cron", cron) for cron in crons), certain)


def _every(values: str, step: int) -> str:
    """A field of cron that has each of the values that is so many steps from the first."""
    return values if step == 1 else f"{values}/{step}"


def _within_days(
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
        return Read((TimeReading("cron", f"{minute} {_every(hours, seconds // HOUR)} {days}"),), certain)
    if seconds % MINUTE == 0 and HOUR % seconds == 0:
        return Read((TimeReading("cron", f"{_every('*', seconds // MINUTE)} {hours} {days}"),), certain)
    if hours != "*" or days != "* * *":
        return Read(
            reason="such a step does not fit into days; leave them out, or take a part of an hour or a day"
        )
    return Read((TimeReading("interval", None, now + timedelta(seconds=seconds), seconds),), certain=True)


def _steps(
    seconds: int, dow: str, clocks: list[Clock], day: Day | None, now: datetime, zone: ZoneInfo
) -> Read:
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
    return Read((TimeReading("interval", None, at, seconds),), certain=clock is not None and clock.certain)


def _from_now(offset: Offset, clocks: list[Clock], now: datetime, zone: ZoneInfo) -> Read:
    if not offset.in_days:
        return Read((_moment((now + offset.by).astimezone(zone)),), certain=True)
    day = add_months(now.date(), offset.months) + timedelta(days=offset.by.days)
    if not clocks:
        return Read((_moment(local(day, now.time(), zone)),), certain=False)
    moments = (local(day, time(hour, clocks[0].minute), zone) for hour in clocks[0].hours)
    return Read(tuple(_moment(moment) for moment in moments), clocks[0].certain)


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
    certain = clock.certain and len(clocks) == 1 and (day is None or day.certain)
    return Read(tuple(found_moments), certain)


def _any_time(dates: Sequence[date], now: datetime, zone: ZoneInfo) -> Read:
    """A day without a time: in the morning, or later today."""
    for day in dates:
        moment = local(day, time(DEFAULT_HOUR), zone)
        if day == now.date() and moment <= now:
            moment = (now + timedelta(hours=1)).replace(minute=0, second=0, microsecond=0)
        if moment > now and moment.date() == day:
            return Read((_moment(moment),), certain=False)
    return Read(reason="that day has passed", over=True)


def _moment(at: datetime) -> TimeReading:
    return TimeReading("once", f"{at.minute} {at.hour} {at.day} {at.month} *", at)


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


Element = Clock | Beside | Day | Every | Offset | Lead | Impossible
#: What may stand between two words of one time.
_BETWEEN = re.compile(
    r"[\s,、的]{0,3}(?:在|于|到|至|和|跟|或|都|就|那天|当天|开始|起|之间|期间"
    r"|at|on|of|the|in|from|by|and|for|to|until|till|between|through|both|starting|beginning|around|about"
    r"|@|-|–|~|—|&|:)?[\s,的]{0,3}(?:at|on|the|from|in|around|about|between)?[\s,]{0,2}",
    re.IGNORECASE,
)
#: An end of what comes again: what stands behind it is no day of it.
_UNTIL = re.compile(r"(?:直到|截止到?|为止)|\b(?:until|till|through|up to)\b", re.IGNORECASE)
_TO = re.compile(r"\A[\s]{0,2}(?:到|至|-|–|~|—|to|until|till|and|through)[\s]{0,2}\Z", re.IGNORECASE)


def find_elements(sentence: str, now: datetime) -> list[Element]:
    """From left to right; of those that overlap the longest."""
    candidates: list[Element] = [
        *find_recurrences(sentence),
        *find_days(sentence, now.date()),
        *find_offsets(sentence),
        *find_clocks(sentence, now.hour, now.minute),
    ]
    elements: list[Element] = []
    for element in sorted(candidates, key=lambda element: element.start - element.end):
        # 今 and "every" may be no words of their own: two may begin at one place.
        if not any(element.start < other.end and other.start < element.end for other in elements):
            elements.append(element)
    return _with_parts(sorted(elements, key=lambda element: (element.start, element.end)))


def groups(sentence: str, elements: list[Element]) -> list[list[Element]]:
    """Adjacent words that give one time."""
    grouped: list[list[Element]] = []
    for element in elements:
        if grouped and _BETWEEN.fullmatch(sentence, grouped[-1][-1].end, element.start):
            grouped[-1].append(element)
        else:
            grouped.append([element])
    return grouped


def choose_elements(sentence: str, elements: list[Element], start: int, end: int) -> list[Element]:
    """The time beside what asks for it, and what it leaves open from the others."""
    grouped = groups(sentence, elements)
    if len(grouped) <= 1:
        return elements
    best = min(grouped, key=lambda group: _distance(sentence, group, start, end))
    if len(best) == 1 and isinstance(best[0], Lead):
        return elements
    chosen = list(best)
    has_day = any(isinstance(element, Day | Every | Offset) for element in best)
    has_clock = any(
        isinstance(one, Clock | Offset) or (isinstance(one, Every) and one.seconds) for one in best
    )
    for group in [group for group in grouped if group is not best]:
        its_day = [element for element in group if isinstance(element, Day | Every)]
        if not has_day and its_day and not any(isinstance(element, Lead) for element in group):
            chosen += its_day
            has_day = True
        elif not has_clock and not its_day and any(isinstance(element, Clock) for element in group):
            chosen += group
            has_clock = True
        elif any(isinstance(element, Every) and element.open for element in best) or (
            any(isinstance(element, Every) for element in group)
            and not any(isinstance(element, Every | Offset | Day) for element in best)
        ):
            chosen += group
    return sorted(chosen, key=lambda element: (element.start, element.end))


def window(sentence: str, elements: list[Element]) -> tuple[Clock, Clock] | None:
    """The first and last time of day of "from 9 to 5"."""
    clocks = [element for element in elements if isinstance(element, Clock)]
    for first, last in pairwise(clocks):
        if _TO.match(sentence[first.end : last.start]):
            return first, last
    return None


#: Why "between 7 and 9" is asked back.
BETWEEN_TWO = "which time between the two?"
_BETWEEN_BEFORE = re.compile(r"\bbetween\s?\Z", re.IGNORECASE)
_BETWEEN_BEHIND = re.compile(r"\s?(?:之间|之内|期间|间(?!隔))")
_AND = re.compile(r"\s{0,2}and\s{0,2}", re.IGNORECASE)


def open_range(sentence: str, elements: Sequence[Element]) -> Impossible | None:
    """Two times between which one is meant: 7点到9点之间, "every day from 7 to 9"; steps have none."""
    span = window(sentence, list(elements))
    if span is None or any(isinstance(element, Every) and element.seconds for element in elements):
        return None
    first, last = span
    between = _BETWEEN_BEHIND.match(sentence, last.end) or _BETWEEN_BEFORE.search(sentence[: first.start])
    if not between and (
        not any(isinstance(element, Every) for element in elements)
        or _AND.fullmatch(sentence, first.end, last.start)
    ):
        return None
    return Impossible(first.start, last.end, BETWEEN_TWO)


def without_end(sentence: str, elements: list[Element]) -> list[Element]:
    """Without the days, or the time of day, on which something that comes again ends."""
    match = _UNTIL.search(sentence)
    if match is None:
        return elements
    steps = window(sentence, elements) is None and any(isinstance(element, Every) for element in elements)
    ends = (Day, Clock) if steps else (Day,)
    return [one for one in elements if not (isinstance(one, ends) and one.start >= match.start())]


def _distance(sentence: str, group: list[Element], start: int, end: int) -> tuple[int, int]:
    """Beside what asks, then in the same clause, the nearest first; those of a task come last."""
    first, last = group[0].start, group[-1].end
    gap = sentence[last:start] if last <= start else sentence[end:first]
    near = max(0, start - last, first - end)
    about = re.search(r"\b(?:about|for|of|before) (?:the|my|our|a)? ?\Z", sentence[:first], re.IGNORECASE)
    return (3 if about else 0) + (2 if re.search(r"[,，;]", gap) else 0) + (0 if near <= 4 else 1), near


def _with_parts(elements: list[Element]) -> list[Element]:
    """Parts of the day that stand beside a time are part of it: "tomorrow evening at 8", 明早8点."""
    stated = [element for element in elements if isinstance(element, Clock) and element.stated is not None]
    parts = [one for one in elements if isinstance(one, Clock) and one.stated is None and one.part]
    if not stated or not parts:
        return _inherited(elements)
    result: list[Element] = []
    for element in elements:
        if element in parts and (element.part not in ("noon", "midnight") or len(stated) == 1):
            result.append(Beside(element.start, element.end))
        elif isinstance(element, Clock) and element.stated is not None:
            part = next((part.part for part in reversed(parts) if part.start < element.start), parts[0].part)
            result.append(within(element, part) if part is not None else element)
        else:
            result.append(element)
    return result


def _inherited(elements: list[Element]) -> list[Element]:
    """下午3点和5点: the second is of the same part of the day."""
    result: list[Element] = []
    part = None
    for element in elements:
        changed: Element = element
        if isinstance(element, Clock) and element.stated is not None:
            if element.part is None and part is not None:
                changed = within(element, part)
            part = changed.part if isinstance(changed, Clock) else None
        result.append(changed)
    return result
