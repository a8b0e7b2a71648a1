"""What comes again: 每周一三五, 工作日, 每隔两天, "every other Friday", "on the 1st of each month".

How long from now, and how long before: 半小时后, "in 20 minutes", 提前十分钟, "an hour before".
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta

from engine.times.clocks import (
    EN,
    EN_HOLIDAYS,
    EN_MONTH,
    EN_WEEKDAY,
    HOLIDAYS,
    TH,
    WEEK,
    ZH,
    ZH_HOLIDAYS,
    Impossible,
    month_index,
    number,
    weekday_index,
)


@dataclass(frozen=True, slots=True)
class Every:
    """Days that come again, as cron has them; or a step of time."""

    start: int
    end: int
    dom: str = "*"
    month: str = "*"
    #: Weekdays, Sunday 0.
    dow: str = "*"
    #: Seconds between two times, of steps that have no days.
    seconds: int | None = None
    #: Minute of each hour, of a step of an hour.
    minute: int = 0
    #: It does not say which day of the week, month or year.
    open: str | None = None


_Reader = Callable[[re.Match[str]], Every | Impossible]
_HOUR, _DAY, _WEEK = 3_600, 86_400, 604_800
_UNIT_WORDS = {
    1: "秒 秒钟 second sec s",
    60: "分 分钟 minute min mins m",
    900: "刻钟",
    _HOUR: "小时 钟头 钟 hour hr hrs h",
    _DAY: "天 日 夜 day d",
    _WEEK: "周 星期 礼拜 week",
    2 * _WEEK: "fortnight",
}
_SECONDS = {word: seconds for seconds, words in _UNIT_WORDS.items() for word in words.split()}
_SECONDS |= {"quarter of an hour": 900, "quarters of an hour": 900}
#: Which of a month's Fridays, as cron has it behind a weekday.
_NTH = {"first": "#1", "second": "#2", "third": "#3", "fourth": "#4", "last": "L"}
_NTH |= {"1st": "#1", "2nd": "#2", "3rd": "#3", "4th": "#4", "最后": "L"}


def _groups(match: re.Match[str]) -> dict[str, str]:
    """What its named groups hold, without those that hold nothing."""
    return {name: word.lower() for name, word in match.groupdict().items() if word is not None}


def _dow(word: str) -> int:
    return (weekday_index(word) + 1) % 7


def _weekdays(words: str) -> set[int]:
    days = re.findall(rf"{EN_WEEKDAY}|{_ZH_DAY}", words, re.IGNORECASE)
    return {day for word in days for day in ((0, 6) if word == "末" else (_dow(word),))}


def days_of_week(days: set[int]) -> str:
    """As cron has them; the days of a month, too."""
    return "1-5" if days == {1, 2, 3, 4, 5} else ",".join(map(str, sorted(days)))


def _range(match: re.Match[str]) -> Every:
    """From one weekday to another; from Saturday to Monday, too."""
    first, last = weekday_index(match["first"]), weekday_index(match["last"])
    days = {(first + step + 1) % 7 for step in range((last - first) % 7 + 1)}
    return Every(*match.span(), dow="*" if len(days) == 7 else days_of_week(days))


def _always(dom: str = "*", month: str = "*", dow: str = "*", is_open: str | None = None) -> _Reader:
    return lambda match: Every(*match.span(), dom, month, dow, open=is_open)


def _weekly(match: re.Match[str]) -> Every:
    return Every(*match.span(), dow=days_of_week(_weekdays(match["days"])))


def _nth_weekday(match: re.Match[str]) -> Every:
    nth = match["nth"].lower().removeprefix("第")
    place = _NTH.get(nth) or f"#{number(nth)}"
    return Every(*match.span(), dow=f"{_dow(match['day'])}{place}")


def _month_days(match: re.Match[str]) -> Every | Impossible:
    days = {number(word) for word in re.findall(r"\d{1,2}|[一二三四五六七八九十]{1,3}", match["days"])}
    if any(not 1 <= day <= 31 for day in days):
        return Impossible(*match.span(), "no month has such a day")
    return Every(*match.span(), dom=days_of_week(days))


def _month_end(match: re.Match[str]) -> Every:
    where = match["where"].lower()
    is_first = any(word in where for word in ("初", "first", "第一"))
    return Every(*match.span(), dom="1" if is_first else "15" if "中" in where else "L")


def _yearly(match: re.Match[str]) -> Every | Impossible:
    groups = _groups(match)
    if "holiday" in groups:
        month, day = HOLIDAYS[groups["holiday"]]
    else:
        word = groups["month"]
        is_english = word[0].isalpha() and word.isascii()
        month, day = month_index(word) if is_english else number(word), number(groups["day"])
    longest = 29 if month == 2 else 30 if month in (4, 6, 9, 11) else 31
    if not (1 <= month <= 12 and 1 <= day <= longest):
        return Impossible(*match.span(), f"there is no day {day} in month {month}")
    return Every(*match.span(), dom=str(day), month=str(month))


def _quarterly(match: re.Match[str]) -> Every:
    which = (match["which"] or "").lower()
    is_last = which in ("最后一天", "末", "last")
    dom, month = ("L", "3,6,9,12") if is_last else ("1", "1,4,7,10")
    return Every(*match.span(), dom=dom, month=month, open=None if which else "quarter")


def _in_months(match: re.Match[str]) -> Every | Impossible:
    step, day = number(match["n"]), match["day"]
    if not step or 12 % step:
        return Impossible(*match.span(), "months come in steps of 1, 2, 3, 4, 6 or 12")
    dom, is_open = (str(number(day)), None) if day else ("1", "months")
    return Every(*match.span(), dom=dom, month=f"*/{step}", open=is_open)


def _hourly(match: re.Match[str]) -> Every | Impossible:
    word = _groups(match).get("minute", "0")
    minute = {"quarter": 15, "half": 30}.get(word) or number(word)
    if minute > 59:
        return Impossible(*match.span(), f"an hour has no minute {minute}")
    return Every(*match.span(), seconds=_HOUR, minute=minute)


def _every_other(match: re.Match[str]) -> Every:
    unit = match["unit"].lower()
    if unit == "month":
        return Every(*match.span(), dom="1", month="*/2", open="months")
    if unit not in _SECONDS:
        return Every(*match.span(), seconds=2 * _WEEK, dow=str(_dow(unit)))
    return Every(*match.span(), seconds=2 * _SECONDS[unit], open="week" if _SECONDS[unit] == _WEEK else None)


def _short_step(match: re.Match[str]) -> Every:
    return Every(*match.span(), seconds=int(match["n"]) * _SECONDS[match["unit"].lower()])


def _adverb(match: re.Match[str]) -> Every:
    """Hourly, weekly, biweekly, …"""
    word = match[0].lower().replace("-", "")
    if word == "hourly":
        return Every(*match.span(), seconds=_HOUR)
    return Every(*match.span(), open="fortnight" if word in ("biweekly", "fortnightly") else word)


def _count(groups: dict[str, str]) -> float:
    """How many of its unit a span has: halves are said before the unit, behind it, or alone."""
    word, half = groups.get("n"), groups.get("half", "")
    more = "and_half" in groups or "more_half" in groups or (half and word not in (None, "半"))
    if word == "半" or (half and word is None):
        return (0.25 if half.startswith("quarter") else 0.5) + (0.5 if more else 0.0)
    return number(word or "1") + (0.5 if more else 0.0)


def _step(match: re.Match[str]) -> Every | Impossible:
    """Every so many of a unit; a unit alone is every one of it."""
    groups, span = _groups(match), match.span()
    count, unit = _count(groups), groups["unit"]
    unit = unit if unit in _SECONDS else unit.removesuffix("s")
    if count <= 0:
        return Impossible(*span, "it has to be every 1 or more")
    if unit not in _SECONDS:
        if count == 1:
            return Every(*span, open={"月": "month", "年": "year"}.get(unit, unit))
        return Impossible(*span, "a step of months or years needs a day")
    seconds = round(count * _SECONDS[unit])
    if seconds == _DAY:
        return Every(*span)
    if seconds == _WEEK:
        return Every(*span, open="week")
    return Every(*span, seconds=seconds, open="fortnight" if seconds % _WEEK == 0 else None)


_ZH_NAME, _ZH_DAY = r"[一二三四五六日天]", r"[一二三四五六日天末1-7]"
_ZH_ON, _ZH_MONTH = r"(?:每(?:个|逢)?)?", r"每(?:个)?月的?"
_ZH_FIRST, _ZH_LAST = (rf"(?P<{end}>[一二三四五六日天1-7])" for end in ("first", "last"))
#: Several days of the week: 周一三五, 周一、周三和周五.
_ZH_MORE = rf"(?:[、,和跟及]?(?:{WEEK})?{_ZH_NAME}(?![个点号月十:]))"
_ZH_DAYS = rf"{_ZH_DAY}(?:(?:[、,和跟及与]|以及)?(?:每?{WEEK})?{_ZH_DAY}(?![个点号月:]))*"
_EN_DAYS = rf"{EN_WEEKDAY}s?(?:(?:,? and |,? or |, ?| ?& ?| ?/ ?){EN_WEEKDAY}s?)*\b"
_PLURAL = r"(?:mon|tues|wednes|thurs|fri|satur|sun)days"
#: Several days of the month: 1号和15号, "1st and 15th".
_ZH_DATES = rf"{ZH}[号日]?(?:[、,和跟及]{ZH}[号日]?)*"
_AND_DATE = rf"(?:,? and |, ?)(?:the )?\d{{1,2}}{TH}"
_EN_DATES = rf"(?P<days>\d{{1,2}}{TH}(?:{_AND_DATE})*)"
_EACH, _ONCE = r"\b(?:every|each)", r"\b(?:every|each|once every|once an?|per)"
_EACH_YEAR = rf"(?:{_EACH} year,? (?:on )?|\b(?:yearly|annually),? on )"
_EN_ON, _EN_TO = r"\b(?:every |each |from |on )?", r"to|through|thru|till|-|–"
_EN_NTH = rf"(?P<nth>{'|'.join(_NTH)}) (?P<day>{EN_WEEKDAY})"
_PAST_HOUR = r"(?: minutes?)?(?: past)?(?: the hour)?"
_ZH_UNIT = r"秒钟?|分钟?(?!钱)|刻钟|小时|钟头|天|日|夜|周|星期|礼拜|月|年"
_EN_UNIT = r"seconds?|minutes?|mins?|hours?|hrs?|days?|weeks?|fortnight|months?|quarters?|years?"
_HALF, _AND_HALF = r"(?P<half>half[- ](?:an )?|quarter[- ](?:of an )?)", r"(?P<and_half>and a half )?"
_MORE_HALF = r"(?P<more_half> and a half)?"
#: Behind "weekly" these say what kind of thing something is.
_THINGS = "report review update summary meeting newsletter email digest backup sync standup plan budget rent"
_NO_THING = rf"(?! (?:{'|'.join(_THINGS.split())}))"
_daily, _workdays, _weekends = _always(), _always(dow="1-5"), _always(dow="0,6")
_RULES: list[tuple[_Reader, str]] = [
    (_range, rf"{_ZH_ON}{WEEK}{_ZH_FIRST}(?:到|至|-|~|—)(?:{WEEK})?{_ZH_LAST}(?:的?每天|每日|天天)?"),
    (_range, rf"{_EN_ON}(?P<first>{EN_WEEKDAY})s? ?(?:{_EN_TO}) ?(?P<last>{EN_WEEKDAY})s?\b"),
    (_workdays, rf"{_ZH_ON}(?:工作日|上班日)(?:的?每天)?|平日(?=里|早|上|中|下|晚|\d)"),
    (_workdays, r"\b(?:(?:every|each|on|all) )?(?:week ?days?|work(?:ing)? ?days?|business days?)\b"),
    (_weekly, rf"(?:每(?:个|逢|到)?|逢){WEEK}的?(?:{WEEK})?(?P<days>{_ZH_DAYS})都?"),
    (_weekly, rf"(?<![上下这本个每]){WEEK}(?P<days>{_ZH_NAME}{_ZH_MORE}{{1,6}})"),
    (_weekends, r"每(?:个|到|逢)?周末(?:两天)?|周末(?:每天|两天|都)|双休日"),
    (_weekends, r"\b(?:(?:every|each) weekend|on weekends|weekends|all weekends)\b"),
    (_nth_weekday, rf"{_ZH_MONTH}(?P<nth>第[一二三四1-4]|最后)一?个?{WEEK}(?P<day>{_ZH_NAME})"),
    (_nth_weekday, rf"\b(?:on |every )?(?:the )?{_EN_NTH} (?:of )?(?:every|each|the) month\b"),
    (_nth_weekday, rf"\bevery month on the {_EN_NTH}\b"),
    (_every_other, r"每?隔[一1]?个?(?P<unit>天|日|周|星期|礼拜)(?![提醒]*后)"),
    (_every_other, rf"{_EACH} (?:other|second|2nd) (?P<unit>{EN_WEEKDAY}|day|week|month|hour)\b"),
    (_every_other, r"\bon alternate (?P<unit>day|week)s\b"),
    (_weekly, rf"(?:{_EACH}(?: single| week on)? |\bweekly on |\bonce a week on )(?P<days>{_EN_DAYS})"),
    (_weekly, rf"\b(?:on )?(?P<days>(?:{_PLURAL}(?:,? and |, ?| & )?){{1,7}})"),
    (_month_days, rf"(?:每(?:个)?月|每逢)的?(?P<days>{_ZH_DATES})(?<=[号日])"),
    (_month_days, rf"{_ZH_MONTH}第(?P<days>{ZH})天"),
    (_month_days, rf"\b(?:on )?(?:the )?{_EN_DATES}(?: day)? (?:of )?(?:every|each) month\b"),
    (_month_days, rf"(?:{_EACH} month,? (?:on )?|\bmonthly,? on )(?:the )?{_EN_DATES}\b"),
    (_month_days, rf"\b(?:on )?the {_EN_DATES},? monthly\b"),
    (_month_days, rf"\b(?:on )?the (?P<days>\d{{1,2}}{TH}(?:{_AND_DATE})+)(?! of)"),
    (_month_days, rf"\bevery (?P<days>\d{{1,2}}{TH}) of the month\b"),
    (_month_end, rf"{_ZH_MONTH}(?P<where>月底|月末|底|末|最后一天|最后一日|月初|初|第一天|月中|中旬?)"),
    (_month_end, r"(?P<where>月底|月末|月初)(?=都|每次)"),
    (_month_end, r"\b(?:on |at )?the (?P<where>last|first|end)(?: day)? of (?:every|each) month\b"),
    (_month_end, rf"{_EACH} month,? (?:on |at )?the (?P<where>last|first|end)(?: day| of the month)\b"),
    (_month_end, r"\bevery (?P<where>first|last)(?: day)? of (?:the|a) month\b"),
    (_month_end, r"\b(?P<where>month[- ]end|end of month)\b"),
    (_yearly, rf"每(?:逢)?年的?(?P<month>{ZH})月的?(?P<day>{ZH})[日号]?"),
    (_yearly, rf"每(?:逢)?年的?(?P<holiday>{ZH_HOLIDAYS})"),
    (_yearly, rf"(?:{_EACH_YEAR}|\bevery )(?P<month>{EN_MONTH}) (?:the )?(?P<day>\d{{1,2}}){TH}?\b"),
    (_yearly, rf"{_EACH_YEAR}(?:the )?(?P<day>\d{{1,2}}){TH}?(?: of)? (?P<month>{EN_MONTH})"),
    (_yearly, rf"{_EACH} (?P<holiday>{EN_HOLIDAYS})\b"),
    (_quarterly, r"每(?:个)?季度的?(?P<which>第一天|最后一天|初|末)?"),
    (_quarterly, rf"{_EACH} quarter,? on the (?P<which>first|last)(?: day)?\b"),
    (_in_months, rf"每(?:隔)?(?P<n>{ZH})个月的?(?:(?P<day>{ZH})[号日])?"),
    (_always("1", "*/6", is_open="half year"), "每半年"),
    (_hourly, rf"每(?:个)?小时的?第?(?P<minute>{ZH})分(?!钟)"),
    (_hourly, r"(?:每(?:到|逢|个)?|(?<![点前后在定赶到]))整点"),
    (_hourly, rf"{_EACH} hour,? at (?P<minute>\d{{1,2}}|quarter|half){_PAST_HOUR}\b"),
    (_hourly, rf"\bat (?P<minute>{EN}|quarter|half) (?:minutes )?past (?:every|each|the) hour\b"),
    (_hourly, r"\b(?:on the hour|at the top of (?:every|each|the) hour)\b"),
    (_step, rf"每(?:隔|过)?(?P<n>{ZH}|半)?个?(?P<half>半)?(?P<unit>{_ZH_UNIT})(?P<more_half>半)?"),
    (_step, rf"{_ONCE} ?(?:(?P<n>{EN}) |{_HALF})?{_AND_HALF}(?P<unit>{_EN_UNIT})\b{_MORE_HALF}"),
    (_short_step, r"\bevery (?P<n>\d{1,4}) ?(?P<unit>m|min|mins|h|hrs?|s)\b"),
    (_daily, r"(?<![今明后昨前每聊冬夏秋春])天天(?![气空]|向上)|日日|每(?=[早晚夜])|每天"),
    (_daily, r"每个?(?=早上|早晨|上午|中午|下午|傍晚|晚上|夜里|凌晨|深夜|半夜)"),
    (_daily, r"\b(?:daily|every ?day|each day|all days|nightly)\b"),
    (_daily, rf"{_EACH}(?= (?:morning|afternoon|evening|night|noon|midnight|lunchtime)\b)"),
    (_adverb, rf"\b(?:hourly|(?:bi-?)?weekly|fortnightly|monthly|quarterly|yearly|annually)\b{_NO_THING}"),
]
_PATTERNS = [(reader, re.compile(pattern, re.IGNORECASE)) for reader, pattern in _RULES]
_EXCEPT = re.compile(
    rf"(?:除了?|不含|不包括)每?个?(?P<zh>(?:{WEEK}[一二三四五六日天末][、和]?){{1,6}})(?:以外|之外|外)?"
    rf"|\b(?:except|but not|excluding)(?: on| for)? (?P<en>weekends|{_EN_DAYS})",
    re.IGNORECASE,
)


def find_recurrences(text: str) -> list[Every | Impossible]:
    """Everything that comes again in a text; it may overlap."""
    return [reader(match) for reader, pattern in _PATTERNS for match in pattern.finditer(text)]


def find_exceptions(text: str) -> tuple[set[int], list[tuple[int, int]]]:
    """Weekdays (Sunday 0) that are left out, and where that is said."""
    matches = list(_EXCEPT.finditer(text))
    phrases = [match["zh"] or match["en"] for match in matches]
    weekdays = [{0, 6} if words.lower() == "weekends" else _weekdays(words) for words in phrases]
    return set().union(*weekdays), [match.span() for match in matches]


@dataclass(frozen=True, slots=True)
class Offset:
    """So long from now; ``months`` beside ``by`` are calendar months."""

    start: int
    end: int
    by: timedelta
    months: int = 0
    #: Days, weeks, months: the time of day is open.
    in_days: bool = False
    #: A timer, which is a request without further words.
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


def _compiled(*patterns: str) -> list[re.Pattern[str]]:
    return [re.compile(pattern, re.IGNORECASE) for pattern in patterns]


_ZH_SPAN = (
    rf"(?P<n>{ZH}|半)个?(?P<half>半)?(?P<unit>mins?|h|秒钟?|分钟?|刻钟|小时|钟头|天|日|周|星期|礼拜|月|年)"
    rf"(?P<more_half>半(?!夜|天))?"
    rf"(?:零?(?P<more>{ZH})(?P<more_unit>分钟?|小时|天|秒))?"
)
_EN_SPAN = (
    rf"(?:(?P<half>half an?|half) |(?P<n>{EN}) ){_AND_HALF}"
    r"(?P<unit>second|sec|minute|min|hour|hr|day|week|fortnight|month|year)s?\b"
    rf"{_MORE_HALF}(?:(?: and|,)? (?P<more>{EN}) (?P<more_unit>minute|min|hour)s?)?"
)
_IN = r"\b(?:in(?: about| exactly| like| around| roughly| just)?|after)"
_AFTER = _compiled(
    rf"(?<![\d.月第点])(?:再?过|再?等)?{_ZH_SPAN}钟?(?:以|之|过)?后(?!天)",
    rf"(?:再?过|再?等){_ZH_SPAN}钟?(?!前)",
    rf"{_IN} {_EN_SPAN}(?: time\b| from now\b)?",
    rf"{_IN} (?P<n>\d{{1,3}}) ?(?P<unit>h|m|min|mins|hrs?|d)\b(?: time\b| from now\b)?",
    rf"\b{_EN_SPAN} (?:from now|later)\b",
    r"\bin (?:a|(?P<n>three)) (?P<unit>quarters? of an hour)\b",
    rf"\b(?P<n>{EN}) (?P<unit>day|week)s? from (?:today|(?P<tomorrow>tomorrow))\b",
)
_TIMER = _compiled(
    rf"(?:倒计时|计时|定时|闹钟|闹铃){_ZH_SPAN}",
    rf"{_ZH_SPAN}钟?后?的?(?:倒计时|计时器?|定时器?|番茄钟|闹钟)",
    rf"\b(?:timer|countdown)(?: for)? {_EN_SPAN}",
    rf"\b(?P<n>{EN})[- ](?P<unit>minute|min|hour)s? (?:timer|countdown)\b",
)
_LEAD = _compiled(
    rf"提前{_ZH_SPAN}",
    rf"{_ZH_SPAN}(?:之|以)?前(?=提醒|叫|通知|喊)",
    rf"\b{_EN_SPAN} (?:before(?:hand)?|prior(?: to)?|ahead(?: of)?|early|earlier)\b",
)
_SHIFT = _compiled(
    rf"(?:(?P<way>提前|提早|往前[挪移提调]?|早)|推迟|延后|延迟|顺延|往后[推挪移延拖]?|晚|延)[个了]?{_ZH_SPAN}(?!后|前)",
    r"\b(?P<way>back|forward|later|up|postpone\w*|delay\w*)(?: (?:it|this|that|the|my|[a-z]+)){0,4}?"
    rf" (?:by )?(?P<span>{_EN_SPAN})",
    rf"\b(?:by )?{_EN_SPAN} (?P<way>later|earlier|sooner|longer)\b",
)
_EARLIER = ("earlier", "sooner", "forward", "up", "提", "往", "早")


def find_shift(text: str) -> Shift | None:
    """How far a message shifts something: 推迟半小时, "an hour later", "back by ten minutes"."""
    for match in (match for pattern in _SHIFT for match in pattern.finditer(text)):
        offset, groups = _offset(match), _groups(match)
        if not offset.months:
            by = -offset.by if groups.get("way", "").startswith(_EARLIER) else offset.by
            # "back the dentist by an hour": what is shifted is no part of it
            return Shift(match.start("span" if "span" in groups else 0), match.end(), by)
    return None


def find_offsets(text: str) -> list[Offset | Lead]:
    """Every span from now, or before something, in a text."""
    spans: list[Offset | Lead] = [_offset(match) for each in _AFTER for match in each.finditer(text)]
    spans += [replace(_offset(match), timer=True) for each in _TIMER for match in each.finditer(text)]
    before = [_offset(match) for each in _LEAD for match in each.finditer(text)]
    return spans + [Lead(offset.start, offset.end, offset.by) for offset in before if not offset.months]


def _offset(match: re.Match[str]) -> Offset:
    groups = _groups(match)
    count, unit = _count(groups), groups["unit"]
    if unit in ("月", "month", "年", "year"):
        months = count * (1 if unit in ("月", "month") else 12)
        half_month = timedelta(days=15 if months % 1 else 0)
        return Offset(*match.span(), half_month, int(months), in_days=True)
    by = timedelta(seconds=count * _SECONDS[unit], days="tomorrow" in groups)
    if "more" in groups:
        by += timedelta(seconds=number(groups["more"]) * _SECONDS[groups["more_unit"]])
    return Offset(*match.span(), by, in_days=_SECONDS[unit] >= _DAY)
