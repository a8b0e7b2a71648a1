"""Times of day in words: 下午三点半, "half past eight", 9:30, "tonight".

A bare hour from 1 to 6 is the afternoon, from 7 to 11 the morning, and both are ambiguous. Who wants to be
woken means the morning.

Words of times in both languages: numbers, days of the week, months, holidays, days and weeks counted from
today.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import date
from typing import Literal

from jiyi.text.sections import sections

_ONES = (
    "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen"
    " seventeen eighteen nineteen"
)
_ENGLISH = {word: n for n, word in enumerate(_ONES.split(), 1)}
_ENGLISH |= {"twenty": 20, "thirty": 30, "forty": 40, "fifty": 50, "sixty": 60}
_ENGLISH |= {"ninety": 90, "a": 1, "an": 1, "a couple of": 2, "couple of": 2, "couple": 2, "oh": 0}
_CHINESE = {char: n for n, char in enumerate("零一二三四五六七八九")} | {"〇": 0, "两": 2, "俩": 2}

WEEK = r"(?:周|星期|礼拜)"
ZH_WEEKDAYS = "一二三四五六日"
EN_WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
EN_WEEKDAY = (
    r"(?:mon(?:day)?|tue(?:s(?:day)?)?|wed(?:nesday)?|thu(?:rs?(?:day)?)?|fri(?:day)?|sat(?:urday)?"
    r"|sun(?:day)?)"
)
EN_MONTHS = "jan feb mar apr may jun jul aug sep oct nov dec".split()
EN_MONTH_NAMES = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?"
    r"|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)"
)
EN_MONTH = rf"{EN_MONTH_NAMES}\.?"

#: Days from today of a word, and weeks from this one.
EN_DAYS = {"the day before yesterday": -2, "yesterday": -1, "last night": -1}
EN_DAYS |= {"tomorrow": 1, "the day after tomorrow": 2}
EN_DAYS |= dict.fromkeys(("today", "tonight", "this morning", "this afternoon", "this evening"), 0)
ZH_WEEKS = {"上上": -2, "上": -1, "这": 0, "本": 0, "下": 1, "下下": 2}

#: What makes a day of the month of a number.
TH = r"(?:st|nd|rd|th)"
#: A whole number in Chinese text, and in English text.
ZH = r"(?:\d{1,4}|[〇零一二两三四五六七八九十百]{1,5})"
#: The same up to ten, as a pattern without digits.
SMALL_EN = rf"(?:{'|'.join(_ONES.split()[:10])}|an?)"
_TENS = r"(?:twenty|thirty|forty|fifty)(?:[- ](?:one|two|three|four|five|six|seven|eight|nine))?"
EN = (
    rf"(?:\d{{1,4}}|{_TENS}|sixty|ninety|a couple of"
    rf"|{'|'.join(sorted(_ONES.split(), key=len, reverse=True))}|an?)"
)


def number(word: str) -> int:
    """The number of a word that :data:`ZH` or :data:`EN` finds.

    Raises:
        ValueError: it is none.
    """
    word = " ".join(word.lower().split())
    if word.isdecimal():
        return int(word)
    if word.isascii():
        if word in _ENGLISH:
            return _ENGLISH[word]
        return sum(_known(part, _ENGLISH) for part in re.split(r"[- ]", word))
    hundreds, hundred, rest = word.rpartition("百")
    tens, ten, ones = rest.rpartition("十")
    if not ten and len(rest) > 1:  # 二零: digit by digit
        return 100 * _digits(hundreds) * bool(hundred) + _digits(rest)
    tens_value = 10 * (_digits(tens) or 1) if ten else 0
    return 100 * (_digits(hundreds) or 1) * bool(hundred) + tens_value + _digits(ones)


def _digits(text: str) -> int:
    value = 0
    for char in text:
        value = 10 * value + _known(char, _CHINESE)
    return value


def _known(word: str, words: dict[str, int]) -> int:
    if word not in words:
        raise ValueError(f"no number: {word}")
    return words[word]


def _holidays(calendar: str) -> dict[str, tuple[int, int]]:
    """Name → month and day."""
    dated = [line.partition(": ") for line in sections(__package__, "holidays.txt")[calendar]]
    return {name: (int(day[:2]), int(day[3:])) for day, _, names in dated for name in names.split(", ")}


#: Days that have a name, as month and day; those of the Chinese calendar, as its month and day.
HOLIDAYS, LUNAR_HOLIDAYS = _holidays("solar"), _holidays("lunar")


def any_of(names: Collection[str], *, english: bool) -> str:
    """A pattern of the names in English, or in Chinese, the longest first."""
    return "|".join(sorted((name for name in names if name.isascii() is english), key=len, reverse=True))


EN_HOLIDAYS, ZH_HOLIDAYS = any_of(HOLIDAYS, english=True), any_of(HOLIDAYS, english=False)


def weekday_index(word: str) -> int:
    """0 for Monday, of a weekday in either language."""
    word = word.lower().replace("天", "日")
    if word.isdecimal():
        return (int(word) - 1) % 7
    return ZH_WEEKDAYS.index(word) if word in ZH_WEEKDAYS else EN_WEEKDAYS.index(word[:3])


def month_index(word: str) -> int:
    """1 for January, of an English month."""
    return EN_MONTHS.index(word.lower()[:3]) + 1


def add_months(day: date, months: int) -> date:
    """So many months later, on the same day of the month, or the last one there is."""
    years, month = divmod(day.month - 1 + months, 12)
    year = day.year + years
    return date(year, month + 1, min(day.day, monthrange(year, month + 1)[1]))


Part = Literal["dawn", "morning", "noon", "afternoon", "evening", "night", "midnight"]

_ZH_PARTS: dict[Part, str] = {
    "dawn": "凌晨 零晨 拂晓 天没亮",
    "morning": "清晨 大清早 清早 一大早 大早上 早上 早晨 早间 上午 早",
    "noon": "中午 正午 午间 晌午",
    "afternoon": "下午 午后",
    "evening": "傍晚 黄昏 晚上 晚间 夜晚 晚",
    "night": "夜里 夜间 深夜 大半夜 半夜 夜",
    "midnight": "午夜 子夜",
}
_EN_PART_WORDS: dict[Part, str] = {
    "morning": "morning mornings",
    "noon": "noon midday lunchtime",
    "afternoon": "afternoon afternoons",
    "evening": "evening evenings tonight",
    "night": "night nights",
    "midnight": "midnight",
}
_PART_OF = {
    word: part
    for words_of in (_ZH_PARTS, _EN_PART_WORDS)
    for part, words in words_of.items()
    for word in words.split()
}
#: The hour that is meant by a part of the day alone; of noon and midnight it is certain.
_HOURS: dict[Part, int] = {"dawn": 5, "morning": 9, "noon": 12, "afternoon": 15, "evening": 20}
_HOURS |= {"night": 22, "midnight": 0}
#: The hour of something that has a day and no time.
DEFAULT_HOUR = 9
#: Bare hours at which people get up. At one, two or three it may as well be the end of a nap.
WAKING_HOURS = range(4, 12)


@dataclass(frozen=True, slots=True)
class Clock:
    """A time of day, or a part of the day. ``hours`` are its readings, the likeliest first."""

    start: int
    end: int
    hours: tuple[int, ...]
    minute: int = 0
    certain: bool = True
    #: It is after the midnight that ends the day it names.
    next_day: bool = False
    part: Part | None = None
    #: The hour as it was said; None of a part of the day alone.
    stated: int | None = None


@dataclass(frozen=True, slots=True)
class Beside:
    """A part of the day that belongs to the time beside it."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Day:
    """The days that it may be, in order: it is the first that is not over."""

    start: int
    end: int
    dates: tuple[date, ...]
    certain: bool = True
    #: Only the time beside it says which part of it is meant (今, 明).
    today: bool = False
    #: A week, month or year of which no day was named.
    whole: str = ""
    #: It is of the Chinese calendar.
    lunar: bool = False


