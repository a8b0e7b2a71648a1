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
from engine.appointments.schedule import Ambiguous, Exact, ParsedSchedule, Unclear
from jiyi.errors import problems_of
from jiyi.protocol.appointments import CreateSchedule, check_cron, next_run, next_runs

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


@pytest.mark.parametrize(
    ("text", "certainty"),
    [
        ("每天早上9点提醒我查房", Exact),
        ("每天3点提醒我", Ambiguous),
        ("remind me at 12am and 12pm to eat", Ambiguous),
    ],
)
def test_zc_91_exact_ambiguous_and_unclear(text: str, certainty: type) -> None:
    assert isinstance(parse(text, NOW, SHANGHAI), certainty)
    assert parse("每天25点提醒我", NOW, SHANGHAI) == Unclear("there is no 25:00", is_request=True)


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
    assert (
        read("每个半小时提醒我喝水").cron == read("every half hour remind me to drink").cron == "*/30 * * * *"
    )
    backup = read("Every day at 8pm, back up the database.")
    assert (backup.target, backup.task) == ("agent", "back up the database")
    assert read("Run the workflow cleanup every day at 3am").target == "workflow"
    assert read("remind me tomorrow at 9am to call Tom Hanks").task == "call Tom Hanks"


@pytest.mark.parametrize(
    ("text", "hour", "certainty"),
    [
        ("叫我6:30起床", 6, Exact),
        ("明天六点半喊我起来", 6, Exact),
        ("Wake me up at half past six tomorrow", 6, Exact),
        ("set a wake-up alarm for 5:45", 5, Exact),
        ("下午4点叫醒我", 16, Exact),
        ("wake me at 6:30 pm", 18, Exact),
        ("午睡，4点半叫醒我", 16, Ambiguous),
        ("wake me from my nap at 4:30", 16, Ambiguous),
        ("6点半提醒我吃晚饭", 18, Ambiguous),
    ],
)
def test_who_wants_to_be_woken_means_the_morning(text: str, hour: int, certainty: type) -> None:
    found = read(text)
    assert isinstance(parse(text, NOW, SHANGHAI), certainty)
    assert found.cron is not None
    assert found.cron.split()[1] == str(hour)
    today = read("今天6:30叫醒我").at  # after that hour
    assert today == datetime(2026, 3, 4, 18, 30, tzinfo=ZoneInfo(SHANGHAI))


@pytest.mark.parametrize(
    ("asks", "texts"),
    [
        (True, "每天早上9点提醒我查房|每天25点提醒我"),
        (True, "如果可以的话，明天8点叫我起床|If you can, remind me at 5pm to call a cab"),
        (False, "我每天早上6点起床|The meeting is at 3pm tomorrow"),
        (False, "Remind me why we left last year|医生提醒我每天吃药"),
        (
            False,
            "不用每天提醒我了|Don't remind me tomorrow|取消明天早上8点的提醒|forget the daily reminder at nine",
        ),
        # depends on something
        (False, "如果明天下雨就提醒我带伞|If I'm not back by 5 tomorrow, remind me to call a cab"),
    ],
)
def test_zc_95_intent_is_asking_not_naming_declining_or_supposing(texts: str, *, asks: bool) -> None:
    assert [text for text in texts.split("|") if has_schedule_intent(text, NOW, SHANGHAI) != asks] == []


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("下周三早上9点提醒我", 11),
        ("remind me next Wednesday at 9am", 11),
        ("周三早上9点提醒我", 11),  # today's nine is over
        ("周三晚上9点提醒我", 4),
        ("这周日早上9点提醒我", 8),
        ("今晚零点提醒我", 5),
        ("remind me at midnight", 5),
    ],
)
def test_weeks_begin_on_monday_and_midnight_is_the_next(text: str, day: int) -> None:
    at = read(text).at
    assert at is not None
    assert at.day == day


@pytest.mark.parametrize(
    "text",
    [
        *("2月30日提醒我", "4月31号早上8点提醒我", "每月32号提醒我", "明天9点75分叫我", "wake me at 7:75"),
        *("remind me on June 31", "remind me every hour at 75 minutes past the hour"),
        "remind me on 0001-01-01 at 8am",
    ],
)
def test_bad_input_times_that_do_not_exist_are_unclear(text: str) -> None:
    found = parse(text, NOW, SHANGHAI)
    assert isinstance(found, Unclear)
    assert found.is_request


