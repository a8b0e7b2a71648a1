"""Times in words: both languages' grammar, who asks for what; when schedules run next, over clock changes."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from pydantic import ValidationError
from rich.console import Console

from bench import schedule as bench
from engine.appointments.changes import asking_back
from engine.appointments.parse import has_schedule_intent, parse
from engine.appointments.schedule import Exact, ParsedSchedule, Unclear
from jiyi.errors import problems_of
from jiyi.protocol.appointments import CreateSchedule, check_cron, next_run, next_runs
from tests.unit.text.labelled import labelled

SHANGHAI = "Asia/Shanghai"
#: A Wednesday.
NOW = datetime(2026, 3, 4, 10, tzinfo=ZoneInfo(SHANGHAI))


def read(text: str, now: datetime = NOW, tz: str = SHANGHAI) -> ParsedSchedule:
    found = parse(text, now, tz)
    assert not isinstance(found, Unclear), found
    return found.schedule if isinstance(found, Exact) else found.schedules[0]


@pytest.mark.parametrize("text", bench.TABLE)
def test_the_table_of_the_schedule_grammar(text: str) -> None:
    certainty, crons = bench.TABLE[text]
    sure, found = bench.readings(text, datetime.fromisoformat(bench.TABLE_NOW), bench.TABLE_TZ)
    assert {one.cron for one in found[: None if certainty == "ambiguous" else 1]} == set(crons)
    assert sure == certainty or not certainty


@labelled
def test_zc_91_exact_ambiguous_and_unclear_and_who_is_to_be_woken_means_the_morning(
    text: str, hour: str, certainty: str
) -> None:
    assert type(parse(text, NOW, SHANGHAI)).__name__ == certainty
    assert (read(text).cron or "").split()[1] == hour
    assert parse("每天25点提醒我", NOW, SHANGHAI) == Unclear("there is no 25:00", is_request=True)
    today = read("今天6:30叫醒我").at  # after that hour
    assert today == datetime(2026, 3, 4, 18, 30, tzinfo=ZoneInfo(SHANGHAI))


def test_zc_92_what_a_parsed_schedule_holds_and_k_37_also_where_cron_cannot_say_it() -> None:
    found = read("每天早上9点提醒我查房")
    assert (found.kind, found.cron, found.tz) == ("cron", "0 9 * * *", SHANGHAI)
    assert (found.description, found.task, found.target) == ("每天早上9点", "查房", "reminder")
    assert 0 < found.confidence <= 1
    once = read("明天下午2点提醒我开会")
    assert (once.kind, once.task) == ("once", "开会")
    assert once.at == datetime(2026, 3, 5, 14, tzinfo=ZoneInfo(SHANGHAI))
    step = read("每45分钟提醒我喝水")
    assert (step.kind, step.every_seconds, step.cron) == ("interval", 2_700, None)
    halves = "每个半小时提醒我喝水", "every half hour remind me to drink"
    assert {read(text).cron for text in halves} == {"*/30 * * * *"}
    backup = read("Every day at 8pm, back up the database.")
    assert (backup.target, backup.task) == ("agent", "back up the database")
    assert read("Run the workflow cleanup every day at 3am").target == "workflow"
    assert read("remind me tomorrow at 9am to call Tom Hanks").task == "call Tom Hanks"


@labelled
def test_zc_95_intent_is_asking_not_naming_declining_or_supposing(text: str, *, asks: bool) -> None:
    assert has_schedule_intent(text, NOW, SHANGHAI) == asks


@labelled
def test_weeks_begin_on_monday_and_midnight_is_the_next(text: str, day: int) -> None:
    at = read(text).at
    assert at is not None
    assert at.day == day


@labelled
def test_bad_input_times_that_do_not_exist_are_unclear(text: str) -> None:
    found = parse(text, NOW, SHANGHAI)
    assert isinstance(found, Unclear)
    assert found.is_request


@labelled
def test_bad_input_times_that_come_seldom_or_twice(text: str, now: str, tz: str, at: str) -> None:
    found = read(text, datetime.fromisoformat(f"{now}:00+00:00"), tz).at
    assert found is not None and found.isoformat() == at
    assert read("每月31号晚上8点提醒我").cron == "0 20 31 * *"  # only in months that have one


@pytest.mark.parametrize("tz", ["Mars/Olympus", "", "../etc/passwd", "Asia/Shanghai\x00"])
def test_bad_input_an_unknown_time_zone(tz: str) -> None:
    with pytest.raises(ValueError, match="time zone"):
        parse("每天早上9点提醒我", NOW, tz)


@pytest.mark.parametrize(
    "text",
    ["", "⏱", "\x00\x01", *(part * 3_000 for part in ("点点点", "提醒我", "每每每", "remind me at ", "😀"))],
)
def test_strange_messages_are_no_request_and_no_error(text: str) -> None:
    assert isinstance(parse(text, NOW, SHANGHAI), Unclear)


def test_the_labelled_sentences_are_read_as_labelled() -> None:
    found = bench.judged(bench.OWN, Console(quiet=True))
    assert found["of"] >= 240
    assert found["right"] >= 0.95


def test_reasons_are_said_in_the_language_of_the_request() -> None:
    engine = Path(parse.__code__.co_filename).parents[1]
    files = [*engine.glob("appointments/*.py"), *engine.glob("times/*.py")]
    reasons = {reason for file in files for reason in _reasons(file)}
    assert len(reasons) > 15
    assert [reason for reason in reasons if reason in asking_back(reason, "每天25点提醒我")] == []
    assert (
        asking_back("there is no 25:00", "at 25:00")
        == "When exactly? I could not make out that time (there is no 25:00)."
    )


def _reasons(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in ("Read", "Impossible", "Unclear")
        ):
            texts = [*node.args, *(keyword.value for keyword in node.keywords if keyword.arg == "reason")]
            for text in texts:
                if isinstance(text, ast.JoinedStr):
                    yield "".join(
                        str(part.value) if isinstance(part, ast.Constant) else "7" for part in text.values
                    )
                elif isinstance(text, ast.Constant) and isinstance(text.value, str):
                    yield text.value


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"cron": "0 9 * * *", "task": "  "}, "task: must not be blank"),
        ({"cron": "0 9 30 2 *", "task": "pay"}, "cron: no cron expression: Bad day-of-month"),
    ],
)
def test_a_wrong_schedule_is_refused_by_its_field(fields: dict[str, str], problem: str) -> None:
    with pytest.raises(ValidationError) as caught:
        CreateSchedule(agent_id="a", kind="cron", **fields)  # type: ignore[arg-type]
    assert problems_of(caught.value) == [problem]


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


@labelled
def test_a_schedule_runs_next(kind: str, given: str, tz: str, after: str, runs: str) -> None:
    cron = given if kind == "cron" else None
    first, _, seconds = ("", "", "") if cron else given.partition(" every ")
    schedule: dict[str, Any] = {"kind": kind, "cron": cron, "tz": tz}
    schedule |= {"at": at(first) if first else None, "every_seconds": int(seconds) if seconds else None}
    found = next_runs(**schedule, after=at(after), count=max(1, len(runs.split())))
    assert [moment.isoformat()[:16] for moment in found] == runs.split()
    assert (next_run(**schedule, after=at(after)) is None) == (not runs)


@pytest.mark.parametrize(
    "wrong", ["", "0 9 * *", "61 * * * *", "0 25 * * *", "0 0 30 2 *", "@daily", "* * * * * *"]
)
def test_a_wrong_cron_expression_is_refused(wrong: str) -> None:
    with pytest.raises(ValueError, match="cron"):
        check_cron(wrong)
