"""What an agent says when it has taken down a schedule, or could not (ZC-95)."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

from jiyi.growth.schedules.types import ParsedSchedule
from jiyi.text.words import language_of


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
        return f"什么时候？我没能读懂这个时间（{reason}）。"
    return f"When exactly? I could not make out that time ({reason})."
