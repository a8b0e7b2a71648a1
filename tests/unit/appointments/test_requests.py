"""What messages ask of appointments: judged, which one is meant, and to when it is moved."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, cast
from unittest.mock import Mock
from uuid import uuid4
from zoneinfo import ZoneInfo

import pytest

from engine.appointments import changes
from engine.appointments.parse import JUDGED_CHARS, SURE_NOT, RequestKind, judge_request, parse, readable
from engine.appointments.schedule import Exact, Parsed, ParsedSchedule, ScheduleTiming, Unclear
from engine.heads.judgements import Heads, Judged
from engine.times.clocks import Impossible
from engine.times.recurring import Lead
from tests.unit.text.labelled import labelled

SHANGHAI = "Asia/Shanghai"
ZONE = ZoneInfo(SHANGHAI)
#: A Wednesday.
NOW = datetime(2026, 3, 4, 10, tzinfo=ZONE)
LEAST = 0.5
BY_WORDS, IDLE = "明天早上8点提醒我吃药", "今天天气怎么样"


class Sure:
    """A head that is as sure of each label as it is told."""

    def __init__(self, **probabilities: float) -> None:
        self.probabilities = dict.fromkeys(("new", "cancel", "move", "list", "none"), 0.0) | probabilities

    def requests(self, texts: Sequence[str]) -> list[Judged | None]:
        return [Judged("", 0.0, self.probabilities) for _ in texts]

    def least(self, _name: str, _label: str, _precision: float) -> float:
        return LEAST


def likeliest(parsed: Parsed | None) -> ParsedSchedule:
    assert not isinstance(parsed, Unclear | None)
    return parsed.schedule if isinstance(parsed, Exact) else parsed.schedules[0]


def judged(text: str, **probabilities: float) -> RequestKind | None:
    heads = cast("Heads", Sure(**probabilities)) if probabilities else None
    return judge_request(text, NOW, lambda: SHANGHAI, heads)[0]


@pytest.mark.parametrize(
    ("text", "probabilities", "asked"),
    [
        *((IDLE, {asked: LEAST}, asked) for asked in ("new", "cancel", "move", "list")),
        *((IDLE, {asked: LEAST - 0.01}, None) for asked in ("new", "cancel", "move", "list")),
        (BY_WORDS, {"new": 0.1, "none": SURE_NOT - 0.01}, "new"),
        (BY_WORDS, {"new": 0.1, "none": SURE_NOT}, None),
        (BY_WORDS, {"cancel": 0.4, "new": 0.3}, None),
        (BY_WORDS, {}, "new"),
        ("取消明天的牙医", {}, None),
        ("好长。" * (JUDGED_CHARS // 3) + BY_WORDS, {"none": 1.0}, "new"),
        *((bad, {}, None) for bad in ("", " ", "😀", "何" * 20_000)),
    ],
)
def test_a_request_is_one_where_the_head_is_sure_else_and_in_long_ones_patterns_of_a_new_one_count(
    text: str, probabilities: dict[str, float], asked: str | None
) -> None:
    assert judged(text, **probabilities) == asked


@labelled
def test_orders_count_where_an_appointment_fits_and_reminders_in_so_many_words(
    text: str, probabilities: dict[str, float], asked: str | None, *, sure: bool
) -> None:
    found = judge_request(text, NOW, lambda: SHANGHAI, cast("Heads", Sure(**{"none": 0.0, **probabilities})))
    assert (found.kind, found.sure) == (asked, sure)


class Bare(Sure):
    """A head that is sure only of what is asked without courtesies."""

    def requests(self, texts: Sequence[str]) -> list[Judged | None]:
        polite = dict.fromkeys(self.probabilities, 0.0) | {"none": 1.0}
        bare = [text.islower() and "?" not in text for text in texts]
        return [Judged("", 0.0, self.probabilities if one else polite) for one in bare]


@pytest.mark.parametrize(
    ("asked", "judged_as", "sure"),
    [("new", "new", True), ("cancel", "cancel", False), ("move", "move", False), ("list", None, True)],
)
def test_what_is_asked_politely_is_what_is_asked(asked: str, judged_as: str | None, *, sure: bool) -> None:
    heads = cast("Heads", Bare(**{asked: 1.0}))
    found = judge_request("Could you please see to the gym at 5pm?", NOW, lambda: SHANGHAI, heads)
    assert (found.kind, found.sure) == (judged_as, sure)


@labelled
def test_a_time_alone_completes_the_request_that_was_asked_back(
    after: str, text: str, task: str | None
) -> None:
    found = judge_request(text, NOW, lambda: SHANGHAI, None, after)
    assert found.kind == (None if task is None else "new")
    if task is not None:
        assert likeliest(found.parsed).task == task


@pytest.mark.parametrize(
    ("probabilities", "times"), [({"new": 1.0}, 1), ({}, 1), ({"cancel": 1.0}, 0), ({"none": 1.0}, 0)]
)
def test_a_message_is_read_once_and_only_where_a_new_appointment_may_be_asked_for(
    probabilities: dict[str, float], times: int
) -> None:
    zone = Mock(return_value=SHANGHAI)  # asked for where the times of a message are read
    heads = cast("Heads", Sure(**probabilities)) if probabilities else None
    found = judge_request("晚上九点，吃药", NOW, zone, heads).kind
    assert (found is None) == {"new", "cancel"}.isdisjoint(probabilities)
    assert zone.call_count == times


@pytest.mark.parametrize(
    ("text", "hour"), [("六点半喊我起来，赶车", 6), ("buzz me at quarter past four, school run", 16)]
)
def test_what_is_known_to_ask_needs_only_a_time(text: str, hour: int) -> None:
    assert str(likeliest(parse(text, NOW, SHANGHAI, asks=True)).cron).split()[1] == str(hour)
    without = parse("say OVEN when it is done", NOW, SHANGHAI, asks=True)
    assert without == Unclear("it does not say when", is_request=True)
    assert parse("I get up at 6", NOW, SHANGHAI) == Unclear("nothing is asked for at a time")


def appointment(task: str, *times: tuple[int, int, int], again: bool = False) -> changes.Appointment:
    return changes.Appointment(
        uuid4(), task, tuple(datetime(2026, 3, *one, tzinfo=ZONE) for one in times), again
    )


THERE = (
    appointment("看牙医", (5, 15, 0)),
    appointment("交房租", *((day, 9, 0) for day in range(5, 19)), again=True),
    appointment("call mom", (6, 18, 0)),
    appointment("water the ferns", *((day, 8, 0) for day in range(5, 19)), again=True),
    appointment("dentist for me", (9, 11, 0)),
    appointment("dentist for the cat", (12, 16, 0)),
)


def meant(text: str, **given: Any) -> changes.Fit:
    times = changes.read_change(readable(text), NOW)
    readings = [one for one in (*times.old, *times.new) if not isinstance(one, Lead | Impossible)]
    return changes.match_appointments(times.rest, readings, THERE, **given)


@labelled
def test_which_appointment_is_meant(text: str, tasks: list[str], sure: bool) -> None:
    found = meant(text)
    assert ([one.task for one in found.appointments], found.sure) == (tasks, sure)
    assert changes.match_appointments("取消提醒", (), THERE[:1]).sure  # the only one there is
    assert not changes.match_appointments("cancel the haircut", (), THERE[:1]).sure


def test_the_same_in_other_words_is_meant_where_vectors_say_so() -> None:
    def likeness(_text: str, others: Sequence[str]) -> list[float]:
        return [changes.SIMILAR if other == "交房租" else 0.0 for other in others]

    said = "drop the landlord thing"
    assert meant(said, similarity=likeness).appointments == (THERE[1],)
    for all_alike in (changes.SIMILAR, changes.SIMILAR - 0.01):
        assert not meant(said, similarity=lambda _, others, alike=all_alike: [alike] * len(others)).sure


ONCE = ScheduleTiming("once", None, datetime(2026, 3, 5, 15, tzinfo=ZONE), None, SHANGHAI)
WEEKLY = ScheduleTiming("cron", "0 9 * * 1", None, None, SHANGHAI)


@labelled
def test_what_is_left_open_stays_as_it_was(text: str, at: str, cron: str) -> None:
    times = changes.read_change(readable(text), NOW)
    once, weekly = changes.move_timing(ONCE, times, NOW), changes.move_timing(WEEKLY, times, NOW)
    assert isinstance(once, ScheduleTiming) and once.at is not None
    assert isinstance(weekly, ScheduleTiming)
    assert (once.at.strftime("%Y-%m-%d %H:%M"), weekly.cron) == (at, cron)


@pytest.mark.parametrize(
    "text",
    [
        *("move the dentist", "牙医改到25点", "改到7点到9点之间", "make it three paragraphs", "把牙医改一下"),
        "move it to February 30",
    ],
)
def test_a_time_that_cannot_be_told_is_asked_back(text: str) -> None:
    found = changes.move_timing(ONCE, changes.read_change(readable(text), NOW), NOW)
    assert isinstance(found, Unclear)
    assert found.is_request
    daily = ScheduleTiming("cron", "0 9 * * *", None, None, SHANGHAI)  # of which one time cannot be moved
    assert isinstance(changes.move_timing(daily, changes.read_change("move it to Friday", NOW), NOW), Unclear)
    later = datetime(2026, 3, 6, tzinfo=ZONE)
    assert isinstance(changes.move_timing(ONCE, changes.read_change("move it to 9am", NOW), later), Unclear)


@labelled
def test_who_is_polite_says_no_part_of_the_task(text: str, task: str) -> None:
    read = parse(text, NOW, "Asia/Shanghai")
    assert isinstance(read, Exact)
    assert read.schedule.task == task