@dataclass(frozen=True, slots=True)
class Impossible:
    """A time or a day that there is none of."""

    start: int
    end: int
    reason: str


# 早 and 晚 alone are other words, unless a day or an hour stands beside them.
_SHORT = rf"(?<=[今明每后])[早晚夜](?![饭餐自安高班课读报归])|[早晚](?={ZH}[点:时])"
_WEEKDAY_SHORT = r"(?<=周[一二三四五六日天末])[早晚]|(?<=星期[一二三四五六日天])[早晚]"
_LONG = "|".join(word for words in _ZH_PARTS.values() for word in words.split() if len(word) > 1)
_PART = rf"(?:{_LONG}|{_SHORT}|{_WEEKDAY_SHORT})"
_ZH_MINUTE = r"\d\d|[二三四五]?十[一二三四五六七八九]?|[零〇][一二三四五六七八九]"
_ZH_HOUR = rf"(?<![\d:.])(?P<hour>{ZH})(?:点钟?|时(?![候间常段刻光])|:(?=[0-5]\d(?!\d)))"
_ZH = re.compile(
    rf"(?:(?P<part>{_PART})的?)?(?:差(?P<to>{ZH}分钟?|一刻)(?:到)?)?{_ZH_HOUR}"
    r"(?:整|(?P<half>半)|(?P<quarter>[一1三3])刻钟?"
    rf"|[过零]?(?P<minutes>{ZH})分(?!钟|之)|(?P<minute>{_ZH_MINUTE})(?![点:个号月日天周小\d]))?"
    rf"(?:差(?P<less>{ZH})分)?"
)
_ZH_PART = re.compile(rf"(?P<part>{_PART})(?![好安餐饭])")
#: 一点 is also "a bit".
_A_BIT_BEFORE = frozenset("早晚快慢多少大小好高低差有这那几第便近远稍再轻")
_A_BIT_AFTER = frozenset("都也儿没不小吧")