@pytest.mark.parametrize(
    ("text", "now", "tz", "at"),
    [
        ("2月29日早上9点提醒我", "2026-03-04T02", SHANGHAI, "2028-02-29T09:00:00+08:00"),
        ("remind me tomorrow at 2:30 am", "2026-03-07T17", "America/New_York", "2026-03-08T03:30:00-04:00"),
        ("remind me tomorrow at 1:30 am", "2026-10-31T16", "America/New_York", "2026-11-01T01:30:00-04:00"),
    ],
    ids=["leap day", "skipped by a clock change", "comes twice: the first"],
)
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
        ({"cron": "0 9 30 2 *", "task": "pay"}, "cron: Bad day-of-month"),
    ],
)
def test_a_wrong_schedule_is_refused_by_its_field(fields: dict[str, str], problem: str) -> None:
    with pytest.raises(ValidationError) as caught:
        CreateSchedule(agent_id="a", kind="cron", **fields)  # type: ignore[arg-type]
    assert problems_of(caught.value) == [problem]


NEW_YORK = "America/New_York"


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def some(count: int, after: str, **schedule: Any) -> list[str]:
    given = {"kind": "cron", "cron": None, "at": None, "every_seconds": None, "tz": "UTC"} | schedule
    return [moment.isoformat()[:16] for moment in next_runs(**given, after=at(after), count=count)]


def test_cron_in_its_time_zone() -> None:
    runs = some(2, "2026-03-04T00:00Z", cron="0 9 * * 1-5", tz="Asia/Shanghai")
    assert runs == ["2026-03-04T01:00", "2026-03-05T01:00"]


def test_a_skipped_time_is_kept_once_after_the_change_and_one_that_comes_twice_once() -> None:
    runs = some(2, "2026-03-08T05:00Z", cron="30 2 * * *", tz=NEW_YORK)
    assert runs == ["2026-03-08T07:00", "2026-03-09T06:30"]
    runs = some(2, "2026-11-01T04:00Z", cron="30 1 * * *", tz=NEW_YORK)
    assert runs == ["2026-11-01T05:30", "2026-11-02T06:30"]


def test_the_31st_and_leap_day() -> None:
    runs = some(3, "2026-01-31T10:00Z", cron="0 9 31 * *")
    assert runs == ["2026-03-31T09:00", "2026-05-31T09:00", "2026-07-31T09:00"]
    assert some(1, "2026-03-01T00:00Z", cron="0 9 29 2 *") == ["2028-02-29T09:00"]


def test_once_is_over_when_it_was() -> None:
    assert some(3, "2026-03-04T00:00Z", kind="once", at=at("2026-03-05T09:00Z")) == ["2026-03-05T09:00"]
    assert some(3, "2026-03-05T09:00Z", kind="once", at=at("2026-03-05T09:00Z")) == []


def test_steps_go_on_from_their_first_time() -> None:
    step = {"kind": "interval", "at": at("2026-03-04T10:45Z"), "every_seconds": 2_700}
    assert some(2, "2026-03-04T10:00Z", **step) == ["2026-03-04T10:45", "2026-03-04T11:30"]
    assert some(1, "2026-03-04T10:45Z", **step) == ["2026-03-04T11:30"]
    assert some(1, "2026-03-05T10:44Z", **step) == ["2026-03-05T10:45"]


def test_steps_of_days_keep_the_time_of_day_across_a_clock_change() -> None:
    step = {"kind": "interval", "at": at("2026-03-07T07:00-05:00"), "every_seconds": 2 * 86_400}
    step["tz"] = NEW_YORK
    assert some(2, "2026-03-06T00:00Z", **step) == ["2026-03-07T12:00", "2026-03-09T11:00"]


@pytest.mark.parametrize(
    "cron", ["", "0 9 * *", "61 * * * *", "0 25 * * *", "0 0 30 2 *", "@daily", "* * * * * *"]
)
def test_a_wrong_cron_expression_is_refused(cron: str) -> None:
    with pytest.raises(ValueError, match="cron"):
        check_cron(cron)


def test_nothing_follows_what_is_over() -> None:
    over: dict[str, Any] = {"cron": None, "every_seconds": None, "tz": "UTC", "kind": "once"}
    assert next_run(**over, at=at("2026-01-01T00:00Z"), after=at("2026-01-02T00:00Z")) is None
    far = some(1, "2026-01-01T00:00:30Z", kind="interval", at=at("2020-01-01T00:00Z"), every_seconds=60)
    assert far == ["2026-01-01T00:01"]
