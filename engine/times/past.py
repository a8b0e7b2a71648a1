"""Which days a question talks about, in English and in Chinese: 'last Friday', 3月2日, 三天前.

Everything is whole days in the time zone of ``now``, and weeks begin on Monday. What leaves something open is
read backwards, because memories lie in the past: without a year, a date or a month is the latest one that has
begun by the end of today; 'on Friday' and 周五 may be today; 'last Friday' is the latest before today, while
上周五 is the Friday of last week. 'Last night' is yesterday; N weeks, months, years ago are calendar ones.

The days that a message names by the day it was said on, as dates: "yesterday" → "yesterday (2026-03-01)",
下周三.

A memory has to stand alone, so its relative days are followed by what they mean. 下周三 and "next Wednesday"
lie in the next calendar week, 上周三 in the last one, while "last Wednesday" is the latest before today. A
bare weekday is the latest one in a sentence about what happened, else the next to come.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from datetime import date, datetime, timedelta
from itertools import islice

from engine.times.clocks import (
    EN_DAYS,
    EN_HOLIDAYS,
    EN_MONTH_NAMES,
    HOLIDAYS,
    SMALL_EN,
    WEEK,
    ZH_HOLIDAYS,
    ZH_WEEKS,
    add_months,
    month_index,
    number,
    weekday_index,
)
from jiyi.text.words import normalise

#: More days than this are a list, not a question.
MAX_SPANS = 8

Span = tuple[datetime, datetime]
_Reader = Callable[[re.Match[str], datetime], Span]

#: How far back a word goes, in days, weeks, months or years.
_BACK = {"this": 0, "last": 1, "past": 1, "今": 0, "昨": 1, "去": 1, "前": 2, "大前": 3}
_BACK |= {word: -weeks for word, weeks in ZH_WEEKS.items() if weeks <= 0}
_DAYS = {word.removeprefix("the "): -days for word, days in EN_DAYS.items() if days <= 0}
_UNITS = {"天": "day", "日": "day", "周": "week", "星期": "week", "礼拜": "week", "月": "month", "年": "year"}
_YEAR_LATER = timedelta(days=365)
#: Weekdays with one of these are over.
_GONE = ("last", "past", "上", "上上")
#: Before this, four digits are hardly ever a year (and the first cannot be moved between time zones).
_FIRST_YEAR = 1000
#: 29 February can be this many years apart, around a year such as 1900.
_LEAP_GAP = 8

# In patterns a space is any short white space, ~ an optional one; \b sees none between 我 and 'today'.
_B, _E = r"(?<![a-z0-9_])", r"(?![a-z0-9_])"
_MONTH = rf"(?P<month>{EN_MONTH_NAMES}){_E}\.?"
#: "Sun" and "sat" are words of their own.
_WEEKDAY = r"(?:mon|tue|tues|wed|thu|thur|thurs|fri|(?:mon|tues|wednes|thurs|fri|satur|sun)day)"
_ON_WEEKDAY = rf"(?:(?:(?:on|last|this) )?{_WEEKDAY},? (?:the )?)?"
_YEAR = rf"(?:,? (?:of )?(?P<year>[0-9]{{4,9}}){_E}|,? (?:of )?(?P<back>last|this) year{_E})?"
_DAY = r"(?P<day>[0-9]{1,2})(?:st|nd|rd|th)?(?![a-z0-9_]|[.:/][0-9])"
_PART = r"(?:(?:early|mid|late)[\s-])?"
#: What follows "may" where it is a verb: in "2 may be enough", and in "what is in may not matter".
_NO_VERB = r"(?! (?:be|have|not|also|still|well|never|only|need|want|help|or may)\b)"
_SUBJECT = r"(?<!\bi\s)(?<!\bwe\s)(?<!\byou\s)(?<!\bthey\s)(?<!\bwho\s)"
_N = r"(?:[0-9]{1,4}|[〇零一二两三四五六七八九十]{1,4})"
_NOT_IN_NUMBER = r"(?<![0-9a-z.〇零一二两三四五六七八九十百千万第年])"
_CHINESE_BACK = r"(?P<back>今|(?<!过)去|(?<![以之])大?前)年"  # not 过去年轻, 以前年轻
#: Not 晚上周杰伦, 日本月饼.
_CHINESE_THIS = r"(?P<back>上上|(?<![晚早马路身网])上|这|(?<![日基根])本)"
#: Not 上周一直, 上周三次, 上周日本, 上周天气: there only the week is meant.
_WEEK_DAY = (
    r"(?P<weekday>一(?![直共起定般些样])|[二三四五六](?![个次天年])|日(?![子本常程])|天(?!气|天(?!气))|末)"
)

#: How many days those holidays have that have more than one: China's golden weeks.
_HOLIDAY_DAYS = {(10, 1): 7, (5, 1): 5}
#: Nearly every question has none of these, and is done.
_HINT = re.compile(
    rf"{EN_HOLIDAYS}|{ZH_HOLIDAYS}|"
    r"[0-9今昨天周拜期月年]|day|night|week|month|year|ago|this|last|past"
    r"|(?:in|of|during|throughout|on|early|mid|late)[\s-]+"
    r"(?:jan|feb|ma|apr|ju|aug|sep|oct|nov|dec|mon|tue|wed|thu|fri)"
)


def named_spans(text: str, now: datetime) -> list[Span]:
    """The days named in the text as half-open spans in the time zone of ``now``, in order, each once."""
    return list(spans_over(text, now))


def spans_over(text: str, now: datetime) -> dict[Span, bool]:
    """The same, each with whether it is surely over: neither of today nor perhaps to come ("on Friday")."""
    if not _HINT.search(text := normalise(text)):
        return {}
    today = now.replace(hour=0, minute=0, second=0, microsecond=0, fold=0)
    rules = _ENGLISH_RULES if text.isascii() else _RULES
    matches = [(match, reader) for pattern, reader in rules for match in pattern.finditer(text)]
    # The leftmost and longest wins: 去年3月 is not also last year, and 31 February 2026 not also February.
    matches.sort(key=lambda item: (item[0].start(), -item[0].end()))
    spans: dict[Span, bool] = {}
    tells_of_past = bool(matches) and _PAST.search(text) is not None
    end = 0
    for match, reader in matches:
        if match.start() >= end:
            end = match.end()
            with suppress(ValueError, OverflowError):  # there is no such day
                span = reader(match, today)
                spans[span] = span[1] <= today and (not _is_open(match, reader, span, today) or tells_of_past)
    return dict(islice(spans.items(), MAX_SPANS))


def _is_open(match: re.Match[str], reader: _Reader, span: Span, today: datetime) -> bool:
    """A bare weekday, or a day without a year that is nearer ahead than behind, may be yet to come."""
    groups = match.groupdict()
    if reader is _on_weekday:
        return groups.get("back") not in _GONE
    without_year = (
        reader is _date and bool(groups.get("day")) and not (groups.get("year") or groups.get("back"))
    )
    return without_year and span[0] + _YEAR_LATER - today < today - span[1]


def _days(start: datetime, count: int = 1) -> Span:
    return start, start + timedelta(days=count)


def _months(today: datetime, year: int, month: int, count: int = 1) -> Span:
    """Whole months; those before January, as 0 and -1, are of the year before."""
    first = year * 12 + month - 1
    start, end = (today.replace(year=n // 12, month=n % 12 + 1, day=1) for n in (first, first + count))
    if start.year < _FIRST_YEAR:
        raise ValueError(year)
    return start, end


def _week_span(today: datetime, back: int, weekday: str | None = None) -> Span:
    """A week counted from this one, or its day, or its weekend."""
    first, count = (0, 7) if weekday is None else (5, 2) if weekday == "末" else (weekday_index(weekday), 1)
    return _days(today - timedelta(days=today.weekday() - first, weeks=back), count)


def _date(match: re.Match[str], today: datetime) -> Span:
    """A year, or a month or a day with or without its year."""
    groups = match.groupdict()
    year, back, word, day = (groups.get(part) for part in ("year", "back", "month", "day"))
    its_year = today.year - _BACK[back] if back else number(year) if year else None
    if word is None:
        return _months(today, its_year or 0, 1, 12)
    month = month_index(word) if word[0].isalpha() and word.isascii() else number(word)
    if not 1 <= month <= 12:
        raise ValueError(month)
    if its_year is not None:
        return _in_month(_months(today, its_year, month), day)
    latest = today.replace(day=1) - timedelta(days=1) if groups.get("last") else today
    for candidate in range(today.year, today.year - _LEAP_GAP - 1, -1):
        with suppress(ValueError):  # 29 February, or no day at all
            span = _in_month(_months(today, candidate, month), day)
            if span[0] <= latest:
                return span
    raise ValueError(match.group())


def _in_month(month: Span, day: str | None) -> Span:
    return _days(month[0].replace(day=number(day))) if day else month


def _named_day(match: re.Match[str], today: datetime) -> Span:
    word = " ".join(match["word"].split())
    return _days(today - timedelta(days=_DAYS[word] if word in _DAYS else _BACK[word]))


def _on_weekday(match: re.Match[str], today: datetime) -> Span:
    weekday, back = match["weekday"], match.groupdict().get("back")
    if back == "this" or back in ZH_WEEKS:
        return _week_span(today, _BACK[back], weekday)
    if weekday == "末" or not weekday:
        return _week_span(today, int(today.weekday() < 5), "末")
    days = (today.weekday() - weekday_index(weekday)) % 7
    return _days(today - timedelta(days=days or (7 if back else 0)))


def _of_month(match: re.Match[str], today: datetime) -> Span:
    return _in_month(_months(today, today.year, today.month - _BACK[match["back"]]), match["day"])


def _holiday(match: re.Match[str], today: datetime) -> Span:
    """The latest that has begun, or that of the year that is named."""
    month, day = HOLIDAYS[" ".join(match["holiday"].split())]
    year, back = match["year"], match["back"]
    ago = _BACK[back] if back else int((month, day) > (today.month, today.day))
    its_year = number(year) if year else today.year - ago
    return _days(_months(today, its_year, month)[0].replace(day=day), _HOLIDAY_DAYS.get((month, day), 1))


def _unit(match: re.Match[str], today: datetime) -> Span:
    """'Last week', 'two weeks ago', 两周前."""
    groups = match.groupdict()
    back = _BACK[groups["back"]] if groups.get("back") else number(groups["n"])
    unit = _UNITS.get(groups["unit"], groups["unit"])
    if unit == "month":
        return _months(today, today.year, today.month - back)
    if unit == "year":
        return _months(today, today.year - back, 1, 12)
    if unit == "day":
        return _days(today - timedelta(days=back))
    return _week_span(today, back, "末" if unit == "weekend" else None)


_CHINESE_DATE = (
    rf"(?:{_NOT_IN_NUMBER}(?P<year>[0-9]{{1,9}}|[〇零一二三四五六七八九]{{4}})~年~"
    rf"|{_CHINESE_BACK}的?|{_NOT_IN_NUMBER})"
    rf"(?P<month>{_N})~月(?!天(?!气)|亮|球|饼)(?:份|~(?P<day>{_N})~[日号])?(?:~\(?{WEEK}[一二三四五六日天]\)?)?"
)
_ISO_MONTH_DAY = r"(?P<month>[0-9]{1,2})\2(?P<day>[0-9]{1,2})"
_CHINESE_YEAR = r"(?P<year>(?:19|20)[0-9]{2}|[一二][〇零一二三四五六七八九]{3})"
_CHINESE_UNIT = r"(?P<unit>[天日年周]|星期|礼拜|(?<=个)月)"
_OF_YEAR = rf"(?:(?P<year>[0-9]{{4}})~年~的?|{_CHINESE_BACK}的?)?"
_ON_HOLIDAY = rf"(?:on|at|over|during|for|since|(?P<back>last|this)) (?P<holiday>{EN_HOLIDAYS})"
_PATTERNS: list[tuple[str, _Reader]] = [
    (rf"(?<![a-z0-9_./-])(?P<year>[0-9]{{4}})([-/]){_ISO_MONTH_DAY}(?![0-9]|[-/.][0-9])", _date),
    (rf"(?<![a-z0-9_.:/$-]){_ON_WEEKDAY}{_DAY} (?:of )?{_MONTH}{_NO_VERB}{_YEAR}", _date),
    (rf"{_B}{_SUBJECT}{_ON_WEEKDAY}{_MONTH} (?:the )?{_DAY}{_YEAR}", _date),
    (rf"{_B}{_MONTH},? (?:of )?(?P<year>[0-9]{{4,9}}){_E}", _date),
    (rf"{_B}(?:in|of|during|throughout|(?P<last>last)) {_PART}{_MONTH}{_NO_VERB}{_YEAR}", _date),
    (rf"{_B}(?:in|during|throughout) {_PART}(?P<year>(?:19|20)[0-9]{{2}})(?![a-z0-9_%]|[.,:/-][0-9])", _date),
    (rf"{_B}(?:the )?(?P<word>{'|'.join(_DAYS)}){_E}", _named_day),
    (rf"{_B}(?P<back>last|this) (?P<unit>week|weekend|month|year){_E}(?! of\b)", _unit),
    (rf"{_B}(?:on|at|over|during) the (?P<weekday>)weekend{_E}", _on_weekday),
    (rf"{_B}(?:on|(?P<back>last|past|this)) (?P<weekday>{_WEEKDAY}){_E}", _on_weekday),
    (rf"{_B}(?<![0-9]\.)(?P<n>[0-9]{{1,4}}|{SMALL_EN}) (?P<unit>day|week|month|year)s? ago{_E}", _unit),
    (_CHINESE_DATE, _date),
    (rf"{_NOT_IN_NUMBER}{_CHINESE_YEAR}~年(?!(?:之|以)?前)", _date),
    (_CHINESE_BACK, _date),
    (r"(?P<word>(?<![以之])大?前(?=天)|[今昨])[天日晚夜早晨](?!头条)", _named_day),
    (rf"{_CHINESE_THIS}个?一?个?{WEEK}(?![围边期]|杰伦|恩来|星驰){_WEEK_DAY}?", _on_weekday),
    (rf"(?<![每下个几0-9一二两三四五六七八九十]){WEEK}{_WEEK_DAY}", _on_weekday),
    (rf"{_CHINESE_THIS}个?月(?![亮球])(?:~(?P<day>{_N})~[日号])?", _of_month),
    (rf"{_B}{_ON_HOLIDAY}(?: (?P<year>[0-9]{{4}}))?{_E}", _holiday),
    (rf"(?<![一二三四五六七八九十百千双]){_OF_YEAR}(?P<holiday>{ZH_HOLIDAYS})(?![路街十号])", _holiday),
    (rf"{_NOT_IN_NUMBER}(?P<n>{_N})~(?:个~(?=月|星期|礼拜))?{_CHINESE_UNIT}(?:之|以)?前", _unit),
]
_RULES = [
    (re.compile(pattern.replace(" ", r"\s{1,3}").replace("~", r"\s?")), reader)
    for pattern, reader in _PATTERNS
]
_ENGLISH_RULES = [(pattern, reader) for pattern, reader in _RULES if pattern.pattern.isascii()]


_WEEKDAYS = "monday|tuesday|wednesday|thursday|friday|saturday|sunday"
#: From three days ago to three days from today.
_CHINESE_WORDS = "大前天|前天|昨天 昨晚 昨日|今天 今晚 今早|明天 明晚 明早 明日|后天|大后天"
_CHINESE_DAYS = {
    word: days for days, words in enumerate(_CHINESE_WORDS.split("|"), -3) for word in words.split()
}

#: A clause with one of these says what happened: a bare weekday in it is over.
_PAST = re.compile(
    r"\b(?:was|were|had|went|did|got|made|took|came|saw|met|bought|found|gave|told|won|lost|began"
    r"|left|ate|ran"
    r"|wrote|[a-z]{3,}ed)\b|了|过"
)
_CLAUSE_END = re.compile(r"[,;，；。.!?！？]")
_ANCHORED_DAY = re.compile(
    rf"(?<!been )(?<!for )\b(?P<weeks>{SMALL_EN}) weeks? (?:from )?(?P<from>today|tomorrow|now)\b"
    rf"|\b(?P<gone>{_WEEKDAYS}) just gone\b"
    rf"|\b(?P<word>{'|'.join(EN_DAYS)})\b"
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
    """The text with the date behind each relative day, if it is known when it was said."""
    if said_at is None:
        return text
    day = said_at.date()

    def dated(match: re.Match[str]) -> str:
        clause = _CLAUSE_END.split(text[: match.start()])[-1] + _CLAUSE_END.split(text[match.start() :])[0]
        try:
            return f"{match.group()} ({_date_of(match, day, past=_PAST.search(clause.lower()) is not None)})"
        except (ValueError, OverflowError):  # beyond the calendar
            return match.group()

    return _ANCHORED_DAY.sub(dated, text)


def _date_of(match: re.Match[str], day: date, *, past: bool) -> str:
    groups = {name: value.lower() for name, value in match.groupdict().items() if value}
    for name, reader in _READERS.items():
        if name in groups:
            return reader(groups, day, past)
    raise ValueError(match.group())


def weekday_of(groups: dict[str, str], day: date, past: bool) -> str:
    """The day that a weekday means: "Friday", "last Friday"; by the tense where that is open."""
    number, which = weekday_index(groups["weekday"]), groups["which"]
    if which == "next":
        return _of_week(day, 1, number)
    is_over = which == "last" or (past and which == "on")
    return _nearest(day, number, past=is_over, also_today=which in {"this", "on"})


def _span(groups: dict[str, str], day: date, _past: bool) -> str:
    step = -1 if groups["span"] == "last" else 1
    if groups["unit"] == "weekend":
        return _of_week(day, step, 5)
    return _shifted(day, groups["unit"], step)


def _chinese_week(groups: dict[str, str], day: date, _past: bool) -> str:
    weeks, weekday = ZH_WEEKS[groups["zh_which"]], groups.get("zh_weekday")
    if weekday is None:
        return _shifted(day, "week", weeks)
    return _of_week(day, weeks, 5 if weekday == "末" else weekday_index(weekday))


def _chinese_month(groups: dict[str, str], day: date, _past: bool) -> str:
    month = add_months(day.replace(day=1), ZH_WEEKS[groups["zh_month"]])
    if "zh_month_day" in groups:
        return month.replace(day=int(groups["zh_month_day"])).isoformat()
    return f"{month:%Y-%m}"


def _chinese_year(groups: dict[str, str], day: date, _past: bool) -> str:
    year = day.year + {"去": -1, "今": 0, "明": 1, "后": 2}[groups["zh_year"]]
    return f"{year}-{int(groups['zh_year_month']):02}" if "zh_year_month" in groups else str(year)


def _chinese_distance(groups: dict[str, str], day: date, _past: bool) -> str:
    unit = {"天": "day", "月": "month", "年": "year"}.get(groups["zh_unit"], "week")
    return _shifted(day, unit, number(groups["zh_n"]) * (-1 if groups["zh_side"] == "前" else 1), exact=True)


_READERS: dict[str, Callable[[dict[str, str], date, bool], str]] = {
    "word": lambda groups, day, _: _in_days(day, EN_DAYS[groups["word"]]),
    "weekday": weekday_of,
    "weeks": lambda groups, day, _: _in_days(
        day, 7 * number(groups["weeks"]) + (groups["from"] == "tomorrow")
    ),
    "gone": lambda groups, day, _: _nearest(day, weekday_index(groups["gone"]), past=True, also_today=False),
    "span": _span,
    "ahead": lambda groups, day, _: _shifted(day, groups["unit_ahead"], number(groups["ahead"]), exact=True),
    "back": lambda groups, day, _: _shifted(day, groups["unit_back"], -number(groups["back"]), exact=True),
    "zh": lambda groups, day, _: _in_days(day, _CHINESE_DAYS[groups["zh"]]),
    "zh_which": _chinese_week,
    "zh_bare": lambda groups, day, past: _nearest(
        day, weekday_index(groups["zh_bare"]), past=past, also_today=True
    ),
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
        monday_to_sunday = f"{_of_week(day, count, 0)}/{_of_week(day, count, 6)[5:]}"
        return _in_days(day, 7 * count) if exact else monday_to_sunday
    return f"{add_months(day.replace(day=1), count):%Y-%m}" if unit == "month" else str(day.year + count)
