"""Which appointment a message means, and its new time: "move the dentist from 3 to 5", 牙医改到周五.

One is meant only where no other fits as well: by the words and times that they share, else by the similarity
of their meanings. A wrong appointment cancelled is worse than a question.

What an agent says when it has created, cancelled, moved or listed schedules, or could not.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import pairwise
from uuid import UUID
from zoneinfo import ZoneInfo

from engine.appointments.parse import NO_TIME, TIME, blank_out, is_waking, words_of
from engine.appointments.schedule import ParsedSchedule, ScheduleTiming, Unclear
from engine.times import readings
from engine.times.clocks import HOUR_EN, WEEK, Clock, Day, Impossible, Part, at, number, of_waking
from engine.times.readings import Element, find_elements, groups, open_range
from engine.times.recurring import Every, Lead, Offset, Shift, find_shift
from jiyi.text.words import language_of, telling
from jiyi.zones import zone_of

#: Cosine from which on two texts mean the same thing, and how far the second best has to be behind.
SIMILAR, AHEAD = 0.5, 0.1
#: More appointments than this are not compared by meaning: each has to be embedded.
MOST_COMPARED = 100
#: Hours that a part of the day stands for: first and last.
HOURS_OF_PART: dict[Part, tuple[int, int]] = {
    "dawn": (0, 6),
    "morning": (4, 12),
    "noon": (11, 14),
    "afternoon": (12, 18),
    "evening": (17, 23),
    "night": (18, 23),
    "midnight": (0, 0),
}
#: Words that ask, and what every appointment is called: they do not distinguish appointments.
_FRAME = frozenset(
    telling(
        "cancel delete remove scrap drop forget never mind stop skip kill clear turn off back actually sorry"
        " undo bin lose set put move shift push pull bring change reschedule postpone delay swap switch make"
        " reminder reminders remind alarm alarms timer appointment appointments schedule scheduled plan"
        " planned notification alert ping nudge thing one ones instead rather earlier later please need want"
        " time times day list show tell what all any every new don't can could would let ok thanks wake buzz"
        " 取消 删除 删掉 撤销 撤掉 去掉 关掉 停掉 不用 不要 不必 别再 算了 免了 作废 改到 改成 改为 改期 挪到"
        " 挪动 移到 换到 换成 调到 调整 推迟 延后 延迟 提前 提醒 闹钟 闹铃 日程 安排 预约 计划 那个 这个 一个"
        " 一下 给我 帮我 我的 叫我 喊我 通知 时间 什么 哪些 列出 还有 今天 明天 后天"
    )
)
_CALL_OFF = re.compile(r"\bcall\b(?=[^,.;]{0,40}\boff\b)", re.IGNORECASE)
#: What Chinese orders consist of beside what they are about.
_IDLE_ZH = re.compile(
    r"取消|[删撤去关停消掉]|不用|不要|不必|不需要|别再?|算了|免了|作废|[改挪移换调推延][到成为期动整迟后]?|提前|提醒|闹钟|闹铃|日程|安排|预约|计划"
    r"|通知|时间|一下|还是|直接|[那这一]?个|[那这它请把给帮我你您的了吧呢吗叫喊就都到成去先啊呀嘛]"
)


@dataclass(frozen=True, slots=True)
class Appointment:
    """``times``: its next times in its time zone, the soonest first; ``again``: it comes again and again."""

    id: UUID
    task: str
    times: tuple[datetime, ...]
    again: bool


@dataclass(frozen=True, slots=True)
class Fit:
    """The appointments that a message may mean; ``sure``: it is the one there is."""

    appointments: tuple[Appointment, ...]
    sure: bool


#: Similarity of a text to each of others, -1 to 1.
Similarity = Callable[[str, Sequence[str]], Sequence[float]]


def match_appointments(
    text: str, times: Sequence[Element], planned: Sequence[Appointment], similarity: Similarity | None = None
) -> Fit:
    """Which appointment a message means.

    Args:
        text: its words without its times.
        times: the times that it says the appointment has.
        planned: the agent's appointments.
        similarity: compares meanings, where the local model is there.
    """
    text = _CALL_OFF.sub(" ", text)
    words = set(telling(text)) - _FRAME
    timely = [appointment for appointment in planned if all(_at(time, appointment) for time in times)]
    matches = _by_words(words, timely)
    if matches:
        return _one_of(matches)
    if times and (elsewhere := _by_words(words, planned)):
        return Fit(tuple(elsewhere), sure=False)  # its words fit, its times do not
    if not set(telling(_IDLE_ZH.sub(" ", text))) - _FRAME:  # "move it", 取消吧
        return _one_of(timely)
    if similarity is None or not 0 < len(timely) <= MOST_COMPARED:
        return Fit((), sure=False)
    return _by_meaning(text, timely, similarity)


def _by_words(words: set[str], planned: Sequence[Appointment]) -> list[Appointment]:
    """Those that share most with the words; a word that many appointments have counts less."""
    tokens = {appointment.id: set(telling(appointment.task)) for appointment in planned}
    often = Counter(token for words_of_task in tokens.values() for token in words_of_task)
    shared = {
        appointment.id: sum(1 / often[token] for token in tokens[appointment.id] & words)
        for appointment in planned
    }
    most = max(shared.values(), default=0.0)
    return [appointment for appointment in planned if shared[appointment.id] == most] if most else []


def _one_of(appointments: Sequence[Appointment]) -> Fit:
    return Fit(tuple(appointments), sure=len(appointments) == 1)


def _by_meaning(text: str, planned: Sequence[Appointment], similarity: Similarity) -> Fit:
    ranked = sorted(
        zip(similarity(text, [appointment.task for appointment in planned]), planned, strict=True),
        key=lambda pair: -pair[0],
    )
    best = ranked[0][0]
    near = tuple(appointment for cosine, appointment in ranked if cosine >= max(SIMILAR, best - AHEAD))
    return Fit(near, sure=len(near) == 1)


def _at(time: Element, appointment: Appointment) -> bool:
    """Whether an appointment has a time that somebody names."""
    match time:
        case Every():
            return appointment.again
        case Day():
            return bool(time.whole) or any(moment.date() in time.dates for moment in appointment.times)
        case Clock(stated=None, part=part):
            first, last = HOURS_OF_PART[part] if part else (0, 23)
            return any(first <= moment.hour <= last for moment in appointment.times)
        case Clock():
            of_day = {(hour, time.minute) for hour in time.hours}
            return any((moment.hour, moment.minute) in of_day for moment in appointment.times)
        case _:
            return True


#: What stands before the time that it had, and before the one that it gets.
_FROM = r"(?:\b(?:from|instead of|rather than|not(?: at| on)?)|从|不是|别|不要|原来的?|原定的?|本来)"
_TO = r"(?:\b(?:to|till|until|for|make it|make that)|[到成至为去在]|改)"
_OLD = re.compile(rf"{_FROM}\s?(?:the |my |at |on )?\Z", re.IGNORECASE)
_NEW = re.compile(rf"{_TO}\s?(?:the |at |on |be )?\Z", re.IGNORECASE)
_TO_TIME = re.compile(
    r"\W{0,3}(?:\b(?:to|till|until)\b|[改换挪移调]?[到成至为])\W{0,3}(?:the |at |on )?", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class ChangeTimes:
    """The times of a message that moves something: those it had, those it gets (in ``words``), or how far."""

    old: tuple[Element, ...]
    new: tuple[Element, ...]
    shift: Shift | None
    words: str
    #: The message without its times.
    rest: str
    #: It is about one time of what comes again: "this week", 这次.
    single: bool = False


#: One time of what comes again.
_SINGLE = re.compile(
    rf"(?:这|本)(?:个?(?:{WEEK}|月)|次|回)(?![一二三四五六日天末])"
    r"|\b(?:this|just this) (?:week|month|time|once)\b",
    re.IGNORECASE,
)
#: An hour that is only a number, where a message moves something: "move it to 9", "make it 9 instead".
_BARE_HOUR = re.compile(
    rf"\b(?:to|till|until|make (?:it|that)|make)\s(?P<hour>{HOUR_EN})"
    r"(?=\W{0,3}\Z|[,.;!?]|\s(?:instead|please|thanks|then|rather|not|if|and|today|tomorrow|on)\b)",
    re.IGNORECASE,
)


def read_change(text: str, now: datetime) -> ChangeTimes:
    """What a message, as :func:`engine.appointments.parse.readable` gives it, says of both times."""
    shift = find_shift(text)
    single = _SINGLE.search(text)
    if single is not None:
        text = text[: single.start()] + " " * len(single[0]) + text[single.end() :]
    times = [
        element
        for element in find_elements(text, now)
        if shift is None or element.end <= shift.start or element.start >= shift.end
    ]
    all_times: list[Element | Shift] = [*times, *([shift] if shift is not None else [])]
    for match in _BARE_HOUR.finditer(text):
        start, end = match.span("hour")
        if not any(start < element.end and element.start < end for element in all_times):
            times.append(at(start, end, number(match["hour"]), 0, None))
            all_times.append(times[-1])
    times.sort(key=lambda element: element.start)
    old: list[list[Element]] = []
    new: list[list[Element]] = []
    open_: list[list[Element]] = []
    for group in _split(text, times):
        before = text[: group[0].start]
        (old if _OLD.search(before) else new if _NEW.search(before) else open_).append(group)
    if shift is not None:
        old, new = [*old, *open_, *new], []
    elif new:
        old += open_
    else:  # "reschedule the dentist, Friday is better": the last time is the new one
        old, new = [*old, *open_[:-1]], open_[-1:]
    fresh = [element for group in new for element in group]
    between = open_range(text, times)
    if between is not None:
        fresh = [between]
    if is_waking(text):
        fresh = [of_waking(element) if isinstance(element, Clock) else element for element in fresh]
    rest = blank_out(text, [(element.start, element.end) for element in all_times]).replace(TIME, " ")
    had = tuple(element for group in old for element in group)
    return ChangeTimes(had, tuple(fresh), shift, words_of(text, fresh), rest, single is not None)


def _split(text: str, times: list[Element]) -> list[list[Element]]:
    """Words of times that stand together; "3 to 5" are two times."""
    split: list[list[Element]] = []
    for group in groups(text, [element for element in times if element.end > element.start]):
        split.append(group[:1])
        for before, element in pairwise(group):
            if _TO_TIME.fullmatch(text, before.end, element.start):
                split.append([element])
            else:
                split[-1].append(element)
    return split


def move_timing(timing: ScheduleTiming, to: ChangeTimes, now: datetime) -> ScheduleTiming | Unclear:
    """The new timing of an appointment, or why it is unclear. ``now`` is in its time zone."""
    last = timing.after(now)
    impossible = next((element.reason for element in to.new if isinstance(element, Impossible)), "")
    if last is None or impossible:
        return Unclear(impossible or "that time has passed", is_request=True)
    its = last.astimezone(zone_of(timing.tz))
    if timing.kind != "once" and to.single:
        return Unclear(_ONE_OF_MANY, is_request=True)
    if to.shift is not None:
        return _shifted(timing, its, to.shift.by, now)
    if not to.new:
        return Unclear(NO_TIME, is_request=True)
    if timing.kind == "once" or any(isinstance(element, Every) for element in to.new):
        return _read(timing, its, to.new, now)
    return _again(timing, to.new)


def _read(
    timing: ScheduleTiming, its: datetime, new: Sequence[Element], now: datetime
) -> ScheduleTiming | Unclear:
    """A time by the grammar; what it leaves open, the day or the hour, stays as it was."""
    used = list(new)
    if not any(isinstance(element, Day | Offset | Every | Lead) for element in used):
        used.append(Day(0, 0, (its.date(),)))
    used = [_near(element, its.hour) if isinstance(element, Clock) else element for element in used]
    if not any(isinstance(one, Clock) or (isinstance(one, Offset) and not one.in_days) for one in used):
        used.append(Clock(0, 0, (its.hour,), its.minute, stated=its.hour))
    meaning = readings.read(used, None, set(), now, zone_of(timing.tz))
    if not meaning.readings:
        return Unclear(meaning.reason, is_request=True)
    first = meaning.readings[0]
    return ScheduleTiming(first.kind, first.cron, first.at, first.every_seconds, timing.tz)


#: Hour before which nothing is put that was later in the day.
NIGHT_ENDS = 6


def _near(clock: Clock, hour: int) -> Clock:
    """A bare hour is the one nearest to the hour that it replaces: from 20:00 to "9" is to 21:00."""
    if clock.certain or clock.stated is None or clock.part is not None:
        return clock
    hours = sorted(clock.hours, key=lambda one: (one < NIGHT_ENDS <= hour, abs(one - hour)))
    return replace(clock, hours=tuple(hours))


def _shifted(timing: ScheduleTiming, its: datetime, by: timedelta, now: datetime) -> ScheduleTiming | Unclear:
    to = its + by
    if timing.kind == "once":
        return _once(timing, to) if to > now else Unclear("that time has passed", is_request=True)
    fields = _daily_fields(timing)
    if not fields or to.date() != its.date():
        return Unclear(_ONE_OF_MANY, is_request=True)
    return _cron(timing, [str(to.minute), str(to.hour), *fields[2:]])


def _daily_fields(timing: ScheduleTiming) -> list[str]:
    """The fields of a cron expression of one time of day; none of anything else."""
    fields = (timing.cron or "").split() if timing.kind == "cron" else []
    return fields if fields and fields[0].isdecimal() and fields[1].isdecimal() else []


def _again(timing: ScheduleTiming, new: Sequence[Element]) -> ScheduleTiming | Unclear:
    """What comes again, at another time of day or on another day of the week or month."""
    fields = _daily_fields(timing)
    clock = next((element for element in new if isinstance(element, Clock)), None)
    day = next((element for element in new if isinstance(element, Day) and not element.whole), None)
    if not fields or not (clock or day):
        return Unclear(_ONE_OF_MANY, is_request=True)
    if clock is not None:
        fields[:2] = str(clock.minute), str(_near(clock, int(fields[1])).hours[0])
    if day is not None:
        if fields[4].isdecimal():
            fields[4] = str(day.dates[0].isoweekday() % 7)
        elif fields[2].isdecimal():
            fields[2] = str(day.dates[0].day)
        else:
            return Unclear(_ONE_OF_MANY, is_request=True)
    return _cron(timing, fields)


#: Why an appointment that comes again is not moved.
_ONE_OF_MANY = "a single time of what comes again cannot be moved"


def only_one_time(times: ChangeTimes) -> bool:
    """Whether it is about a single time: "cancel tomorrow's", 这周不用了; not "the Monday one"."""
    days = [time for time in (*times.old, *times.new) if isinstance(time, Day)]
    return times.single or any(day.whole or len(day.dates) == 1 for day in days)


def _once(timing: ScheduleTiming, at: datetime) -> ScheduleTiming:
    return ScheduleTiming("once", f"{at.minute} {at.hour} {at.day} {at.month} *", at, None, timing.tz)


def _cron(timing: ScheduleTiming, fields: Sequence[str]) -> ScheduleTiming:
    return ScheduleTiming("cron", " ".join(fields), None, None, timing.tz)


#: How reasons begin, and what they are in Chinese; the longest beginnings first.
REASONS_ZH = {
    "there is no day": "没有这一天",
    "no month has": "没有这一天",
    "that month has no day": "那个月没有这一天",
    "there is no": "没有这个时刻",
    "an hour has no minute": "没有这个时刻",
    "before what?": "在什么之前？请说明那件事的时间",
    "no time": "没有说时间",
    NO_TIME: "没有说什么时候",
    "which time between": "两个时间之间的哪一个时刻？",
    "a lunar day comes": "农历的日子每次公历日期不同，只能记一次，请说哪一年或哪一天",
    "the lunar year": "农历年和公历年不同，是哪一年的那一天？请说公历日期",
    "which day of the week?": "星期几？",
    "which day": "哪一天？",
    "no day is left": "没有剩下的日子",
    "times with different minutes": "分钟数不同的几个时间，请分开说",
    "several times": "一次有好几个时间，请分开说",
    "the first time is after the last": "开始时间晚于结束时间",
    "once a minute": "最快每分钟一次",
    "such a step": "这样的间隔排不进一天；请不要限定哪几天，或换一个能整除一小时或一天的间隔",
    "that time has passed": "那个时间已经过去了",
    "that day has passed": "那一天已经过去了",
    "months come in steps": "按月的间隔只能是 1、2、3、4、6 或 12 个月",
    "it has to be every 1": "间隔至少是 1",
    "a step of months": "按月或按年的间隔需要说明哪一天",
    "nothing is asked": "没有听出要在什么时间做什么",
    "a single time of what comes again": "重复的安排不能只改其中一次，请说明以后都改到什么时候",
}


def confirmation(schedule: ParsedSchedule, next_run: datetime | None, text: str, *, sure: bool) -> str:
    """A sentence in the language of what was said."""
    when = _local(next_run, schedule.tz)
    if language_of(text) == "zh":
        check = "" if sure else "（时间是我猜的，不对请告诉我）"
        task = schedule.task or "提醒你"
        return f"好的，已记下：{schedule.description}，{task}。下一次：{when}（{schedule.tz}）{check}"
    check = "" if sure else " I guessed the time; tell me if it is another one."
    words = f"{schedule.task or 'a reminder'}, {schedule.description.rstrip('.')}"
    return f"Noted: {words}. Next: {when} ({schedule.tz}).{check}"


def asking_back(reason: str, text: str) -> str:
    """A question, when somebody asked for a time that cannot be kept."""
    is_zh = language_of(text) == "zh"
    if reason == NO_TIME:
        return "要什么时候提醒你？" if is_zh else "When shall I remind you?"
    if is_zh:
        why = next((chinese for begins, chinese in REASONS_ZH.items() if reason.startswith(begins)), reason)
        return f"什么时候？我没能读懂这个时间（{why}）。"
    return f"When exactly? I could not make out that time ({reason})."


@dataclass(frozen=True, slots=True)
class ShownAppointment:
    """An appointment as shown: what is to be done, and when next (local time, None: never again)."""

    task: str
    next_run: datetime | None
    tz: str
    #: It comes again: the words that say when.
    again: str = ""


#: What is said of an appointment, or of several: in Chinese, and in English.
_SENTENCES = {
    "cancelled": ("好的，已取消：{}。", "Cancelled: {}."),
    "moved": ("好的，已改时间：{}。原来是 {}。", "Moved: {}. It was {}."),
    "kept": ("好的，已记下：{}。", "Noted: {}."),
    "listed": ("{}。", "{}."),
    "nothing": ("现在没有安排。", "There are no appointments."),
    "which": ("你说的是哪一个？{}。还什么都没有改。", "Which one do you mean? {}. Nothing was changed yet."),
    "all": (
        "{}是重复的，不能只取消其中一次。要全部取消吗？还什么都没有改。",
        "{} comes again: a single time of it cannot be cancelled. Cancel all of it? Nothing was changed yet.",
    ),
    "none": (
        "没有找到你说的安排。现有：{}。你说的是哪一个？",
        "I found no such appointment. There is: {}. Which one do you mean?",
    ),
    "none at all": ("没有找到你说的安排，现在没有安排。", "I found no such appointment; there are none."),
}


def _say(name: str, text: str, *parts: str) -> str:
    return _SENTENCES[name][language_of(text) != "zh"].format(*parts)


def say_cancelled(appointment: ShownAppointment, text: str) -> str:
    return _say("cancelled", text, _describe(appointment, text))


def say_moved(appointment: ShownAppointment, before: ShownAppointment, text: str) -> str:
    return _say("moved", text, _describe(appointment, text), _local(before.next_run, before.tz))


def say_noted(appointment: ShownAppointment, text: str) -> str:
    """Of a request that comes again, and was done."""
    return _say("kept", text, _describe(appointment, text))


def say_list(appointments: Sequence[ShownAppointment], more: int, text: str) -> str:
    return _say("listed" if appointments else "nothing", text, _each(appointments, more, text))


def which_one(appointments: Sequence[ShownAppointment], more: int, text: str) -> str:
    """A question, when several appointments fit."""
    return _say("which", text, _each(appointments, more, text))


def only_one_of_many(appointment: ShownAppointment, text: str) -> str:
    """A question, when a single time of what comes again is to be cancelled."""
    return _say("all", text, _describe(appointment, text))


def none_fits(appointments: Sequence[ShownAppointment], more: int, text: str) -> str:
    """A question, when no appointment fits."""
    return _say("none" if appointments else "none at all", text, _each(appointments, more, text))


def _each(appointments: Sequence[ShownAppointment], more: int, text: str) -> str:
    joint, rest = ("；", f"；还有 {more} 个") if language_of(text) == "zh" else ("; ", f"; and {more} more")
    items = [f"{place}. {_describe(appointment, text)}" for place, appointment in enumerate(appointments, 1)]
    return joint.join(items) + (rest if more else "")


def _describe(appointment: ShownAppointment, text: str) -> str:
    when = ", ".join(filter(None, (appointment.again, _local(appointment.next_run, appointment.tz))))
    if language_of(text) == "zh":
        return f"{appointment.task or '提醒你'}（{when}）"
    return f"{appointment.task or 'a reminder'} ({when})"


def _local(moment: datetime | None, tz: str) -> str:
    return "" if moment is None else f"{moment.astimezone(ZoneInfo(tz)):%Y-%m-%d %H:%M}"
