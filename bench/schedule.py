"""Times in words: are they read as what they mean, and is nobody's talk taken for a request?

    python -m bench.schedule [--labelled FILE] [--texts MEMDAILY LOCOMO] [--json]

``table`` are the sixteen sentences that a schedule grammar has to know, ``own`` the labelled ones beside this
module, ``labelled`` those of the file given: JSON lines ``{"id", "text", "now", "tz", "expect": {"kind":
"cron|once|interval|none", "cron" | "at" | "every_s"}, "certainty": "exact|ambiguous|unclear|none"}``. Cron is
compared as sets of values, a moment to the minute, ``0 */2 * * *`` equals 7,200 s; of what is ambiguous the
days count and not the hour; unclear and none expect that nothing is scheduled. ``false_intents`` are messages
of people to each other that are taken for requests to act at a time.
"""

from __future__ import annotations

import argparse
import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console

from bench.support.ranking import DECIMALS
from engine.appointments.parse import has_schedule_intent, parse
from engine.appointments.schedule import Ambiguous, Exact, ParsedSchedule, Unclear

OWN = Path(__file__).with_suffix(".jsonl")
#: The table's sentences: certainty and what is scheduled. Wednesday, 4 March 2026, ten o'clock in Shanghai.
TABLE_NOW, TABLE_TZ = "2026-03-04T10:00:00+08:00", "Asia/Shanghai"
TABLE: dict[str, tuple[str, tuple[str, ...]]] = {
    "每天早上9点提醒我查房": ("exact", ("0 9 * * *",)),
    "每天下午3点提醒我喝水": ("exact", ("0 15 * * *",)),
    "每天晚上8点写日报": ("exact", ("0 20 * * *",)),
    "每天9点30分站会": ("", ("30 9 * * *",)),
    "每天早上八点半吃药": ("exact", ("30 8 * * *",)),
    "每周一上午9点开会": ("exact", ("0 9 * * 1",)),
    "每周五下午5点发周报": ("exact", ("0 17 * * 5",)),
    "每周日晚上10点备份": ("exact", ("0 22 * * 0",)),
    "工作日早上8点提醒打卡": ("exact", ("0 8 * * 1-5",)),
    "每30分钟检查一次邮件": ("exact", ("*/30 * * * *",)),
    "每2小时提醒我休息": ("exact", ("0 */2 * * *",)),
    "每月1号上午10点交房租": ("exact", ("0 10 1 * *",)),
    "明天下午2点提醒我开会": ("exact", ("0 14 5 3 *",)),
    "今天天气怎么样": ("none", ()),
    "每天25点提醒我": ("unclear", ()),
    "每天3点提醒我": ("ambiguous", ("0 3 * * *", "0 15 * * *")),
}
_RANGES = ((0, 60), (0, 24), (1, 32), (1, 13), (0, 7))
#: Fields of cron that are the hour, and the minute: of what is ambiguous they do not count.
_TIME_FIELDS = 2
_DAY = 86_400


def readings(text: str, now: datetime, tz: str) -> tuple[str, tuple[ParsedSchedule, ...]]:
    """How sure, and the schedules that it may be."""
    match parse(text, now, tz):
        case Exact(schedule):
            return "exact", (schedule,)
        case Ambiguous(schedules):
            return "ambiguous", schedules
        case Unclear(_, asked):
            return "unclear" if asked else "none", ()


def table(console: Console) -> dict[str, Any]:
    right = 0
    for text, (certainty, crons) in TABLE.items():
        sure, found = readings(text, datetime.fromisoformat(TABLE_NOW), TABLE_TZ)
        its = tuple(one.cron for one in found)
        same = set(its) == set(crons) if certainty == "ambiguous" else its[:1] == crons[:1]
        good = same and (sure == certainty or not certainty)
        right += good
        if not good:
            console.print(f"table: {text}: {sure} {its}", highlight=False, markup=False)
    return {"right": round(right / len(TABLE), DECIMALS), "of": len(TABLE)}


def values(field: str, least: int, end: int) -> frozenset[int | str]:
    """The values that a field of cron stands for; what is no plain number (L, 1#2) stands for itself."""
    found: set[int | str] = set()
    for part in field.upper().split(","):
        span, _, step = part.partition("/")
        first, _, last = span.partition("-")
        if span != "*" and not re.fullmatch(r"\d+(?:-\d+)?", span):
            found.add(part)
            continue
        low = least if span == "*" else int(first)
        high = end if span == "*" or (step and not last) else int(last or first) + 1
        found |= {number % 7 if end == 7 else number for number in range(low, high, int(step or 1))}
    return frozenset(found)


def fields(cron: str) -> tuple[frozenset[int | str], ...]:
    return tuple(values(field, *bounds) for field, bounds in zip(cron.split(), _RANGES, strict=True))