#: An hour in English.
HOUR_EN = rf"(?:\d{{1,2}}|{'|'.join(reversed(_ONES.split()[:12]))})"
_FIVE = r"(?:[- ]five)?"
_M = rf"(?:thirty{_FIVE}|fifteen|forty{_FIVE}|twenty{_FIVE}|ten|fifty{_FIVE}|oh five|five)"
_MERIDIEM = r"(?P<meridiem>[ap])\.? ?m\b\.?"
_BEHIND = r"(?:,? in the (?P<part>morning|afternoon|evening)\b|,? at (?P<part2>night)\b)"
#: … which stand with a day, for others to find.
_AHEAD = r"(?= (?:tonight|(?:this|tomorrow|every|each) (?:morning|afternoon|evening|night))\b)"
#: Minutes that are said so, unlike "from 9 to 5".
_ROUND = r"(?:five|ten|twenty(?:[- ]five)?|5|10|20|25)"
_QUARTER = r"(?:a )?(?P<quarter>quarter) (?P<way>past|to|after|before)"
_MINUTES_TO = rf"(?<!from )(?<!between )(?P<n>{_ROUND}|{EN}(?= minutes? ))(?: minutes?)? (?P<way2>past|to)"
_HOUR, _FIRST, _LAST = (rf"(?P<{name}>{HOUR_EN})" for name in ("hour", "first", "last"))
_MINUTE = rf"(?P<minute_word>{_M})"
_AT = r"(?:\b(?:at|by|around|about|before)|@)"
_AT_DIGITS = r"(?:\b(?:at|by|around|about|before|till|until|and|from|between)|@)"
_NO_TIME = (
    r"(?! ?(?:%|minutes?|mins?|hours?|hrs?|days?|weeks?|months?|years?|people|percent|dollars|euros"
    r"|pm|am|st|nd|rd|th|of|[a-z]+ street)\b|[\d%]|:\d)"
)
_EN_PARTS = [
    rf"(?<![\d:.])\b{_HOUR}(?:[:.](?P<minute>\d\d)| {_MINUTE})? ?{_MERIDIEM}",
    rf"(?<![\d:.])\b{_HOUR} ?o'?clock\b{_BEHIND}?",
    rf"\b(?:(?P<half>half) past|{_QUARTER}|{_MINUTES_TO}) {_HOUR}\b(?: ?{_MERIDIEM}|{_BEHIND})?",
    rf"(?<![\d:./-])(?P<hour>\d{{1,2}}):(?P<minute>\d\d)(?![\d:])(?:{_BEHIND})?",
    rf"{_AT_DIGITS} ?(?P<hour>[01]\d|2[0-4])(?P<minute>[0-5]\d)(?: ?(?:hours|hrs|h))?\b(?!%)",
    rf"{_AT} ?(?:around |about |exactly )?{_HOUR}(?:-?ish)?(?: {_MINUTE})?\b{_NO_TIME}{_BEHIND}?",
    rf"\b{_HOUR}(?: {_MINUTE})?{_BEHIND}",
    rf"\b{_HOUR}\b{_AHEAD}",
    rf"(?:(?<=day )|(?<=morning ))(?P<hour>\d{{1,2}})\b{_NO_TIME}(?!:)",
]
_EN = [re.compile(pattern, re.IGNORECASE) for pattern in _EN_PARTS]
_EN_PART = re.compile(
    r"(?<!good )(?<!all )\b(?:in the |this |at |by )?"
    r"(?P<part>tonight|mornings?|afternoons?|evenings?|nights?|noon|midday|lunchtime|midnight)\b",
    re.IGNORECASE,
)
_TWO = [
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"\b(?:from|between) {_FIRST} ?(?:to|and|until|till|through|-|–) ?{_LAST}\b(?! ?[ap]\.?m|:|\d)",
        rf"\bat {_FIRST} (?:and|&) (?:at )?{_LAST}\b(?! ?[ap]\.?m|:|\d| ?o'?clock| ?minutes)",
    )
]
_SAME_TIME = re.compile(
    r"(?:这个|同一|相同|差不多)(?:时间|时候|时刻|点)|\b(?:at )?(?:this|the same) time\b", re.IGNORECASE
)


