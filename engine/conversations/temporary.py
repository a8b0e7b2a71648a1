"""What holds for a day, a week, a trip only: an exception has an end of its own, and ends nothing.

Known by a cue of limited time beside a word of exception (``temporary.txt``): "it's the 7:35 till Saturday",
这周改成周三. A vague cue ("these days", 暂时) lasts :data:`VAGUE`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from engine.conversations.whose import Span
from engine.times.past import with_dates
from jiyi.text.clauses import sentences
from jiyi.text.sections import unions

#: How long something lasts that is only said to be for a time.
VAGUE = timedelta(days=14)
#: Characters of a message that are looked at.
READ_CHARS = 4_000

_CUES = unions(__package__, "temporary.txt")
_LIMITED, _EXCEPTION, _USUAL, _ONLY = (_CUES[name] for name in ("limited", "exception", "usual", "only"))
_DATED = re.compile(r"\((\d{4})-(\d{2})(?:-(\d{2}))?(?:/(?:(\d{4})-)?(\d{2})-(\d{2}))?\)")
_TILL = re.compile(r"'?\btill?\b(?: (?:the|this|next))?", re.IGNORECASE)
_MONTH = re.compile(r"(\d{1,2}|[一二三四五六七八九十]{1,2})月")
_DAY = re.compile(r"(\d{1,2})\s?(?:st|nd|rd|th|号|日)")
_LENGTH = re.compile(
    r"(?P<n>\d{1,2}|a|one|two|three|four|couple of|few|[一两二三四五六几])\s?个?"
    r"(?P<unit>days?|nights?|weeks?|months?|fortnights?|天|晚|周|星期|礼拜|月)",
    re.IGNORECASE,
)
_CHINESE_MONTHS = ["", *"一 二 三 四 五 六 七 八 九 十 十一 十二".split()]
_WEEK = re.compile(r"\b(?:this|the|all) week\b|这个?(?:周|星期|礼拜)|本周", re.IGNORECASE)
_THIS_MONTH = re.compile(r"\bthis month\b|这一?个月|本月", re.IGNORECASE)
_TODAY = re.compile(r"\b(?:today|tonight)\b|今天|今晚|今日", re.IGNORECASE)
#: Days of a unit of time.
_UNIT_DAYS = {
    unit: days
    for days, units in {1: "day night 天 晚", 7: "week 周 星期 礼拜", 14: "fortnight", 30: "month 月"}.items()
    for unit in units.split()
}
#: Days within which each number of a day comes once at least.
DAYS_AHEAD = 62
_NUMBERS = {
    word: number
    for number, words in enumerate(
        ("a|one|一", "two|couple of|两|二", "three|few|三|几", "four|四", "五", "六"), start=1
    )
    for word in words.split("|")
}


@dataclass(frozen=True, slots=True)
class Temporary:
    """A span of a message, and the last day on which it is so."""

    span: Span
    until: date


def temporary(text: str, said_at: datetime) -> list[Temporary]:
    """What a message says only of a time, as of the speaker's day on which it was said."""
    read = text[:READ_CHARS]
    if not (_EXCEPTION.search(read) or _USUAL.search(read)):
        return []
    result: list[Temporary] = []
    until: date | None = None
    for start, end in sentences(read):
        sentence = read[start:end]
        match = _LIMITED.search(sentence)
        if match is not None and (_EXCEPTION.search(sentence) or _USUAL.search(read[start:])):
            until = _end(match.group(), sentence, said_at)
        elif until is None or not _ONLY.search(sentence) or _USUAL.search(sentence):
            until = None
            continue
        usual = _USUAL.search(sentence)
        last = start + usual.start() if usual and usual.start() > len(sentence) // 3 else end
        result.append(Temporary((start, last), until))
    return result


def _end(cue: str, sentence: str, said_at: datetime) -> date:
    """The last day that a cue names; :data:`VAGUE` ahead where it names none."""
    day = said_at.date()
    readings = (
        _named_day(cue, said_at),
        _numbered_day(cue, day),
        _unit_end(cue, sentence, day),
        _length_end(cue, day),
    )
    return next((reading for reading in readings if reading is not None), day + VAGUE)


def _named_day(cue: str, said_at: datetime) -> date | None:
    dated = _DATED.search(with_dates(_TILL.sub("until", cue), said_at))
    if dated is None:
        return None
    year, month, first, last_year, last_month, last = dated.groups()
    if last is not None:
        return date(int(last_year or year), int(last_month), int(last))
    day = date(int(year), int(month), int(first or 1))
    return _month_end(day) if first is None else day


def _numbered_day(cue: str, day: date) -> date | None:
    """The next day of a month with a number: the 14th, 14号."""
    if (numbered := _DAY.search(cue)) is None:
        return None
    ahead = (day + timedelta(days=days) for days in range(DAYS_AHEAD))
    return next((candidate for candidate in ahead if candidate.day == int(numbered[1])), None)


def _unit_end(cue: str, sentence: str, day: date) -> date | None:
    """The end of this week, of this month or of the one that the sentence names, or today."""
    if _WEEK.search(cue):
        return day + timedelta(days=6 - day.weekday())
    if _TODAY.search(cue):
        return day
    if _THIS_MONTH.search(cue) is None:
        return None
    month = day.month
    if match := _MONTH.search(sentence):
        if match[1].isdigit():
            month = int(match[1])
        elif match[1] in _CHINESE_MONTHS:
            month = _CHINESE_MONTHS.index(match[1])
    return _month_end(date(day.year + (month < day.month), max(1, min(12, month)), 1))


def _length_end(cue: str, day: date) -> date | None:
    length = _LENGTH.search(cue)
    if length is None:
        return None
    number = _NUMBERS.get(length["n"].lower()) or int(length["n"])
    unit = length["unit"].lower().rstrip("s")
    return day + timedelta(days=number * _UNIT_DAYS[unit])


def _month_end(day: date) -> date:
    return (day.replace(day=1) + timedelta(days=32)).replace(day=1) - timedelta(days=1)
