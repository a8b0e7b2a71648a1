"""Which of an agent's appointments a message means: by the words and times that they share, else by how alike their meaning is.

One is meant only where no other fits as well. A wrong appointment cancelled is worse than a question.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from engine.growth.schedules.clocks import Clock, Part
from engine.growth.schedules.days import Day
from engine.growth.schedules.elements import Element
from engine.growth.schedules.recurring import Every
from jiyi.text.tokens import telling

#: Cosine of centred vectors from which on two texts mean the same thing, and how far the second best has to be behind.
ALIKE, AHEAD = 0.5, 0.1
#: More appointments than this are not compared by meaning: each has to be embedded.
MOST_ALIKE = 100
#: Hours that a part of the day stands for: first and last.
PARTS: dict[Part, tuple[int, int]] = {
    "dawn": (0, 6),
    "morning": (4, 12),
    "noon": (11, 14),
    "afternoon": (12, 18),
    "evening": (17, 23),
    "night": (18, 23),
    "midnight": (0, 0),
}
#: Words that ask, and what every appointment is called: they do not tell one from another.
_FRAME = frozenset(
    telling(
        "cancel delete remove scrap drop forget stop skip kill clear turn off undo bin lose call set put move shift push pull bring change "
        "reschedule postpone delay swap switch make reminder reminders remind alarm alarms timer appointment appointments schedule scheduled "
        "plan planned notification alert ping nudge thing one ones instead rather earlier later please need want time times day list show "
        "tell what all any every new don't can could would let ok thanks wake buzz "
        "取消 删除 删掉 撤销 撤掉 撤了 去掉 关掉 停掉 不用 不要 不必 别再 算了 免了 作废 改到 改成 改为 改期 挪到 挪动 移到 换到 换成 调到 调整 推迟 延后 延迟 提前 提醒 "
        "提醒我 提醒了 醒我 闹钟 闹铃 日程 安排 预约 计划 那个 这个 一个 一下 给我 帮我 请把 把那 把我 我的 的那 的提 个提 醒取 醒改 醒挪 醒推 醒删 消了 掉吧 了吧 叫我 喊我 "
        "通知 时间 什么 哪些 列出 还有 今天 明天 后天 的闹 钟取 钟改 消掉 消那 消提 消我 消这 消明 消今"
    )
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

    some: tuple[Appointment, ...]
    sure: bool


#: How alike a text is to each of others, -1 to 1.
Likeness = Callable[[str, Sequence[str]], Sequence[float]]


def fitting(said: str, times: Sequence[Element], there: Sequence[Appointment], likeness: Likeness | None = None) -> Fit:
    """Which appointment a message means.

    Args:
        said: its words without its times.
        times: the times that it says the appointment has.
        there: the agent's appointments.
        likeness: compares meanings, where the local model is there.
    """
    words = set(telling(said)) - _FRAME
    timely = [one for one in there if all(_at(time, one) for time in times)] if times else list(there)
    named = _named(words, timely)
    if named:
        return _one_of(named)
    if times and (elsewhere := _named(words, there)):
        return Fit(tuple(elsewhere), sure=False)  # its words fit, its times do not
    if not words:
        return _one_of(timely)
    return _alike(said, timely, likeness) if likeness is not None and 0 < len(timely) <= MOST_ALIKE else Fit((), sure=False)


def _named(words: set[str], there: Sequence[Appointment]) -> list[Appointment]:
    """Those that share most with the words; a word that many appointments have counts less."""
    tokens = {one.id: set(telling(one.task)) for one in there}
    often = Counter(token for some in tokens.values() for token in some)
    shared = {one.id: sum(1 / often[token] for token in tokens[one.id] & words) for one in there}
    most = max(shared.values(), default=0.0)
    return [one for one in there if shared[one.id] == most] if most else []


def _one_of(some: Sequence[Appointment]) -> Fit:
    return Fit(tuple(some), sure=len(some) == 1)


def _alike(said: str, there: Sequence[Appointment], likeness: Likeness) -> Fit:
    found = sorted(zip(likeness(said, [one.task for one in there]), there, strict=True), key=lambda pair: -pair[0])
    best = found[0][0]
    near = tuple(one for alike, one in found if alike >= max(ALIKE, best - AHEAD))
    return Fit(near, sure=len(near) == 1)


def _at(time: Element, one: Appointment) -> bool:
    """Whether an appointment has a time that somebody names."""
    match time:
        case Every():
            return one.again
        case Day():
            return bool(time.whole) or any(moment.date() in time.dates for moment in one.times)
        case Clock(said=None, part=part):
            first, last = PARTS[part] if part else (0, 23)
            return any(first <= moment.hour <= last for moment in one.times)
        case Clock():
            return any(moment.hour in time.hours and moment.minute == time.minute for moment in one.times)
        case _:
            return True