def seconds_of(cron: str) -> int | None:
    """The seconds of a step that a cron expression says: every so many minutes or hours, or a day."""
    minutes, hours, *days = fields(cron)
    if tuple(days) != fields("* * * * *")[2:]:
        return None
    for step in (1, 2, 3, 4, 5, 6, 10, 12, 15, 20, 30):
        if minutes == frozenset(range(0, 60, step)) and len(hours) == 24:
            return 60 * step
    for step in (1, 2, 3, 4, 6, 8, 12):
        if len(minutes) == 1 and hours == frozenset(range(0, 24, step)):
            return 3_600 * step
    return None


def right(row: dict[str, Any], found: Sequence[ParsedSchedule]) -> bool:
    """Whether the likeliest reading is what is expected."""
    expect, open_hour = row["expect"], row["certainty"] == "ambiguous"
    if expect["kind"] == "none" or not found:
        return expect["kind"] == "none" and not found
    first = found[0]
    if expect["kind"] == "once":
        if first.kind != "once" or first.at is None:
            return False
        at = datetime.fromisoformat(expect["at"])
        its = first.at if at.tzinfo is None else first.at.astimezone(at.tzinfo)
        its, at = its.replace(tzinfo=None), at.replace(tzinfo=None)
        return (
            its.date() == at.date()
            if open_hour
            else its.replace(second=0, microsecond=0) == at.replace(second=0, microsecond=0)
        )
    step = expect.get("every_s") or seconds_of(expect["cron"])
    its_step = (
        first.every_seconds
        if first.kind == "interval"
        else seconds_of(first.cron or "")
        if first.kind == "cron"
        else None
    )
    if step is not None and its_step is not None:
        return bool(step == its_step)
    if expect["kind"] == "interval" or first.kind != "cron":
        return False
    skip = _TIME_FIELDS if open_hour else 0
    return fields(first.cron or "")[skip:] == fields(expect["cron"])[skip:]


def judged(path: Path, console: Console) -> dict[str, Any]:
    """The share that is right, in all and by kind; each that is wrong goes to the console."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    of, good, sure_as_labelled = Counter[str](), Counter[str](), 0
    for row in rows:
        sure, found = readings(row["text"], datetime.fromisoformat(row["now"]), row["tz"])
        kind = row["expect"]["kind"]
        of[kind] += 1
        good[kind] += right(row, found)
        sure_as_labelled += sure == row["certainty"]
        if not right(row, found):
            shown = found[0] if found else None
            said = shown and ((shown.at and shown.at.isoformat()) or shown.cron, shown.every_seconds)
            console.print(
                f"{row['id']}: {row['text']} is {row['certainty']} {row['expect']}, was read as {sure}"
                f" {said}",
                highlight=False,
                markup=False,
            )
    return {
        "right": round(good.total() / max(1, of.total()), DECIMALS),
        "of": of.total(),
        "by_kind": {kind: round(good[kind] / of[kind], DECIMALS) for kind in of},
        "certainty": round(sure_as_labelled / max(1, of.total()), DECIMALS),
    }


def said(path: Path) -> Iterator[str]:
    """Every message of a file in MemDaily's form, or in LoCoMo's."""
    for one in json.loads(path.read_text(encoding="utf-8")):
        yield from (message["message"] for message in one.get("messages") or [])
        for name, session in (one.get("conversation") or {}).items():
            if re.fullmatch(r"session_\d+", name):
                yield from (turn["text"] for turn in session if turn.get("text"))


def false_intents(path: Path, console: Console) -> dict[str, int]:
    found = of = 0
    for text in said(path):
        of += 1
        if has_schedule_intent(text, datetime(2026, 3, 4, 2, tzinfo=UTC), "UTC"):
            found += 1
            console.print(f"{path.stem}: {text}", highlight=False, markup=False)
    return {"found": found, "of": of}


def run(labelled: Path | None, texts: Sequence[Path], console: Console) -> dict[str, Any]:
    result: dict[str, Any] = {"table": table(console), "own": judged(OWN, console)}
    if labelled:
        result["labelled"] = judged(labelled, console)
    result["false_intents"] = {path.stem: false_intents(path, console) for path in texts}
    return result


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--labelled", type=Path, help="more labelled sentences, JSON lines")
    parser.add_argument(
        "--texts",
        type=Path,
        nargs="*",
        default=[],
        help="what people tell each other, in MemDaily's or LoCoMo's form",
    )
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    result = run(arguments.labelled, arguments.texts, Console(stderr=True, width=200))
    print(json.dumps(result) if arguments.json else json.dumps(result, indent=2, ensure_ascii=False))


if __name__ == "__main__":
    main()
