"""Days in words: 明天, 下周三, "next Friday", 3月5日, "the 15th", 月底.

Weeks begin on Monday: 下周三 and "next Wednesday" lie in the next calendar week. A day that is not fully
given (周五, 15号, 3月5日) is the next that is not over.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Iterator
from datetime import date, timedelta

from engine.times.clocks import (
    EN,
    EN_MONTH,
    EN_WEEKDAY,
    HOLIDAYS,
    TH,
    WEEK,
    ZH,
    ZH_WEEKS,
    Day,
    Impossible,
    add_months,
    month_index,
    number,
    weekday_index,
)
from engine.times.lunar import find_lunar

#: Years within which a day of a month comes again: 29 February around 2100.
_YEARS = 9
_HOLIDAY = re.compile("|".join(sorted(HOLIDAYS, key=len, reverse=True)), re.IGNORECASE)
_ZH_DAYS = {"今": 0, "当": 0, "明": 1, "后": 2, "大后": 3, "大大后": 4}
_ZH_NAMED = re.compile(
    r"(?<![昨每])(?P<which>大大后|大后|后|明|今)"
    r"(?:[天日](?!气)|儿个?(?!子|女|童|媳|科)|(?=[早晚夜]|上午|中午|下午|凌晨|傍晚))"
)
_WHICH = r"下下个?|下个?|这个?|本"
_ZH_WEEK = re.compile(
    rf"(?<![上每早])(?P<which>{_WHICH})?{WEEK}(?P<day>[一二三四五六日天1-7])(?![个次天周年月小分])"
    rf"|(?<![上每])(?P<week_which>{_WHICH})?周末(?!作业)"
)
_ZH_WHOLE = re.compile(
    rf"(?P<which>下个?)(?:(?P<week>{WEEK})(?![一二三四五六日天末1-7])|月(?![初底末]|{ZH}[号日]))"
    rf"|明年(?!{ZH}月)"
)
_ZH_DATE = re.compile(
    r"(?:(?P<year>\d{4}|[二][〇零一二三四五六七八九]{3})年|(?P<next_year>明年)|今年)?的?"
    rf"(?<![\d.])(?P<month>{ZH})月(?:份)?的?"
    rf"(?P<day>{ZH})(?:[日号](?![线楼门店机馆院房])|(?![\d个月天周年点时分]))"
    rf"(?:[(（]?{WEEK}[一二三四五六日天][)）]?)?"
)
_ZH_OF_MONTH = re.compile(
    r"(?:(?P<which>下个?月|这个月|本月|当月)的?|(?<![\d月年]))"
    rf"(?P<day>{ZH})[号日](?![线楼门店机馆院房桌床台子])"
)
_ZH_MONTH_END = re.compile(
    r"(?P<which>下个?|这个?|本)?月(?P<where>底|末|初|中旬?)(?!尾)|(?P<year_end>年底|年末)"
)
_ISO = re.compile(r"(?<![\d/.-])(?P<year>\d{4})[-/.](?P<month>\d{1,2})[-/.](?P<day>\d{1,2})(?![\d/-])")
_SLASH = re.compile(r"(?<![\d/.:-])(?P<month>\d{1,2})/(?P<day>\d{1,2})(?![\d/-])")
_EN_NAMED = re.compile(
    r"\b(?:(?P<after>(?:the )?day after tomorrow)|(?P<tomorrow>tomorrow|tmrw|tmr|2morrow)"
    r"|(?P<today>today|tonight|this (?:morning|afternoon|evening)))\b",
    re.IGNORECASE,
)
_EN_WEEK = re.compile(
    r"(?<!last )(?<!every )(?<!each )\b"
    r"(?:(?:on |by )?(?P<which>next|this coming|this|coming|the coming) |on |by )?"
    rf"(?P<day>{EN_WEEKDAY})\b(?!-)(?P<after>,? next week| after next| week\b)?",
    re.IGNORECASE,
)
_EN_WEEKS_FROM = re.compile(rf"\b(?P<n>{EN}) weeks? from (?:on )?(?P<day>{EN_WEEKDAY})\b", re.IGNORECASE)
_EN_WEEKEND = re.compile(
    r"\b(?:(?:on |at |over )?(?P<which>next|this|the|this coming) )weekend\b", re.IGNORECASE
)
_EN_WHOLE = re.compile(r"\bnext (?P<unit>week|month|year)\b", re.IGNORECASE)
_EN_DATE = re.compile(
    rf"\b(?:on |by )?(?:(?:the )?(?P<day>\d{{1,2}}){TH}?(?: of)? (?P<month>{EN_MONTH})"
    rf"|(?P<month2>{EN_MONTH}) (?:the )?(?P<day2>\d{{1,2}}){TH}?(?![\d:]))(?:,? (?P<year>\d{{4}})\b)?",
    re.IGNORECASE,
)
_EN_OF_MONTH = re.compile(
    rf"\b(?:on )?the (?P<day>\d{{1,2}}){TH}\b"
    r"(?! (?:floor|time|street|avenue|grade|birthday|anniversary|edition|century))"
    r"(?P<which> of next month| of this month| next month)?",
    re.IGNORECASE,
)
_EN_NEXT_MONTH = re.compile(rf"\bnext month,? on the (?P<day>\d{{1,2}}){TH}\b", re.IGNORECASE)
_EN_MONTH_END = re.compile(
    r"\b(?:at |by )?the (?:(?P<last>end|last day) of (?P<which>the|this|next) (?P<unit>month|year)"
    r"|(?P<first>beginning|start|first) of next month)\b",
    re.IGNORECASE,
)


def find_days(text: str, today: date) -> list[Day | Impossible]:
    """Every day that a text names from today on, in whatever order; they may overlap."""
    days: list[Day | Impossible] = []
    for finder in (_chinese, _english, _dates, find_lunar):
        days += finder(text, today)
    return days


def within_whole(whole: Day, day: Day) -> Day:
    """A day of the week or month that stands beside it: "next week, on Tuesday"."""
    first, day_date = whole.dates[0], day.dates[0]
    if whole.whole == "week":
        return Day(day.start, day.end, (first + timedelta(days=day_date.weekday()),), day.certain)
    if whole.whole == "month" and day_date.day <= monthrange(first.year, first.month)[1]:
        return Day(day.start, day.end, (first.replace(day=day_date.day),), day.certain)
    return day


def _chinese(text: str, today: date) -> Iterator[Day | Impossible]:
    for match in _ZH_NAMED.finditer(text):
        ahead = _ZH_DAYS[match["which"]]
        yield Day(*match.span(), (today + timedelta(days=ahead),), today=ahead == 0)
    for match in _ZH_WEEK.finditer(text):
        which, day = match["which"] or match["week_which"], match["day"]
        week = None if which is None else ZH_WEEKS[which.removesuffix("个")]
        yield _of_week(match, today, weekday_index(day) if day else 5, week, certain=day is not None)
    for match in _ZH_WHOLE.finditer(text):
        yield _whole(match, today, "week" if match["week"] else "month" if match["which"] else "year")
    for match in _ZH_MONTH_END.finditer(text):
        if match["year_end"]:
            yield Day(*match.span(), (date(today.year, 12, 31),), certain=False)
            continue
        month = add_months(today.replace(day=1), 1 if (match["which"] or "").startswith("下") else 0)
        day = {"初": 1, "中": 15, "中旬": 15}.get(match["where"], monthrange(month.year, month.month)[1])
        dates = (month.replace(day=day), add_months(month, 1).replace(day=min(day, 28)))
        yield Day(*match.span(), dates if day < 28 else dates[:1], certain=match["where"] in "底末")


def _english(text: str, today: date) -> Iterator[Day | Impossible]:
    for match in _EN_NAMED.finditer(text):
        ahead = 2 if match["after"] else 1 if match["tomorrow"] else 0
        # The part of the day stays outside, for the time to find.
        end = match.end() if match["today"] is None or match["today"].lower() == "today" else match.start()
        yield Day(match.start(), end, (today + timedelta(days=ahead),), today=ahead == 0)
    for match in _EN_WEEK.finditer(text):
        which, after = (match["which"] or "").lower(), (match["after"] or "").lower()
        if match[0] in ("sat", "sun", "mon", "wed", "fri"):
            continue  # "sat" and "sun" are words of their own
        week = {"next": 1, "this": 0}.get(which)
        week = 2 if "after next" in after else 1 if "next week" in after else week
        yield _of_week(match, today, weekday_index(match["day"]), week)
    for match in _EN_WEEKS_FROM.finditer(text):
        first = _of_week(match, today, weekday_index(match["day"]), None).dates[0]
        yield Day(*match.span(), (first + timedelta(weeks=number(match["n"])),))
    for match in _EN_WEEKEND.finditer(text):
        yield _of_week(match, today, 5, 1 if match["which"].lower() == "next" else 0, certain=False)
    for match in _EN_WHOLE.finditer(text):
        yield _whole(match, today, match["unit"].lower())
    for match in _EN_MONTH_END.finditer(text):
        first = add_months(today.replace(day=1), 1)
        if match["first"]:
            yield Day(*match.span(), (first,))
        elif match["unit"].lower() == "year":
            yield Day(*match.span(), (date(today.year + (match["which"].lower() == "next"), 12, 31),))
        else:
            ends = first if match["which"].lower() != "next" else add_months(first, 1)
            yield Day(*match.span(), (ends - timedelta(days=1),))


def _dates(text: str, today: date) -> Iterator[Day | Impossible]:
    for match in _ISO.finditer(text):
        yield _date(match, today, int(match["month"]), int(match["day"]), int(match["year"]))
    for match in _SLASH.finditer(text):
        month, day = int(match["month"]), int(match["day"])
        if month > 12 >= day:  # day first
            month, day = day, month
        if month <= 12:
            yield _date(match, today, month, day, None)
    for match in _ZH_DATE.finditer(text):
        year = number(match["year"]) if match["year"] else today.year + 1 if match["next_year"] else None
        yield _date(match, today, number(match["month"]), number(match["day"]), year)
    for match in _EN_DATE.finditer(text):
        month, day = month_index(match["month"] or match["month2"]), int(match["day"] or match["day2"])
        yield _date(match, today, month, day, int(match["year"]) if match["year"] else None)
    for match in _HOLIDAY.finditer(text):
        yield _date(match, today, *HOLIDAYS[match[0].lower()], None)
    for pattern in (_ZH_OF_MONTH, _EN_OF_MONTH, _EN_NEXT_MONTH):
        for match in pattern.finditer(text):
            which = "next" if pattern is _EN_NEXT_MONTH else (match["which"] or "").lower()
            yield _of_month(match, today, number(match["day"]), which)


def _of_week(
    match: re.Match[str], today: date, weekday: int, week: int | None, *, certain: bool = True
) -> Day:
    """A weekday of a week counted from this one, or the next there is."""
    if week is None:
        first = today + timedelta(days=(weekday - today.weekday()) % 7)
        return Day(*match.span(), (first, first + timedelta(days=7)), certain)
    day = today + timedelta(days=weekday - today.weekday(), weeks=week)
    return Day(*match.span(), (day,), certain)


def _whole(match: re.Match[str], today: date, unit: str) -> Day:
    ahead = {
        "week": today + timedelta(days=7 - today.weekday()),
        "month": add_months(today.replace(day=1), 1),
        "year": date(today.year + 1, 1, 1),
    }
    return Day(*match.span(), (ahead[unit],), certain=False, whole=unit)


def _date(match: re.Match[str], today: date, month: int, day: int, year: int | None) -> Day | Impossible:
    years = range(today.year, today.year + _YEARS) if year is None else [year]
    # Days at the ends of the calendar have no moment in some time zones.
    years = [each for each in years if 1 < each < 9999 and 1 <= month <= 12]
    dates = [date(each, month, day) for each in years if 1 <= day <= monthrange(each, month)[1]]
    if not dates:
        return Impossible(*match.span(), f"there is no day {day} in month {month}")
    return Day(*match.span(), tuple(dates))


def _of_month(match: re.Match[str], today: date, day: int, which: str) -> Day | Impossible:
    if not 1 <= day <= 31:
        return Impossible(*match.span(), f"no month has a day {day}")
    first = today.replace(day=1)
    months = [1] if which.startswith("下") or "next" in which else [0] if which else range(13)
    firsts = [add_months(first, ahead) for ahead in months]
    dates = [each.replace(day=day) for each in firsts if day <= monthrange(each.year, each.month)[1]]
    if not dates:
        return Impossible(*match.span(), f"that month has no day {day}")
    return Day(*match.span(), tuple(dates))
