"""What comes again: 每周一三五, 工作日, 每隔两天, "every other Friday", "on the 1st of each month".

How long from now, and how long before: 半小时后, "in 20 minutes", 提前十分钟, "an hour before".
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import timedelta

from engine.times.clocks import (
    EN,
    EN_MONTH,
    EN_WEEKDAY,
    HOLIDAYS,
    WEEK,
    ZH,
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


_ZH_DAY = r"[一二三四五六日天末1-7]"
_ZH_DAYS = rf"{_ZH_DAY}(?:(?:[、,和跟及与]|以及)?(?:每?{WEEK})?{_ZH_DAY}(?![个点号月:]))*"
_ZH_RANGE = (
    rf"{WEEK}(?P<first>[一二三四五六日天1-7])(?:到|至|-|~|—)(?:{WEEK})?(?P<last>[一二三四五六日天1-7])"
)
_EN_LIST = rf"{EN_WEEKDAY}s?(?:(?:,? and |,? or |, ?| ?& ?| ?/ ?){EN_WEEKDAY}s?)*\b"
_LAST = 5
_ORDINAL = {
    "first": 1,
    "second": 2,
    "third": 3,
    "fourth": 4,
    "last": _LAST,
    "1st": 1,
    "2nd": 2,
    "3rd": 3,
    "4th": 4,
}
_DAYS_OF_MONTH = r"\d{1,2}(?:st|nd|rd|th)(?:(?:,? and |, ?)(?:the )?\d{1,2}(?:st|nd|rd|th))*"

_EN_HOLIDAYS = "|".join(sorted((name for name in HOLIDAYS if name.isascii()), key=len, reverse=True))
_RULES: dict[str, str] = {
    "zh_range": rf"(?:每(?:个|逢)?)?{_ZH_RANGE}(?:的?每天|每日|天天)?",
    "zh_workdays": r"(?:每(?:个|逢)?)?(?:工作日|上班日)(?:的?每天)?|平日(?=里|早|上|中|下|晚|\d)",
    "zh_weekly": (
        rf"(?:每(?:个|逢|到)?|逢)(?:{WEEK})(?:的)?(?:{WEEK})?(?P<zh_days>{_ZH_DAYS})(?:都)?|(?<![上下这本个每]){WEEK}(?P<zh_days2>[一二三四五六日天](?:[、"
        rf",和跟及]?(?:{WEEK})?[一二三四五六日天](?![个点号月十:])){{1,6}})"
    ),
    "zh_weekends": r"(?:每(?:个|到|逢)?)周末(?:两天)?|周末(?:每天|两天|都)|双休日",
    "zh_nth": (
        rf"每(?:个)?月的?(?:第(?P<zh_nth>[一二三四1-4])|(?P<zh_last>最后))一?个?{WEEK}(?P<zh_nth_day>[一二三四五六日天])"
    ),
    "zh_month_days": (
        rf"(?:每(?:个)?月|每逢)的?(?P<zh_dom>{ZH}[号日]?(?:[、"
        rf",和跟及]{ZH}[号日]?)*)(?<=[号日])|每(?:个)?月的?第(?P<zh_dom_nth>{ZH})天"
    ),
    "zh_month_end": (
        r"每(?:个)?月的?(?P<zh_end>月底|月末|底|末|最后一天|最后一日|月初|初|第一天|月中|中旬?)|(?P<zh_end2>月底|月末|月初)(?=都|每次)"
    ),
    "zh_yearly": (
        rf"每(?:逢)?年的?(?:(?P<zh_month>{ZH})月的?(?P<zh_day>{ZH})[日号]?"
        rf"|(?P<zh_holiday>{'|'.join(name for name in HOLIDAYS if not name.isascii())}))"
    ),
    "zh_quarter": r"每(?:个)?季度的?(?P<zh_quarter>第一天|最后一天|初|末)?",
    "zh_months": (
        rf"每(?:隔)?(?P<zh_months>{ZH})个月的?(?:(?P<zh_months_day>{ZH})[号日])?|每(?P<zh_half_year>半年)"
    ),
    "zh_hour_minute": (
        rf"每(?:个)?小时的?第?(?P<zh_minute>{ZH})分(?!钟)|(?:每(?:到|逢|个)?|(?<![点前后在定赶到]))(?P<zh_sharp>整点)"
    ),
    "zh_skip": r"(?:每)?(?P<zh_skip>隔[一1]?个?(?:天|日|周|星期|礼拜))(?![提醒]*后)",
    "zh_step": (
        rf"每(?:隔|过)?(?P<zh_n>{ZH}|半)?个?(?P<zh_half>半)?(?P<zh_unit>秒钟?|分钟?(?!钱)|刻钟|小时|钟头|天|日|夜|周|星期|礼拜|月|年)(?P<zh_half2>半)?"
    ),
    "zh_daily": (
        r"(?<![今明后昨前每聊冬夏秋春])天天(?![气空]|向上)|日日|每(?=[早晚夜])|每个?(?=早上|早晨|上午|中午|下午|傍晚|晚上|夜里|凌晨|深夜|半夜)|每天"
    ),
    "en_range": (
        rf"\b(?:every |each |from |on )?(?P<en_first>{EN_WEEKDAY})s? ?(?:to|through|thru|till|-|–)"
        rf" ?(?P<en_last>{EN_WEEKDAY})s?\b"
    ),
    "en_workdays": r"\b(?:(?:every|each|on|all) )?(?:week ?days?|work(?:ing)? ?days?|business days?)\b",
    "en_weekends": r"\b(?:(?:every|each) weekend|on weekends|weekends|all weekends)\b",
    "en_nth": (
        r"\b(?:on |every )?(?:the )?(?P<en_nth>first|second|third|fourth|last|1st|2nd|3rd|4th)"
        rf" (?P<en_nth_day>{EN_WEEKDAY}) (?:of )?(?:every|each|the) month\b|"
        r"\bevery month on the (?P<en_nth2>first|second|third|fourth|last|1st|2nd|3rd|4th)"
        rf" (?P<en_nth_day2>{EN_WEEKDAY})\b"
    ),
    "en_other": (
        rf"\b(?:every|each) (?:other|second|2nd) (?P<en_other>{EN_WEEKDAY}|day|week|month|hour)\b|\bon"
        r" alternate (?P<en_other2>day|week)s\b"
    ),
    "en_weekly": (
        r"\b(?:(?:every|each)(?: single| week on)? |weekly on |once a week on"
        rf" )(?P<en_days>{_EN_LIST})|\b(?:on"
        r" )?(?P<en_plural>(?:(?:mon|tues|wednes|thurs|fri|satur|sun)days(?:,? and |, ?| & )?){1,7})"
    ),
    "en_month_days": (
        rf"\b(?:on )?(?:the )?(?P<en_dom>{_DAYS_OF_MONTH})(?: day)? (?:of )?(?:every|each)"
        rf" month\b|\b(?:every|each) month,? (?:on )?(?:the )?(?P<en_dom2>{_DAYS_OF_MONTH})\b|\bmonthly,? on"
        rf" (?:the )?(?P<en_dom3>{_DAYS_OF_MONTH})\b|\b(?:on )?the (?P<en_dom4>{_DAYS_OF_MONTH}),?"
        r" monthly\b|\b(?:on )?the (?P<en_dom6>\d{1,2}(?:st|nd|rd|th)(?:(?:,? and |, ?)(?:the"
        r" )?\d{1,2}(?:st|nd|rd|th))+)(?! of)|\bevery (?P<en_dom5>\d{1,2}(?:st|nd|rd|th)) of the month\b"
    ),
    "en_month_end": (
        r"\b(?:on |at )?the (?P<en_end>last|first|end)(?: day)? of (?:every|each) month\b|\b(?:every|each)"
        r" month,? (?:on |at )?the (?P<en_end2>last|first|end)(?: day| of the month)\b|\bevery"
        r" (?P<en_end4>first|last)(?: day)? of (?:the|a) month\b|\b(?P<en_end3>month[- ]end|end of month)\b"
    ),
    "en_yearly": (
        rf"\b(?:every|each) year,? (?:on )?(?:(?P<en_month>{EN_MONTH}) (?:the"
        r" )?(?P<en_day>\d{1,2})(?:st|nd|rd|th)?|(?:the )?(?P<en_day2>\d{1,2})(?:st|nd|rd|th)?(?: of)?"
        rf" (?P<en_month2>{EN_MONTH}))|\b(?:yearly|annually),? on (?P<en_month3>{EN_MONTH})"
        r" (?P<en_day3>\d{1,2})(?:st|nd|rd|th)?|"
        r"\b(?:every|each)"
        rf" (?P<en_holiday>{_EN_HOLIDAYS})\b"
        rf"|\bevery (?P<en_month4>{EN_MONTH}) (?P<en_day4>\d{{1,2}})(?:st|nd|rd|th)?\b"
    ),
    "en_quarter": r"\b(?:every|each) quarter,? on the (?P<en_quarter>first|last)(?: day)?\b",
    "en_hour_minute": (
        r"\b(?:every|each) hour,? at (?P<en_minute>\d{1,2}|quarter|half)(?: minutes?)?(?: past)?(?: the"
        rf" hour)?\b|\bat (?P<en_minute2>{EN}|quarter|half) (?:minutes )?past (?:every|each|the)"
        r" hour\b|\b(?P<en_sharp>on the hour|at the top of (?:every|each|the) hour)\b"
    ),
    "en_step": (
        rf"\b(?:every|each|once every|once an?|per) ?(?:(?P<en_n>{EN}) )?(?P<en_half>half[- ](?:an"
        r" )?|quarter[- ](?:of an )?)?(?P<en_and_half>and a half"
        r" )?(?P<en_unit>seconds?|minutes?|mins?|hours?|hrs?|days?|weeks?|fortnight|months?|quarters?"
        r"|years?)\b(?P<en_half2>"
        r" and a half)?"
    ),
    "en_short": r"\bevery (?P<en_short_n>\d{1,4}) ?(?P<en_short>m|min|mins|h|hrs?|s)\b",
    "en_daily": (
        r"\b(?P<en_daily>daily|every ?day|each day|all days)\b|\b(?:every|each)(?="
        r" (?:morning|afternoon|evening|night|noon|midnight|lunchtime)\b)"
    ),
    "en_parts": r"\b(?P<en_nightly>nightly)\b",
    "en_ly": (
        r"\b(?P<en_ly>hourly|weekly|biweekly|bi-weekly|fortnightly|monthly|quarterly|yearly|annually)\b(?!"
        r" (?:report|review|update|summary|meeting|newsletter|email|digest|backup|sync|standup|plan|budget"
        r"|rent))"
    ),
}
_PATTERNS = {name: re.compile(pattern, re.IGNORECASE) for name, pattern in _RULES.items()}
_EXCEPT = re.compile(
    rf"(?:除了?|不含|不包括)(?:每?个?)(?P<zh>(?:{WEEK}[一二三四五六日天末][、"
    r"和]?){1,6})(?:以外|之外|外)?|\b(?:except|but not|excluding)(?: on| for)?"
    rf" (?P<en>weekends|{_EN_LIST})",
    re.IGNORECASE,
)
#: Seconds of the units that cron has no field for as it is said.
_MINUTE, _HOUR, _DAY, _WEEK = 60, 3_600, 86_400, 604_800


def find_recurrences(text: str) -> list[Every | Impossible]:
    """Everything that comes again in a text; it may overlap."""
    return [
        every
        for name, pattern in _PATTERNS.items()
        for match in pattern.finditer(text)
        if (every := _every(name, match)) is not None
    ]


def excepted(text: str) -> tuple[set[int], list[tuple[int, int]]]:
    """Weekdays (Sunday 0) that are left out, and where that is said."""
    weekdays: set[int] = set()
    places = []
    for match in _EXCEPT.finditer(text):
        places.append(match.span())
        if match["zh"]:
            words = re.findall(r"[一二三四五六日天末]", match["zh"])
            weekdays |= {day for word in words for day in ((0, 6) if word == "末" else (_dow(word),))}
        elif match["en"].lower() == "weekends":
            weekdays |= {0, 6}
        else:
            weekdays |= {_dow(word) for word in re.findall(EN_WEEKDAY, match["en"], re.IGNORECASE)}
    return weekdays, places


def _dow(word: str) -> int:
    return (weekday_index(word) + 1) % 7


def _range(first: str, last: str) -> str:
    """Weekdays from one to another as cron has them; from Saturday to Monday, too."""
    place, end = weekday_index(first), weekday_index(last)
    days = sorted((place + step + 1) % 7 for step in range((end - place) % 7 + 1))
    return "1-5" if days == [1, 2, 3, 4, 5] else "*" if len(days) == 7 else ",".join(map(str, days))


def _every(name: str, match: re.Match[str]) -> Every | Impossible | None:  # noqa: C901, PLR0911, PLR0912, PLR0915 – one case a form
    groups = {key: value for key, value in match.groupdict().items() if value is not None}
    start, end = match.span()

    def every(**fields: str | int | None) -> Every:
        return Every(start, end, **fields)  # type: ignore[arg-type]

    def value(*names: str) -> str:
        return next(groups[group] for group in names if group in groups)

    match name:
        case "zh_range":
            return every(dow=_range(groups["first"], groups["last"]))
        case "en_range":
            return every(dow=_range(groups["en_first"], groups["en_last"]))
        case "zh_workdays" | "en_workdays":
            return every(dow="1-5")
        case "zh_weekends" | "en_weekends":
            return every(dow="0,6")
        case "zh_weekly":
            words = re.findall(_ZH_DAY, value("zh_days", "zh_days2"))
            return every(
                dow=_list({day for word in words for day in ((0, 6) if word == "末" else (_dow(word),))})
            )
        case "en_weekly":
            return every(
                dow=_list(
                    {
                        _dow(word)
                        for word in re.findall(EN_WEEKDAY, value("en_days", "en_plural"), re.IGNORECASE)
                    }
                )
            )
        case "zh_nth":
            place = "L" if "zh_last" in groups else f"#{number(groups['zh_nth'])}"
            return every(dow=f"{_dow(groups['zh_nth_day'])}{place}")
        case "en_nth":
            nth = _ORDINAL[value("en_nth", "en_nth2").lower()]
            return every(
                dow=f"{_dow(value('en_nth_day', 'en_nth_day2'))}{'L' if nth == _LAST else f'#{nth}'}"
            )
        case "zh_month_days" | "en_month_days":
            phrase = value(
                "zh_dom", "zh_dom_nth", "en_dom", "en_dom2", "en_dom3", "en_dom4", "en_dom5", "en_dom6"
            )
            days = {number(word) for word in re.findall(r"\d{1,2}|[一二三四五六七八九十]{1,3}", phrase)}
            if any(not 1 <= day <= 31 for day in days):
                return Impossible(start, end, "no month has such a day")
            return every(dom=_list(days))
        case "zh_month_end" | "en_month_end":
            phrase = value("zh_end", "zh_end2", "en_end", "en_end2", "en_end3", "en_end4").lower()
            return every(
                dom=(
                    "1"
                    if "初" in phrase or "first" in phrase or "第一" in phrase
                    else "15"
                    if "中" in phrase
                    else "L"
                )
            )
        case "zh_yearly" | "en_yearly":
            if "zh_holiday" in groups or "en_holiday" in groups:
                month, day = HOLIDAYS[value("zh_holiday", "en_holiday").lower()]
            elif "zh_month" in groups:
                month, day = number(groups["zh_month"]), number(groups["zh_day"])
            else:
                month = month_index(value("en_month", "en_month2", "en_month3", "en_month4"))
                day = int(value("en_day", "en_day2", "en_day3", "en_day4"))
            if not 1 <= month <= 12 or not 1 <= day <= (
                29 if month == 2 else 30 if month in (4, 6, 9, 11) else 31
            ):
                return Impossible(start, end, f"there is no day {day} in month {month}")
            return every(dom=str(day), month=str(month))
        case "zh_quarter":
            which = groups.get("zh_quarter", "")
            return every(
                dom="L" if "最后" in which or which == "末" else "1",
                month="3,6,9,12" if "最后" in which or which == "末" else "1,4,7,10",
                open=None if which else "quarter",
            )
        case "en_quarter":
            last = groups["en_quarter"].lower() == "last"
            return every(dom="L" if last else "1", month="3,6,9,12" if last else "1,4,7,10")
        case "zh_months":
            if "zh_half_year" in groups:
                return every(dom="1", month="*/6", open="half year")
            step = number(groups["zh_months"])
            if 12 % step if step else True:
                return Impossible(start, end, "months come in steps of 1, 2, 3, 4, 6 or 12")
            return every(
                dom=str(number(groups["zh_months_day"])) if "zh_months_day" in groups else "1",
                month=f"*/{step}",
                open=None if "zh_months_day" in groups else "months",
            )
        case "zh_hour_minute":
            minute = number(groups["zh_minute"]) if "zh_minute" in groups else 0
            return (
                Impossible(start, end, f"an hour has no minute {minute}")
                if minute > 59
                else every(seconds=_HOUR, minute=minute)
            )
        case "en_hour_minute":
            phrase = groups.get("en_minute") or groups.get("en_minute2") or "0"
            return every(
                seconds=_HOUR, minute={"quarter": 15, "half": 30}.get(phrase.lower()) or number(phrase)
            )
        case "zh_skip":
            unit = groups["zh_skip"].lstrip("隔一1个")
            return every(seconds=2 * UNITS[unit], open="week" if UNITS[unit] == _WEEK else None)
        case "en_other":
            unit = value("en_other", "en_other2").lower()
            if unit in UNITS:
                return every(seconds=2 * UNITS[unit], open="week" if unit == "week" else None)
            return (
                every(dom="1", month="*/2", open="months")
                if unit == "month"
                else every(seconds=2 * _WEEK, dow=str(_dow(unit)))
            )
        case "zh_daily" | "en_daily" | "en_parts":
            return every()
        case "en_ly":
            word = groups["en_ly"].lower().replace("-", "")
            if word == "hourly":
                return every(seconds=_HOUR)
            return every(open={"biweekly": "fortnight", "fortnightly": "fortnight"}.get(word, word))
        case "en_short":
            return every(
                seconds=int(groups["en_short_n"])
                * {"m": 60, "h": 3_600, "s": 1}[groups["en_short"][0].lower()]
            )
    return _step(start, end, groups)


def _step(start: int, end: int, groups: dict[str, str]) -> Every | Impossible:
    """Every so many of a unit; a unit alone is every one of it."""
    word = groups.get("zh_n") or groups.get("en_n")
    unit = (groups.get("zh_unit") or groups["en_unit"]).lower()
    unit = unit if unit in UNITS else {"夜": "日"}.get(unit, unit.removesuffix("s"))
    part = groups.get("en_half", "").lower()
    count = (
        0.5
        if word == "半" or (part.startswith("half") and word is None)
        else 0.25
        if part.startswith("quarter")
        else float(number(word or "1"))
    )
    if (
        (word not in (None, "半") and groups.get("zh_half"))
        or groups.get("zh_half2")
        or groups.get("en_half2")
        or groups.get("en_and_half")
    ):
        count += 0.5
    if count <= 0:
        return Impossible(start, end, "it has to be every 1 or more")
    if unit not in UNITS:
        return (
            Every(start, end, open={"月": "month", "年": "year"}.get(unit, unit))
            if count == 1
            else Impossible(start, end, "a step of months or years needs a day")
        )
    seconds = round(count * UNITS[unit])
    if seconds == _DAY:
        return Every(start, end)
    if seconds == _WEEK:
        return Every(start, end, open="week")
    return Every(start, end, seconds=seconds, open="fortnight" if seconds % _WEEK == 0 else None)


def _list(days: set[int]) -> str:
    return "1-5" if days == {1, 2, 3, 4, 5} else ",".join(map(str, sorted(days)))


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
    rf"(?P<n>{ZH}|半)个?(?P<half>半)?(?P<unit>{_ZH_UNIT}|月|年)(?P<half2>半(?!夜"
    rf"|天))?(?:零?(?P<more>{ZH})(?P<more_unit>分钟?|小时|天|秒))?"
)
_ZH_AFTER = re.compile(
    rf"(?<![\d.月第点])(?:再?过|再?等)?{_ZH_SPAN}(?:钟)?(?:以|之|过)?后(?!天)|(?:再?过"
    rf"|再?等){_ZH_SPAN.replace('?P<', '?P<b_')}(?:钟)?(?!前)"
)
_ZH_TIMER = re.compile(
    rf"(?:倒计时|计时|定时|闹钟|闹铃){_ZH_SPAN}"
    rf"|{_ZH_SPAN.replace('?P<', '?P<b_')}(?:钟)?(?:后)?的?(?:倒计时|计时器?|定时器?|番茄钟|闹钟)"
)
_ZH_LEAD = re.compile(rf"提前{_ZH_SPAN}|{_ZH_SPAN.replace('?P<', '?P<b_')}(?:之|以)?前(?=提醒|叫|通知|喊)")
_EN_UNIT = r"second|sec|minute|min|hour|hr|day|week|fortnight|month|year"
_EN_SPAN = (
    rf"(?:(?P<half>half an?|half) |(?P<n>{EN}) )(?P<and_half>and a half )?(?P<unit>{_EN_UNIT})s?\b(?P<half2>"
    rf" and a half)?(?:(?: and|,)? (?P<more>{EN}) (?P<more_unit>minute|min|hour)s?)?"
)
_EN_QUARTERS = re.compile(r"\bin (?:a|(?P<three>three)) quarters? of an hour\b", re.IGNORECASE)
_EN_SHORT = r"(?P<s_n>\d{1,3}) ?(?P<s_unit>h|m|min|mins|hrs?|d)\b"
_EN_IN = re.compile(
    rf"\b(?:in(?: about| exactly| like| around| roughly| just)?|after) (?:{_EN_SPAN}|{_EN_SHORT})(?: time\b|"
    rf" from now\b)?|\b{_EN_SPAN.replace('?P<', '?P<b_')} (?:from now|later)\b",
    re.IGNORECASE,
)
_EN_TIMER = re.compile(
    rf"\b(?:timer|countdown)(?: for)? {_EN_SPAN}|\b(?P<b_n>{EN})[- ](?P<b_unit>minute|min|hour)s?"
    r" (?:timer|countdown)\b",
    re.IGNORECASE,
)
_EN_FROM = re.compile(
    rf"\b(?P<n>{EN}) (?P<unit>day|week)s? from (?:today|(?P<tomorrow>tomorrow))\b", re.IGNORECASE
)
_EN_LEAD = re.compile(
    rf"\b{_EN_SPAN} (?:before(?:hand)?|prior(?: to)?|ahead(?: of)?|early|earlier)\b", re.IGNORECASE
)


_ZH_SHIFT = re.compile(
    rf"(?P<earlier>提前|提早|往前[挪移提调]?|早)?(?:推迟|延后|延迟|顺延|往后[推挪移延拖]?|晚|延)?(?:个|了)?{_ZH_SPAN}(?!后|前)"
)
_ZH_WAY = re.compile(r"提前|提早|往前|早|推迟|延|往后|晚")
_EN_SHIFT = re.compile(
    rf"\b(?:by )?{_EN_SPAN} (?P<way>later|earlier|sooner|longer)\b"
    r"|\b(?P<b_way>back|forward|later|up|postpone\w*|delay\w*)(?: (?:it|this|that|the|my|[a-z]+)){0,4}?"
    rf" (?:by )?{_EN_SPAN.replace('?P<', '?P<b_')}",
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
                    min(place for name in ("b_half", "b_n") if (place := match.start(name)) >= 0)
                    if named.get("b_way")
                    else match.start()
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
        by = timedelta(seconds=number(match["n"]) * UNITS[match["unit"].lower()]) + timedelta(
            days=match["tomorrow"] is not None
        )
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
    count += (
        0.5
        if (word not in (None, "半") and named.get("half")) or named.get("half2") or named.get("and_half")
        else 0.0
    )
    if unit in ("月", "month", "年", "year"):
        months = count * (1 if unit in ("月", "month") else 12)
        return Offset(
            match.start(), match.end(), timedelta(days=15 if months % 1 else 0), int(months), in_days=True
        )
    by = timedelta(seconds=count * UNITS[unit])
    if "more" in named:
        by += timedelta(seconds=number(named["more"]) * UNITS[named["more_unit"].lower()])
    return Offset(match.start(), match.end(), by, in_days=UNITS[unit] >= DAY_SECONDS)
