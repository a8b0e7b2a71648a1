"""What an agent says when it has taken down, cancelled, moved or listed schedules, or could not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from zoneinfo import ZoneInfo

from engine.appointments.schedule import ParsedSchedule
from jiyi.text.words import language_of

#: How reasons begin, and what they are in Chinese; the longest beginnings first.
REASONS_ZH = {
    "there is no day": "没有这一天",
    "no month has": "没有这一天",
    "that month has no day": "那个月没有这一天",
    "there is no": "没有这个时刻",
    "an hour has no minute": "没有这个时刻",
    "before what?": "在什么之前？请说明那件事的时间",
    "no time": "没有说时间",
    "it does not say when": "没有说什么时候",
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
    zone = ZoneInfo(schedule.tz)
    when = "" if next_run is None else next_run.astimezone(zone).strftime("%Y-%m-%d %H:%M")
    if language_of(text) == "zh":
        task = schedule.task or "提醒你"
        check = "" if sure else "（时间是我猜的，不对请告诉我）"
        return f"好的，已记下：{schedule.description}，{task}。下一次：{when}（{schedule.tz}）{check}"
    task = schedule.task or "a reminder"
    check = "" if sure else " I guessed the time; tell me if it is another one."
    return f"Noted: {task}, {schedule.description}. Next: {when} ({schedule.tz}).{check}"


def asking_back(reason: str, text: str) -> str:
    """A question, when somebody asked for a time that cannot be kept."""
    if language_of(text) == "zh":
        return f"什么时候？我没能读懂这个时间（{_in_chinese(reason)}）。"
    return f"When exactly? I could not make out that time ({reason})."


@dataclass(frozen=True, slots=True)
class ShownAppointment:
    """An appointment as it is told: what is to be done, and when next (local time, None: never again)."""

    task: str
    next_run: datetime | None
    tz: str
    #: It comes again: the words that say when.
    again: str = ""


def cancelled(appointment: ShownAppointment, text: str) -> str:
    if language_of(text) == "zh":
        return f"好的，已取消：{_told(appointment, 'zh')}。"
    return f"Cancelled: {_told(appointment, 'en')}."


def moved(appointment: ShownAppointment, before: ShownAppointment, text: str) -> str:
    if language_of(text) == "zh":
        return f"好的，已改时间：{_told(appointment, 'zh')}。原来是 {_when(before)}。"
    return f"Moved: {_told(appointment, 'en')}. It was {_when(before)}."


def kept(appointment: ShownAppointment, text: str) -> str:
    """Of a request that comes again, and was done."""
    if language_of(text) == "zh":
        return f"好的，已记下：{_told(appointment, 'zh')}。"
    return f"Noted: {_told(appointment, 'en')}."


def listed(appointments: Sequence[ShownAppointment], more: int, text: str) -> str:
    if language_of(text) == "zh":
        return f"{_each(appointments, more, 'zh')}。" if appointments else "现在没有安排。"
    return f"{_each(appointments, more, 'en')}." if appointments else "There are no appointments."


def which_one(appointments: Sequence[ShownAppointment], more: int, text: str) -> str:
    """A question, when several appointments fit."""
    if language_of(text) == "zh":
        return f"你说的是哪一个？{_each(appointments, more, 'zh')}。还什么都没有改。"
    return f"Which one do you mean? {_each(appointments, more, 'en')}. Nothing was changed yet."


def none_fits(appointments: Sequence[ShownAppointment], more: int, text: str) -> str:
    """A question, when no appointment fits."""
    if language_of(text) == "zh":
        return (
            f"没有找到你说的安排。现有：{_each(appointments, more, 'zh')}。你说的是哪一个？"
            if appointments
            else "没有找到你说的安排，现在没有安排。"
        )
    if not appointments:
        return "I found no such appointment; there are none."
    return f"I found no such appointment. There is: {_each(appointments, more, 'en')}. Which one do you mean?"


def _each(appointments: Sequence[ShownAppointment], more: int, language: str) -> str:
    joint, rest = ("；", f"；还有 {more} 个") if language == "zh" else ("; ", f"; and {more} more")
    return joint.join(f"{place}. {_told(appointment, language)}" for place, appointment in enumerate(appointments, 1)) + (
        rest if more else ""
    )


def _told(appointment: ShownAppointment, language: str) -> str:
    task = appointment.task or ("提醒你" if language == "zh" else "a reminder")
    when = ", ".join(filter(None, (appointment.again, _when(appointment))))
    return f"{task}（{when}）" if language == "zh" else f"{task} ({when})"


def _when(appointment: ShownAppointment) -> str:
    return "" if appointment.next_run is None else f"{appointment.next_run.astimezone(ZoneInfo(appointment.tz)):%Y-%m-%d %H:%M}"


def _in_chinese(reason: str) -> str:
    return next((chinese for begins, chinese in REASONS_ZH.items() if reason.startswith(begins)), reason)
