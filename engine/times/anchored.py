"""The days that a message names by the day it was said on, as dates: "yesterday" → "yesterday (2026-03-01)", 下周三.

A memory has to stand alone, so its relative days are followed by what they mean. Weeks begin on Monday: 下周三 and "next
Wednesday" lie in the next calendar week, 上周三 in the last one, while "last Wednesday" is the latest before today. A bare
weekday is the latest one in a sentence about what happened, else the next to come.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, datetime, timedelta

from engine.times.lexicon import SMALL_EN, WEEK, add_months, number, weekday_index

_WEEKDAYS = "monday|tuesday|wednesday|thursday|friday|saturday|sunday"
_ENGLISH_DAYS = {
    "the day before yesterday": -2,
    "the day after tomorrow": 2,
    "yesterday": -1,
    "last night": -1,
    "today": 0,
    "tonight": 0,
    "this morning": 0,
    "this afternoon": 0,
    "this evening": 0,
    "tomorrow": 1,
}
_CHINESE_DAYS_BY_NUMBER = {
    -3: "大前天",
    -2: "前天",
    -1: "昨天 昨晚 昨日",
    0: "今天 今晚 今早",
    1: "明天 明晚 明早 明日",
    2: "后天",
    3: "大后天",
}
_CHINESE_DAYS = {word: days for days, words in _CHINESE_DAYS_BY_NUMBER.items() for word in words.split()}
_CHINESE_WEEKS = {"上上": -2, "上": -1, "这": 0, "本": 0, "下": 1, "下下": 2}

#: A clause with one of these tells what happened: a bare weekday in it is over.
_PAST = re.compile(
    r"\b(?:was|were|had|went|did|got|made|took|came|saw|met|bought|found|gave|told|won|lost|began|left|ate|ran|wrote|[a-z]{3,}ed)\b|了|过"
)
_CLAUSE_END = re.compile(r"[,;，；。.!?！？]")
_DAY = re.compile(
    rf"\b(?P<word>{'|'.join(_ENGLISH_DAYS)})\b"
    rf"|\b(?:(?P<which>last|this|next|on|by|until|coming) )(?P<weekday>{_WEEKDAYS})\b"
    r"|\b(?P<span>last|next) (?P<unit>week|month|year|weekend)\b"
    rf"|\bin (?P<ahead>\d{{1,3}}|couple|{SMALL_EN})(?: of)? (?P<unit_ahead>day|week|month)s?\b(?! of)"
    rf"|\b(?P<back>\d{{1,3}}|couple|{SMALL_EN})(?: of)? (?P<unit_back>day|week|month|year)s? ago\b"
    rf"|(?P<zh>{'|'.join(sorted(_CHINESE_DAYS, key=len, reverse=True))})"
    rf"|(?P<zh_which>上上|下下|[上下这本])个?{WEEK}(?P<zh_weekday>[一二三四五六日天末])?"
    rf"|(?<![每上下这本个]){WEEK}(?P<zh_bare>[一二三四五六日天])(?![个次])"
    r"|(?P<zh_month>[上下这本])个?月(?:(?P<zh_month_day>\d{1,2})[号日])?"
    r"|(?P<zh_year>去|今|明|后)年(?:(?P<zh_year_month>\d{1,2})月)?"
    r"|(?P<zh_n>\d{1,3}|[一二两三四五六七八九十])个?(?P<zh_unit>天|周|星期|礼拜|月|年)(?:以|之)?(?P<zh_side>前|后)",
    re.IGNORECASE,
)


def with_dates(text: str, said_at: datetime | None) -> str:
    """The text with each relative day followed by its date, as of the day it was said on; as it is where that is unknown."""
    if said_at is None:
        return text
    day = said_at.date()

    def dated(match: re.Match[str]) -> str:
        clause = _CLAUSE_END.split(text[: match.start()])[-1] + _CLAUSE_END.split(text[match.start() :])[0]
        try:
            return f"{match.group()} ({_date_of(match, day, past=_PAST.search(clause.lower()) is not None)})"
        except (ValueError, OverflowError):  # beyond the calendar
            return match.group()

    return _DAY.sub(dated, text)


def _date_of(match: re.Match[str], day: date, *, past: bool) -> str:
    given = {name: value.lower() for name, value in match.groupdict().items() if value}
    for name, reader in _READERS.items():
        if name in given:
            return reader(given, day, past)
    raise ValueError(match.group())


def _weekday(given: dict[str, str], day: date, past: bool) -> str:
    number, which = weekday_index(given["weekday"]), given["which"]
    if which == "next":
        return _of_week(day, 1, number)
    return _nearest(day, number, past=which == "last" or (past and which == "on"), also_today=which in {"this", "on"})


def _span(given: dict[str, str], day: date, _past: bool) -> str:
    step = -1 if given["span"] == "last" else 1
    if given["unit"] == "weekend":
        return _of_week(day, step, 5)
    return _shifted(day, given["unit"], step)


def _chinese_week(given: dict[str, str], day: date, _past: bool) -> str:
    weeks, weekday = _CHINESE_WEEKS[given["zh_which"]], given.get("zh_weekday")
    if weekday is None:
        return _shifted(day, "week", weeks)
    return _of_week(day, weeks, 5 if weekday == "末" else weekday_index(weekday))


def _chinese_month(given: dict[str, str], day: date, _past: bool) -> str:
    month = add_months(day.replace(day=1), _CHINESE_WEEKS[given["zh_month"]])
    return month.replace(day=int(given["zh_month_day"])).isoformat() if "zh_month_day" in given else f"{month:%Y-%m}"


def _chinese_year(given: dict[str, str], day: date, _past: bool) -> str:
    year = day.year + {"去": -1, "今": 0, "明": 1, "后": 2}[given["zh_year"]]
    return f"{year}-{int(given['zh_year_month']):02}" if "zh_year_month" in given else str(year)


def _chinese_distance(given: dict[str, str], day: date, _past: bool) -> str:
    unit = {"天": "day", "月": "month", "年": "year"}.get(given["zh_unit"], "week")
    return _shifted(day, unit, number(given["zh_n"]) * (-1 if given["zh_side"] == "前" else 1), exact=True)


_READERS: dict[str, Callable[[dict[str, str], date, bool], str]] = {
    "word": lambda given, day, _: _in_days(day, _ENGLISH_DAYS[given["word"]]),
    "weekday": _weekday,
    "span": _span,
    "ahead": lambda given, day, _: _shifted(day, given["unit_ahead"], number(given["ahead"]), exact=True),
    "back": lambda given, day, _: _shifted(day, given["unit_back"], -number(given["back"]), exact=True),
    "zh": lambda given, day, _: _in_days(day, _CHINESE_DAYS[given["zh"]]),
    "zh_which": _chinese_week,
    "zh_bare": lambda given, day, past: _nearest(day, weekday_index(given["zh_bare"]), past=past, also_today=True),
    "zh_month": _chinese_month,
    "zh_year": _chinese_year,
    "zh_n": _chinese_distance,
}


def _in_days(day: date, days: int) -> str:
    return (day + timedelta(days=days)).isoformat()


def _of_week(day: date, weeks: int, weekday: int) -> str:
    return _in_days(day, weeks * 7 + weekday - day.weekday())


def _nearest(day: date, weekday: int, *, past: bool, also_today: bool) -> str:
    days = (day.weekday() - weekday if past else weekday - day.weekday()) % 7
    return _in_days(day, (days or (0 if also_today else 7)) * (-1 if past else 1))


def _shifted(day: date, unit: str, count: int, *, exact: bool = False) -> str:
    """Days to the day; weeks to the day too if counted, else their Monday; months and years whole."""
    if unit == "day":
        return _in_days(day, count)
    if unit == "week":
        return _in_days(day, 7 * count) if exact else f"{_of_week(day, count, 0)}/{_of_week(day, count, 6)[5:]}"
    return f"{add_months(day.replace(day=1), count):%Y-%m}" if unit == "month" else str(day.year + count)
