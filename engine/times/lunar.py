"""Days of the Chinese calendar in words: 农历八月十五, 腊月二十三, 大年初一, 除夕, 中秋, "Lunar New Year".

A lunar year begins in January or February: 2027年腊月二十三 and 明年除夕 may be two days, and are asked back.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date

from borax.calendars.lunardate import (
    MAX_SOLAR_DATE,
    MIN_SOLAR_DATE,
    InvalidLunarDateError,
    LCalendars,
    LunarDate,
)

from engine.times.clocks import LUNAR_HOLIDAYS, Day, Impossible, any_of, number

#: Lunar years within which a day comes again: a leap month, 19.
_YEARS = 20
_LAST_MONTH = 12
_YEAR = r"(?:(?:(?P<year>\d{4})年|(?P<named>今年|明年|后年))的?(?:农历|阴历)?的?)?"
_DAY = r"(?:初[一二三四五六七八九十]|[廿二]?十[一二三四五六七八九]?|廿[一二三四五六七八九]?|三十)"
_MONTH = r"(?:十[一二]|[一二三四五六七八九十])"
#: Behind a name that says when, and is no part of another word (中秋月饼).
_FREE = r"(?=提醒|[叫给让]我|[早晚上中下凌傍的时,，。\d一二三四五六七八九十\s]|\Z)"


_NUMERALS = "一二三四五六七八九十"
_ANY_MONTH = rf"(?P<month>[{_NUMERALS}]{{1,3}}|\d{{1,2}}|[正冬腊])"
_ZH_NAMES, _EN_NAMES = any_of(LUNAR_HOLIDAYS, english=False), any_of(LUNAR_HOLIDAYS, english=True)
_PATTERNS = [
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"(?:农历|阴历|旧历)的?{_YEAR}(?P<leap>闰)?{_ANY_MONTH}月的?(?P<day>{_DAY}|\d{{1,2}})[日号]?",
        rf"{_YEAR}(?P<leap>闰)?(?P<month>[正冬腊])月(?P<day>{_DAY})",
        rf"{_YEAR}(?P<leap>闰)?(?<![{_NUMERALS}])(?P<month>{_MONTH})月(?P<day>初[{_NUMERALS}]|廿[一二三四五六七八九]?)",
        rf"{_YEAR}大年(?P<first>初[{_NUMERALS}]|三十)",
        rf"{_YEAR}(?P<name>{_ZH_NAMES})(?:节|那天|当天){{0,2}}{_FREE}",
        rf"\b(?:on|at|by|this|next) (?:the )?(?P<name>{_EN_NAMES})\b",
    )
]
_MONTHS = {"正": 1, "冬": 11, "腊": 12}
_AHEAD = {"今年": 0, "明年": 1, "后年": 2}
#: A day of each lunar month.
_MONTHLY = re.compile(r"每(?:个)?(?:农历|阴历)?月的?(?:农历|阴历)?初[一二三四五六七八九十]")
#: Why a lunar day that comes again is asked back, and one of a year that is not sure.
EACH_YEAR = "a lunar day comes at another date each time, so only one can be kept"
WHICH_YEAR = "the lunar year and the calendar's year differ: which of two days?"


@dataclass(frozen=True, slots=True)
class _Lunar:
    month: int
    #: 30 of the last month: its last day.
    day: int
    leap: bool

    def of(self, year: int) -> date | None:
        """Its date in a lunar year; None if there is none."""
        try:
            eve = (self.month, self.day) == (_LAST_MONTH, 30)
            day = LCalendars.ndays(year, _LAST_MONTH) if eve else self.day
            result: date = LunarDate(year, self.month, day, int(self.leap)).to_solar_date()
        except (InvalidLunarDateError, ValueError):
            return None
        return result


def find_lunar(text: str, today: date) -> Iterator[Day | Impossible]:
    """Every lunar day named, from today on; they may overlap. None outside of the tables (1900 to 2100)."""
    if not MIN_SOLAR_DATE <= today <= MAX_SOLAR_DATE:
        return
    for match in _MONTHLY.finditer(text):
        yield Impossible(match.start(), match.end(), EACH_YEAR)
    for pattern in _PATTERNS:
        for match in pattern.finditer(text):
            yield _day(match, _named(match), today)


def _named(match: re.Match[str]) -> _Lunar:
    groups = match.groupdict()
    if groups.get("name"):
        return _Lunar(*LUNAR_HOLIDAYS[groups["name"].lower()], leap=False)
    if groups.get("first"):
        first = groups["first"]
        return _Lunar(12, 30, leap=False) if first == "三十" else _Lunar(1, _number(first), leap=False)
    month = _MONTHS.get(groups["month"]) or number(groups["month"])
    return _Lunar(month, _number(groups["day"]), bool(groups["leap"]))


def _number(word: str) -> int:
    return number(word.removeprefix("初").replace("廿", "二十").replace("二十十", "二十"))


def _day(match: re.Match[str], lunar: _Lunar, today: date) -> Day | Impossible:
    start, end = match.span()
    groups = {name: word for name, word in match.groupdict().items() if word}
    this: int = LunarDate.from_solar(today).year
    if "year" in groups or "named" in groups:
        ahead = _AHEAD.get(groups.get("named", ""), 0)
        solar, own = int(groups.get("year", today.year + ahead)), int(groups.get("year", this + ahead))
        of_calendar = {
            day for each in (solar - 1, solar) if (day := lunar.of(each)) is not None and day.year == solar
        }
        days = of_calendar | {day for day in [lunar.of(own)] if day is not None}
        if len(days) > 1:
            return Impossible(start, end, WHICH_YEAR)
    else:
        days = {day for each in range(this, this + _YEARS) if (day := lunar.of(each)) is not None}
    if not days:
        return Impossible(start, end, "there is no day of this name in the lunar calendar")
    return Day(start, end, tuple(sorted(days)), lunar=True)
