"""The new time of an appointment that is moved: "move the dentist from 3 to 5", 牙医改到周五, "push it back an hour", 提前半小时."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise

from engine.growth.schedules import readings
from engine.growth.schedules.clocks import Clock, Impossible, of_waking
from engine.growth.schedules.days import Day
from engine.growth.schedules.elements import Element, elements, groups
from engine.growth.schedules.firing import Timing
from engine.growth.schedules.offsets import Lead, Offset, Shift, shift_of
from engine.growth.schedules.recurring import Every
from engine.growth.schedules.requests import TIME, blanked, is_waking
from engine.growth.schedules.types import Unclear
from jiyi.protocol.growth.cron import zone_of

#: What stands before the time that it had, and before the one that it gets.
_OLD = re.compile(
    r"(?:\b(?:from|instead of|rather than|not(?: at| on)?)|从|不是|别|不要|原来的?|原定的?|本来)\s?(?:the |my |at |on )?\Z", re.IGNORECASE
)
_NEW = re.compile(r"(?:\b(?:to|till|until|for|make it|make that)|[到成至为去在]|改)\s?(?:the |at |on |be )?\Z", re.IGNORECASE)

_TO = re.compile(r"\W{0,3}(?:\b(?:to|till|until)\b|[改换挪移调]?[到成至为])\W{0,3}(?:the |at |on )?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Named:
    """The times of a message that moves something: those it had, those it gets, or how far it is shifted; ``words`` say the new one."""

    old: tuple[Element, ...]
    new: tuple[Element, ...]
    shift: Shift | None
    words: str
    #: The message without its times.
    rest: str


def named(text: str, now: datetime) -> Named:
    """What a message, as :func:`engine.growth.schedules.parse.readable` gives it, says of both times."""
    shift = shift_of(text)
    found = [one for one in elements(text, now) if shift is None or one.end <= shift.start or one.start >= shift.end]
    old: list[list[Element]] = []
    new: list[list[Element]] = []
    open_: list[list[Element]] = []
    for group in _split(text, found):
        before = text[: group[0].start]
        (old if _OLD.search(before) else new if _NEW.search(before) else open_).append(group)
    if shift is not None:
        old, new = [*old, *open_, *new], []
    elif new:
        old += open_
    else:  # "reschedule the dentist, Friday is better": the last time is the new one
        old, new = [*old, *open_[:-1]], open_[-1:]
    fresh = [one for group in new for one in group]
    if is_waking(text):
        fresh = [of_waking(one) if isinstance(one, Clock) else one for one in fresh]
    words = [text[one.start : one.end].strip() for one in fresh]
    spans = [(one.start, one.end) for one in found] + ([(shift.start, shift.end)] if shift is not None else [])
    joint = "" if any("\u4e00" <= char <= "\u9fff" for char in "".join(words)) else " "
    return Named(
        tuple(one for group in old for one in group),
        tuple(fresh),
        shift,
        joint.join(filter(None, words)),
        blanked(text, spans).replace(TIME, " "),
    )


def _split(text: str, found: list[Element]) -> list[list[Element]]:
    """Words of times that stand together; "3 to 5" are two times."""
    made: list[list[Element]] = []
    for group in groups(text, [one for one in found if one.end > one.start]):
        made.append(group[:1])
        for before, one in pairwise(group):
            if _TO.fullmatch(text, before.end, one.start):
                made.append([one])
            else:
                made[-1].append(one)
    return made


def moved(timing: Timing, to: Named, now: datetime) -> Timing | Unclear:
    """The new timing of an appointment; :class:`Unclear` with the reason if it cannot be told. ``now`` is in its time zone."""
    last = timing.after(now)
    if last is None:
        return Unclear("that time has passed", asked=True)
    its = last.astimezone(zone_of(timing.tz))
    impossible = next((one for one in to.new if isinstance(one, Impossible)), None)
    if impossible is not None:
        return Unclear(impossible.reason, asked=True)
    if to.shift is not None:
        return _shifted(timing, its, to.shift.by, now)
    if not to.new:
        return Unclear("it does not say when", asked=True)
    if timing.kind == "once" or any(isinstance(one, Every) for one in to.new):
        return _read(timing, its, to.new, now)
    return _again(timing, to.new)


def _read(timing: Timing, its: datetime, new: Sequence[Element], now: datetime) -> Timing | Unclear:
    """A time by the grammar; what it leaves open, the day or the hour, stays as it was."""
    used = list(new)
    if not any(isinstance(one, Day | Offset | Every | Lead) for one in used):
        used.append(Day(0, 0, (its.date(),)))
    if not any(isinstance(one, Clock) or (isinstance(one, Offset) and not one.in_days) for one in used):
        used.append(Clock(0, 0, (its.hour,), its.minute, said=its.hour))
    meant = readings.read(used, None, set(), now, zone_of(timing.tz))
    if not meant.readings:
        return Unclear(meant.reason, asked=True)
    first = meant.readings[0]
    return Timing(first.kind, first.cron, first.at, first.every_seconds, timing.tz)


def _shifted(timing: Timing, its: datetime, by: timedelta, now: datetime) -> Timing | Unclear:
    to = its + by
    if timing.kind == "once":
        return _once(timing, to) if to > now else Unclear("that time has passed", asked=True)
    fields = (timing.cron or "").split()
    if timing.kind != "cron" or not (fields[0].isdecimal() and fields[1].isdecimal()) or to.date() != its.date():
        return Unclear(_ONE_OF_MANY, asked=True)
    return _cron(timing, [str(to.minute), str(to.hour), *fields[2:]])


def _again(timing: Timing, new: Sequence[Element]) -> Timing | Unclear:
    """What comes again, at another time of day or on another day of the week or month."""
    fields = (timing.cron or "").split()
    clock = next((one for one in new if isinstance(one, Clock)), None)
    day = next((one for one in new if isinstance(one, Day) and not one.whole), None)
    if timing.kind != "cron" or not (clock or day) or not (fields[0].isdecimal() and fields[1].isdecimal()):
        return Unclear(_ONE_OF_MANY, asked=True)
    if clock is not None:
        fields[:2] = str(clock.minute), str(clock.hours[0])
    if day is not None:
        if fields[4].isdecimal():
            fields[4] = str(day.dates[0].isoweekday() % 7)
        elif fields[2].isdecimal():
            fields[2] = str(day.dates[0].day)
        else:
            return Unclear(_ONE_OF_MANY, asked=True)
    return _cron(timing, fields)


#: Why an appointment that comes again is not moved.
_ONE_OF_MANY = "a single time of what comes again cannot be moved"


def _once(timing: Timing, at: datetime) -> Timing:
    return Timing("once", f"{at.minute} {at.hour} {at.day} {at.month} *", at, None, timing.tz)


def _cron(timing: Timing, fields: Sequence[str]) -> Timing:
    return Timing("cron", " ".join(fields), None, None, timing.tz)