def find_clocks(text: str, hour_now: int, minute_now: int) -> list[Clock | Impossible]:
    """Every time of day in a text, which may overlap."""
    clocks = [_chinese(match) for match in _ZH.finditer(text) if not _a_bit(match, text)]
    clocks += [_alone(match) for pattern in (_ZH_PART, _EN_PART) for match in pattern.finditer(text)]
    clocks += [_english(match) for pattern in _EN for match in pattern.finditer(text)]
    clocks += [
        at(*match.span(name), number(match[name]), 0, None)
        for pattern in _TWO
        for match in pattern.finditer(text)
        for name in ("first", "last")
    ]
    same = [match.span() for match in _SAME_TIME.finditer(text)]
    return clocks + [Clock(*span, (hour_now,), minute_now, stated=hour_now) for span in same]


def _alone(match: re.Match[str]) -> Clock:
    """A part of the day without an hour."""
    part = _PART_OF[match["part"].lower()]
    return Clock(*match.span(), (_HOURS[part],), certain=part in ("noon", "midnight"), part=part)


def at(  # noqa: C901, PLR0911 – a case for each part of the day
    start: int, end: int, hour: int, minute: int, part: Part | None, *, exact: bool = False
) -> Clock | Impossible:
    """The readings of an hour in a part of the day (§4.15); ``exact``: the hour as written."""
    if hour > 24 or minute > 59 or (hour == 24 and minute):
        return Impossible(start, end, f"there is no {hour}:{minute:02}")

    def clock(*hours: int, certain: bool = True, next_day: bool = False) -> Clock:
        return Clock(start, end, hours, minute, certain, next_day, part, hour)

    if hour == 24:
        return clock(0, next_day=True)
    if exact or hour > 12:
        return clock(hour)
    if part is None:
        early = 1 <= hour <= 6
        both = (hour + 12, hour) if early else (hour, hour + 12)
        return clock(*both, certain=False) if 1 <= hour <= 11 else clock(hour)
    if part == "morning":
        return clock(12, 0, certain=False) if hour == 12 else clock(hour)
    if part in ("dawn", "midnight"):
        return clock(hour % 12)
    if part == "noon":
        return clock(hour) if hour >= 10 else clock(hour + 12, certain=hour <= 3)
    if part == "afternoon":
        return clock(hour % 12 + 12)
    if hour in (0, 12):
        return clock(0, certain=False, next_day=True)
    late = 5 if part == "evening" else 6
    return clock(hour + 12) if hour >= late else clock(hour, certain=False, next_day=True)


