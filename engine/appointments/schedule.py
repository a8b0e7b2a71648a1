"""A time in words as what it means, when a schedule runs, and which of its runs is due.

A schedule runs once for each time it was due. What was missed while nothing ran is caught up by one run,
marked as missed, if the last time was within a day; older times are only noted.

Heartbeats: what an agent looks after at each tick, what it says of it, and the quiet hours when that waits.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import datetime, time, timedelta
from typing import Literal
from zoneinfo import ZoneInfo

from jiyi.protocol.appointments import Proactivity, ScheduleKind, Urgency, local, next_run
from jiyi.text.words import Language

Target = Literal["reminder", "agent", "workflow"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedSchedule:
    """When something is to be done, and what."""

    kind: ScheduleKind
    #: Five fields in local time, Sunday 0. Of what runs once it is shown only: cron has no year.
    cron: str | None = None
    #: Of ``once`` when, of ``interval`` the first time; with the time zone's offset.
    at: datetime | None = None
    #: Seconds between two runs of an interval that cron cannot say.
    every_seconds: int | None = None
    #: Name of the time zone (IANA).
    tz: str
    #: The words that say when.
    description: str
    #: 0 to 1.
    confidence: float
    #: What is to be done: the text without the words that say when and ask for it.
    task: str
    #: A reminder, something that the agent is to do, or a workflow.
    target: Target = "reminder"

    @property
    def timing(self) -> ScheduleTiming:
        return ScheduleTiming(self.kind, self.cron, self.at, self.every_seconds, self.tz)


@dataclass(frozen=True, slots=True)
class Exact:
    schedule: ParsedSchedule


@dataclass(frozen=True, slots=True)
class Ambiguous:
    """More than one reading, the likeliest first."""

    schedules: tuple[ParsedSchedule, ...]


@dataclass(frozen=True, slots=True)
class Unclear:
    """No time that can be kept. ``is_request``: somebody did ask for one, so it is worth asking back."""

    reason: str
    is_request: bool = False


Parsed = Exact | Ambiguous | Unclear


#: A run that is later than this was missed; up to this delay it counts as on time.
ON_TIME = timedelta(minutes=5)
#: Missed runs older than this are not caught up.
CATCH_UP = timedelta(hours=24)


@dataclass(frozen=True, slots=True)
class ScheduleTiming:
    """When a schedule runs."""

    kind: str
    cron: str | None
    at: datetime | None
    every_seconds: int | None
    tz: str

    def after(self, moment: datetime) -> datetime | None:
        return next_run(**asdict(self), after=moment)


@dataclass(frozen=True, slots=True)
class Firing:
    """A run: when it was due, whether it was missed or is too late to catch up; the next one."""

    due_at: datetime
    missed: bool
    skipped: bool
    next_run_at: datetime | None


def firing(timing: ScheduleTiming, due_at: datetime, now: datetime) -> Firing | None:
    """The run that was due at a time; None if that lies in the future, as after a clock was set back."""
    if due_at > now:
        return None
    following = None if timing.kind == "once" else timing.after(now)
    late = now - due_at
    if late <= CATCH_UP:
        return Firing(due_at, late > ON_TIME, skipped=False, next_run_at=following)
    recent = timing.after(now - CATCH_UP - timedelta(seconds=1))
    if recent is not None and recent <= now:
        return Firing(recent, missed=now - recent > ON_TIME, skipped=False, next_run_at=following)
    return Firing(due_at, missed=True, skipped=True, next_run_at=following)


#: First and last minute, in the agent's time zone.
QuietHours = tuple[time, time]


def is_quiet(now: datetime, quiet: QuietHours | None, zone: ZoneInfo) -> bool:
    """Whether a moment is within quiet hours, which may cross midnight; the last minute is outside."""
    if quiet is None:
        return False
    start, end = quiet
    clock = now.astimezone(zone).time().replace(tzinfo=None)
    return start <= clock < end if start < end else clock >= start or clock < end


def end_of_quiet_hours(now: datetime, quiet: QuietHours | None, zone: ZoneInfo) -> datetime:
    """The first moment from now on outside quiet hours."""
    if quiet is None or not is_quiet(now, quiet, zone):
        return now
    today = now.astimezone(zone).date()
    moments = [local(today + timedelta(days=days), quiet[1], zone) for days in (0, 1)]
    return next(moment for moment in moments if moment > now)


#: Reminders that nobody has acknowledged for so long are announced again.
UNSEEN_AFTER = timedelta(hours=2)
#: Nobody has talked with the agent for so long: it says hello.
IDLE_AFTER = timedelta(hours=24)
#: Work on memories that has waited for so long is a sign that something is wrong. Seconds.
LATE_SECONDS = 900.0
#: Memories get their vectors within seconds; for so long they wait for a reason. Seconds.
WAITING_SECONDS = 120.0
#: The same is announced once in this time.
AGAIN_AFTER = timedelta(hours=24)
#: The least urgency that each proactivity speaks up for; silent never does.
LEAST: dict[Proactivity, tuple[Urgency, ...]] = {
    "silent": (),
    "light": ("high",),
    "standard": ("medium", "high"),
    "autonomous": ("low", "medium", "high"),
}
_ORDER: dict[Urgency, int] = {"high": 0, "medium": 1, "low": 2}


@dataclass(frozen=True, slots=True)
class HeartbeatFacts:
    """What there is to look after."""

    #: Reminders that were delivered and not acknowledged since before ``UNSEEN_AFTER``.
    unseen: int = 0
    #: Seconds that work on its memories is late; its open dead letters; memories without a vector.
    late_seconds: float = 0.0
    dead_letters: int = 0
    without_vector: int = 0
    #: When somebody last talked with the agent; None: never.
    last_interaction_at: datetime | None = None
    #: Problems that were not solved, the latest first.
    pains: tuple[str, ...] = ()
    #: What the agent's file HEARTBEAT lists.
    checklist: tuple[str, ...] = ()
    language: Language = "en"


@dataclass(frozen=True, slots=True)
class HeartbeatFinding:
    """Something to say, identified by ``source`` and ``subject``."""

    source: str
    subject: str
    title: str
    content: str
    urgency: Urgency


#: HeartbeatFinding → its source, title and content in Chinese, in English, and urgency.
_MESSAGES: dict[str, tuple[str, tuple[str, str], tuple[str, str], Urgency]] = {
    "unseen": (
        "tasks",
        ("待办提醒", "有 {} 条提醒还没有确认。"),
        ("Reminders are waiting", "{} reminders have not been acknowledged."),
        "medium",
    ),
    "dead_letters": (
        "memory",
        ("记忆处理失败", "{} 件处理失败的工作需要有人查看。"),
        ("Work on memories failed", "{} pieces of work failed for good."),
        "high",
    ),
    "late": (
        "memory",
        ("记忆处理延迟", "记忆处理已延迟 {} 分钟。"),
        ("Work on memories is late", "Work on memories is {} minutes late."),
        "medium",
    ),
    "without_vector": (
        "memory",
        ("记忆等待索引", "{} 条记忆还不能被检索。"),
        ("Memories wait for their vectors", "{} memories cannot be found yet."),
        "low",
    ),
    "greeting": (
        "idle",
        ("打个招呼", "我们 {} 天没聊了，最近怎么样？"),
        ("Hello", "We have not talked for {} day(s). How are you?"),
        "low",
    ),
}


def findings(facts: HeartbeatFacts, now: datetime) -> list[HeartbeatFinding]:
    """Everything that the checks find, the most urgent first."""
    is_zh = facts.language == "zh"

    def counted(subject: str, number: int) -> HeartbeatFinding:
        source, zh, en, urgency = _MESSAGES[subject]
        title, content = zh if is_zh else en
        return HeartbeatFinding(source, subject, title, content.format(number), urgency)

    results = []
    if facts.unseen:
        results.append(counted("unseen", facts.unseen))
    if facts.dead_letters:
        results.append(counted("dead_letters", facts.dead_letters))
    if facts.late_seconds > LATE_SECONDS:
        results.append(counted("late", int(facts.late_seconds // 60)))
    elif facts.without_vector and facts.late_seconds > WAITING_SECONDS:
        results.append(counted("without_vector", facts.without_vector))
    title = "还没解决的问题" if is_zh else "A problem that is still open"
    results += [HeartbeatFinding("pain", pain, title, pain, "medium") for pain in facts.pains]
    title = "要照看的事" if is_zh else "To look after"
    results += [HeartbeatFinding("checklist", item, title, item, "medium") for item in facts.checklist]
    last = facts.last_interaction_at
    if last is not None and now - last >= IDLE_AFTER:
        results.append(counted("greeting", (now - last).days))
    return sorted(results, key=lambda finding: _ORDER[finding.urgency])


def select_findings(
    all_findings: Iterable[HeartbeatFinding],
    proactivity: Proactivity,
    most: int,
    announced_keys: set[tuple[str, str]],
) -> list[HeartbeatFinding]:
    """As urgent as the agent may speak up for, none announced within a day, at most so many."""
    urgent = (finding for finding in all_findings if finding.urgency in LEAST[proactivity])
    return [finding for finding in urgent if (finding.source, finding.subject) not in announced_keys][:most]


#: Items of a list that are looked at, and characters of each.
MAX_ITEMS, MAX_ITEM_CHARS = 20, 300
_ITEM = re.compile(
    r"^\s{0,9}(?:[-*•]|\d{1,3}[.)、])\s{1,9}(?:\[(?P<done>[ xX])\]\s{1,9})?(?P<text>\S.*)$", re.MULTILINE
)


def list_items(text: str) -> tuple[str, ...]:
    """The items of the Markdown lists of a text, without those that are ticked off."""
    open_items = (match["text"].strip() for match in _ITEM.finditer(text) if match["done"] in (None, " "))
    items = (item[:MAX_ITEM_CHARS] for item in open_items)
    return tuple(dict.fromkeys(items))[:MAX_ITEMS]
