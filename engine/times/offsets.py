"""How long from now, and how long before: 半小时后, "in 20 minutes", 提前十分钟, "an hour before"."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import timedelta

from engine.times.lexicon import EN, ZH, number

UNITS = {
    "秒": 1,
    "秒钟": 1,
    "分": 60,
    "分钟": 60,
    "刻钟": 900,
    "小时": 3_600,
    "钟头": 3_600,
    "钟": 3_600,
    "天": 86_400,
    "日": 86_400,
    "周": 604_800,
    "星期": 604_800,
    "礼拜": 604_800,
    "second": 1,
    "sec": 1,
    "minute": 60,
    "min": 60,
    "hour": 3_600,
    "hr": 3_600,
    "day": 86_400,
    "week": 604_800,
    "h": 3_600,
    "mins": 60,
    "fortnight": 1_209_600,
}
DAY_SECONDS = 86_400


@dataclass(frozen=True, slots=True)
class Offset:
    """So long from now; ``months`` beside ``by`` are calendar months."""

    start: int
    end: int
    by: timedelta
    months: int = 0
    #: Days, weeks, months: the time of day is open.
    in_days: bool = False
    certain: bool = True
    #: A timer, which asks by itself.
    timer: bool = False


@dataclass(frozen=True, slots=True)
class Lead:
    """So long before what stands beside it."""

    start: int
    end: int
    by: timedelta


@dataclass(frozen=True, slots=True)
class Shift:
    """So much later than it was, or earlier if ``by`` is negative."""

    start: int
    end: int
    by: timedelta


_ZH_UNIT = r"mins?|h|秒钟?|分钟?|刻钟|小时|钟头|天|日|周|星期|礼拜"
_ZH_SPAN = (
    rf"(?P<n>{ZH}|半)个?(?P<half>半)?(?P<unit>{_ZH_UNIT}|月|年)(?P<half2>半(?!夜|天))?(?:零?(?P<more>{ZH})(?P<more_unit>分钟?|小时|天|秒))?"
)
_ZH_AFTER = re.compile(
    rf"(?<![\d.月第点])(?:再?过|再?等)?{_ZH_SPAN}(?:钟)?(?:以|之|过)?后(?!天)|(?:再?过|再?等){_ZH_SPAN.replace('?P<', '?P<b_')}(?:钟)?(?!前)"
)
_ZH_TIMER = re.compile(
    rf"(?:倒计时|计时|定时|闹钟|闹铃){_ZH_SPAN}|{_ZH_SPAN.replace('?P<', '?P<b_')}(?:钟)?(?:后)?的?(?:倒计时|计时器?|定时器?|番茄钟|闹钟)"
)
_ZH_LEAD = re.compile(rf"提前{_ZH_SPAN}|{_ZH_SPAN.replace('?P<', '?P<b_')}(?:之|以)?前(?=提醒|叫|通知|喊)")
_EN_UNIT = r"second|sec|minute|min|hour|hr|day|week|fortnight|month|year"
_EN_SPAN = rf"(?:(?P<half>half an?|half) |(?P<n>{EN}) )(?P<and_half>and a half )?(?P<unit>{_EN_UNIT})s?\b(?P<half2> and a half)?(?:(?: and|,)? (?P<more>{EN}) (?P<more_unit>minute|min|hour)s?)?"
_EN_QUARTERS = re.compile(r"\bin (?:a|(?P<three>three)) quarters? of an hour\b", re.IGNORECASE)
_EN_SHORT = r"(?P<s_n>\d{1,3}) ?(?P<s_unit>h|m|min|mins|hrs?|d)\b"
_EN_IN = re.compile(
    rf"\b(?:in(?: about| exactly| like| around| roughly| just)?|after) (?:{_EN_SPAN}|{_EN_SHORT})(?: time\b| from now\b)?|\b{_EN_SPAN.replace('?P<', '?P<b_')} (?:from now|later)\b",
    re.IGNORECASE,
)
_EN_TIMER = re.compile(
    rf"\b(?:timer|countdown)(?: for)? {_EN_SPAN}|\b(?P<b_n>{EN})[- ](?P<b_unit>minute|min|hour)s? (?:timer|countdown)\b", re.IGNORECASE
)
_EN_FROM = re.compile(rf"\b(?P<n>{EN}) (?P<unit>day|week)s? from (?:today|(?P<tomorrow>tomorrow))\b", re.IGNORECASE)
_EN_LEAD = re.compile(rf"\b{_EN_SPAN} (?:before(?:hand)?|prior(?: to)?|ahead(?: of)?|early|earlier)\b", re.IGNORECASE)


_ZH_SHIFT = re.compile(
    rf"(?P<earlier>提前|提早|往前[挪移提调]?|早)?(?:推迟|延后|延迟|顺延|往后[推挪移延拖]?|晚|延)?(?:个|了)?{_ZH_SPAN}(?!后|前)"
)
_ZH_WAY = re.compile(r"提前|提早|往前|早|推迟|延|往后|晚")
_EN_SHIFT = re.compile(
    rf"\b(?:by )?{_EN_SPAN} (?P<way>later|earlier|sooner|longer)\b"
    rf"|\b(?P<b_way>back|forward|later|up|postpone\w*|delay\w*)(?: (?:it|this|that|the|my|[a-z]+)){{0,4}}? (?:by )?{_EN_SPAN.replace('?P<', '?P<b_')}",
    re.IGNORECASE,
)
_EARLIER = ("earlier", "sooner", "forward", "up")


def find_shift(text: str) -> Shift | None:
    """How far a message shifts something: 推迟半小时, "an hour later", "back by ten minutes"."""
    for pattern in (_ZH_SHIFT, _EN_SHIFT):
        for match in pattern.finditer(text):
            if pattern is _ZH_SHIFT and _ZH_WAY.match(match[0]) is None:
                continue
            offset = _offset(match)
            if not offset.months:
                named = match.groupdict()
                way = (named.get("way") or named.get("b_way") or "").lower()
                is_earlier = bool(named.get("earlier")) or way in _EARLIER
                # "back the dentist by an hour": what is shifted is no part of it
                start = (
                    min(place for name in ("b_half", "b_n") if (place := match.start(name)) >= 0) if named.get("b_way") else match.start()
                )
                return Shift(start, match.end(), -offset.by if is_earlier else offset.by)
    return None


def find_offsets(text: str) -> list[Offset | Lead]:
    """Every span from now, or before something, in a text."""
    spans: list[Offset | Lead] = []
    for pattern in (_ZH_AFTER, _EN_IN):
        spans += [_offset(match) for match in pattern.finditer(text)]
    for pattern in (_ZH_TIMER, _EN_TIMER):
        spans += [replace(_offset(match), timer=True) for match in pattern.finditer(text)]
    for match in _EN_QUARTERS.finditer(text):
        spans.append(Offset(match.start(), match.end(), timedelta(minutes=45 if match["three"] else 15)))
    for match in _EN_FROM.finditer(text):
        by = timedelta(seconds=number(match["n"]) * UNITS[match["unit"].lower()]) + timedelta(days=match["tomorrow"] is not None)
        spans.append(Offset(match.start(), match.end(), by, in_days=True))
    for pattern in (_ZH_LEAD, _EN_LEAD):
        for match in pattern.finditer(text):
            offset = _offset(match)
            if not offset.months:
                spans.append(Lead(match.start(), match.end(), offset.by))
    return spans


def _offset(match: re.Match[str]) -> Offset:
    named = {name.removeprefix("b_"): value for name, value in match.groupdict().items() if value is not None}
    word, unit = named.get("n") or named.get("s_n"), (named.get("unit") or named.get("s_unit") or "").lower()
    unit = {"h": "hour", "hrs": "hour", "m": "minute", "mins": "minute", "d": "day"}.get(unit, unit)
    half = named.get("half") is not None and word is None
    count = 0.5 if word == "半" or half else float(number(word or "1"))
    count += 0.5 if (word not in (None, "半") and named.get("half")) or named.get("half2") or named.get("and_half") else 0.0
    if unit in ("月", "month", "年", "year"):
        months = count * (1 if unit in ("月", "month") else 12)
        return Offset(match.start(), match.end(), timedelta(days=15 if months % 1 else 0), int(months), in_days=True)
    by = timedelta(seconds=count * UNITS[unit])
    if "more" in named:
        by += timedelta(seconds=number(named["more"]) * UNITS[named["more_unit"].lower()])
    return Offset(match.start(), match.end(), by, in_days=UNITS[unit] >= DAY_SECONDS)