def within(clock: Clock, part: Part) -> Clock | Impossible:
    """A time without a part of the day, in the part that stands beside it."""
    if clock.part is not None or clock.stated is None or (clock.certain and clock.stated not in (0, 12)):
        return clock
    return at(clock.start, clock.end, clock.stated, clock.minute, part)


def of_waking(clock: Clock) -> Clock:
    """A bare hour at which somebody wants to be woken: the morning, unless that has passed today."""
    if clock.part is not None or clock.certain or clock.stated not in WAKING_HOURS:
        return clock
    return replace(clock, hours=tuple(sorted(clock.hours)), certain=True)


def _a_bit(match: re.Match[str], text: str) -> bool:
    if match["hour"] != "一" or match["part"] or match["half"] or match["minute"] or match["minutes"]:
        return False
    before, after = text[match.start() - 1 : match.start()], text[match.end() : match.end() + 1]
    return before in _A_BIT_BEFORE or after in _A_BIT_AFTER


def _chinese(match: re.Match[str]) -> Clock | Impossible:
    minute = 30 if match["half"] else 15 * number(match["quarter"]) if match["quarter"] else 0
    if match["minutes"] or match["minute"]:
        minute = number(match["minutes"] or match["minute"])
    to = (match["to"] or match["less"] or "零").rstrip("分钟")
    before = 15 if to == "一刻" else number(to)
    part = _PART_OF[match["part"]] if match["part"] else None
    return _before(match, number(match["hour"]), minute, before, part, exact=match["hour"].startswith("0"))


def _english(match: re.Match[str]) -> Clock | Impossible:
    groups = {name: word.lower() for name, word in match.groupdict().items() if word}
    hour = number(groups["hour"])
    minute = 30 if "half" in groups else number(groups.get("minute") or groups.get("minute_word") or "oh")
    away = 15 if "quarter" in groups else number(groups.get("n", "oh"))
    is_before = (groups.get("way") or groups.get("way2")) in ("to", "before")
    before, minute = (away, minute) if is_before else (0, minute + away)
    if "meridiem" in groups and 1 <= hour <= 12:
        hour = hour % 12 + 12 * (groups["meridiem"] == "p")
        return _before(match, hour, minute, before, None, exact=True)
    word = groups.get("part") or groups.get("part2")
    in_digits = "minute" in groups and ":" not in match[0]  # 0930
    exact = len(groups["hour"]) == 2 and (in_digits or groups["hour"].startswith("0"))
    return _before(match, hour, minute, before, _PART_OF[word] if word else None, exact=exact)


def _before(
    match: re.Match[str], hour: int, minute: int, before: int, part: Part | None, *, exact: bool
) -> Clock | Impossible:
    if before:
        hour, minute = (hour - 1) % 24 if hour else 23, minute + 60 - before
        if hour == 0 and part not in ("dawn", "midnight"):
            hour = 12
    return at(match.start(), match.end(), hour, minute, part, exact=exact)
