"""What people found when they asked for reminders in their own words, thanked at the end of a task, or wished
for a style.

A plain "move it to 9" failed while "cancel it" worked; "could you …" and "never mind …" did nothing; a day of
the lunar calendar became the same numbers of the other; 7点到9点之间 became seven and nine o'clock; "remind
me to
buy milk" was met with silence.
"""

from __future__ import annotations

from datetime import date, datetime, timedelta
from functools import partial
from uuid import uuid4
from zoneinfo import ZoneInfo

import pytest

from engine.growth.pains import find_pains
from engine.growth.trajectories import compress, satisfaction
from engine.heads import local
from engine.heads.judgements import Heads
from jiyi import Client
from jiyi.chat.loop import ConversationLoop
from jiyi.protocol.appointments import AskedSchedules
from jiyi.protocol.base import Rows
from jiyi.protocol.conversations import Message
from tests.unit.growth.steps import run, step

AGENT, TZ, SECONDS = "pal", "Asia/Shanghai", 60.0
EN, ZH = "remind me tomorrow at 8am to call the dentist", "明天早上8点提醒我交作业"
OTHER = {EN: "remind me tomorrow at 7pm to feed the cat", ZH: "明天晚上7点提醒我喂猫"}

pytest.importorskip("onnxruntime", reason="needs the `local` extra")


class Person:
    """Somebody new who talks with the agent."""

    def __init__(self, client: Client) -> None:
        self.client, self.user = client, uuid4().hex

    def asks(self, text: str) -> AskedSchedules:
        found = self.client.command(
            "appointments.ask", SECONDS, agent_id=AGENT, user_id=self.user, text=text, tz=TZ
        )
        assert isinstance(found, AskedSchedules)
        return found

    def planned(self) -> list[tuple[str, str | None]]:
        """Each active appointment, as what is to be done and when next (hours and minutes)."""
        found = self.client.command("appointments.list", SECONDS, agent_id=AGENT, user_id=self.user)
        assert isinstance(found, Rows)
        active = [one for one in found.rows if one.state == "active"]
        return [
            (one.task_description, one.next_run_at and f"{one.next_run_at.astimezone(ZoneInfo(TZ)):%H:%M}")
            for one in active
        ]


@pytest.fixture
def person(client: Client) -> Person:
    return Person(client)


@pytest.mark.parametrize(
    ("made", "says", "time"),
    [
        (EN, "move it to 9", "09:00"),
        (EN, "Make it 9 instead.", "09:00"),
        (EN, "Could you move the dentist call to 9?", "09:00"),
        (EN, "Actually make that 7:30", "07:30"),
        (EN, "Could you please push it back by an hour?", "09:00"),
        (EN, "I'd like you to move it to noon", "12:00"),
        (EN, "make it three instead", "15:00"),
        (ZH, "改到9点", "09:00"),
        (ZH, "把它挪到下午三点", "15:00"),
        (ZH, "改成十点吧", "10:00"),
        (ZH, "您能帮我把它推迟一小时吗？", "09:00"),
        (ZH, "能不能改到10点", "10:00"),
        (ZH, "麻烦把它调到晚上八点", "20:00"),
        (ZH, "可以帮我把交作业改到中午12点吗", "12:00"),
    ],
)
def test_the_one_appointment_that_there_is_gets_the_new_time(
    person: Person, made: str, says: str, time: str
) -> None:
    person.asks(made)
    [(task, _)] = person.planned()
    moved = person.asks(says)
    assert (moved.asked, moved.certainty) == ("move", "exact"), moved.confirmation
    assert person.planned() == [(task, time)]


@pytest.mark.parametrize(
    ("made", "says"),
    [
        (EN, "cancel it"),
        (EN, "Never mind the dentist reminder."),
        (EN, "Never mind the call."),
        (EN, "Would you please cancel the dentist?"),
        (EN, "scrap it"),
        (ZH, "取消吧"),
        (ZH, "算了，取消"),
        (ZH, "交作业不用了"),
        (ZH, "你能把那个提醒取消掉吗"),
    ],
)
def test_the_one_appointment_that_there_is_is_cancelled(person: Person, made: str, says: str) -> None:
    person.asks(made)
    done = person.asks(says)
    assert (done.asked, done.certainty) == ("cancel", "exact"), done.confirmation
    assert person.planned() == []


@pytest.mark.parametrize(
    ("made", "says"),
    [
        (EN, "move it to 9"),
        (EN, "Could you make it 9?"),
        (EN, "cancel it"),
        (ZH, "取消吧"),
        (ZH, "把它挪到下午三点"),
    ],
)
def test_of_two_appointments_the_answer_names_both_and_changes_none(
    person: Person, made: str, says: str
) -> None:
    person.asks(made)
    person.asks(OTHER[made])
    before = person.planned()
    asked = person.asks(says)
    assert asked.certainty == "unclear"
    assert all(task in (asked.confirmation or "") for task, _ in before)
    assert person.planned() == before


@pytest.mark.parametrize(
    ("made", "says"),
    [
        ("remind me every Monday at 7am to water the plants", "Skip it this week."),
        ("remind me every day at 7am to water the plants", "cancel the plants tomorrow"),
        ("每周一早上7点提醒我浇花", "这周不用了"),
        ("每天早上7点提醒我浇花", "取消明天的浇花"),
    ],
)
def test_one_time_of_what_comes_again_does_not_end_it(person: Person, made: str, says: str) -> None:
    person.asks(made)
    before = person.planned()
    asked = person.asks(says)
    assert (asked.asked, asked.certainty) == ("cancel", "unclear")
    assert asked.confirmation
    assert person.planned() == before


@pytest.mark.parametrize(
    "says",
    [
        "make it three paragraphs instead",
        "could you make it shorter",
        "Could you move my desk closer to the window?",
        "never mind that",
        "Never mind the noise.",
        "I wish someone would remind me to buy milk at 6pm",
        "Remind me, who said that?",
        "把它改成红色",
        "提醒我一下，上次说的那个比例是多少来着",
        "要是有人六点提醒我买牛奶就好了",
        "算了吧",
    ],
)
def test_what_asks_nothing_of_appointments_changes_none_and_is_not_answered(
    person: Person, says: str
) -> None:
    person.asks(EN)
    before = person.planned()
    assert person.asks(says).confirmation is None
    assert person.planned() == before


@pytest.mark.parametrize(
    ("says", "question"),
    [
        ("Remind me to buy milk", "When shall I remind you?"),
        ("can you remind me to renew the passport?", "When shall I remind you?"),
        ("Don't let me forget the laundry", "When shall I remind you?"),
        ("提醒我买牛奶", "要什么时候提醒你？"),
        ("你能提醒我续签护照吗", "要什么时候提醒你？"),
        ("别忘了提醒我交电费", "要什么时候提醒你？"),
    ],
)
def test_a_reminder_without_a_time_is_asked_back(person: Person, says: str, question: str) -> None:
    asked = person.asks(says)
    assert (asked.asked, asked.certainty, asked.confirmation) == ("new", "unclear", question)
    assert person.planned() == []


def test_an_hour_alone_is_shown_as_a_time(person: Person) -> None:
    person.asks("Remind me every day at 9pm to take the pills")
    assert "take the pills (22:00, " in (person.asks("could you make it 10?").confirmation or "")


def test_a_confirmation_has_no_two_full_stops(person: Person) -> None:
    assert ".." not in (person.asks("Remind me to call the dentist tomorrow at 8 a.m.").confirmation or "")


@pytest.mark.parametrize(
    ("says", "then", "task"),
    [("Remind me to buy milk", "tomorrow at 6pm", "buy milk"), ("提醒我买牛奶", "明天晚上六点", "买牛奶")],
)
def test_the_time_alone_is_answer_enough(person: Person, says: str, then: str, task: str) -> None:
    with ConversationLoop(person.client, tz=TZ, seconds=SECONDS) as loop:
        for text in (says, then):
            assert (
                loop.before(AGENT, "You are kind.", text, session_id="s", user_id=person.user).reply
                is not None
            )
    assert person.planned() == [(task, "18:00")]


@pytest.mark.parametrize(
    "says",
    [
        "每天早上7点到9点之间提醒我浇花",
        "晚上8点到10点之间提醒我量血压",
        "remind me between 7 and 9 to water the plants",
        "every day between 7am and 9am remind me to stretch",
    ],
)
def test_between_two_times_is_asked_back(person: Person, says: str) -> None:
    asked = person.asks(says)
    assert (asked.asked, asked.certainty) == ("new", "unclear")
    assert asked.confirmation
    assert person.planned() == []


@pytest.mark.parametrize(
    ("says", "days"),
    [
        ("农历八月十五早上9点提醒我给妈妈打电话", {date(2026, 9, 25), date(2027, 9, 15), date(2028, 10, 3)}),
        ("大年初一早上8点提醒我拜年", {date(2027, 2, 6), date(2028, 1, 26), date(2029, 2, 13)}),
        ("腊月二十三下午5点提醒我祭灶", {date(2027, 1, 30), date(2028, 1, 19), date(2029, 2, 6)}),
        (
            "remind me on the Dragon Boat Festival at 9am to call mum",
            {date(2026, 6, 19), date(2027, 6, 9), date(2028, 5, 28)},
        ),
    ],
)
def test_a_day_of_the_lunar_calendar_is_that_day(person: Person, says: str, days: set[date]) -> None:
    made = person.asks(says)
    assert made.schedule is not None
    assert made.schedule.next_run_at is not None
    day = made.schedule.next_run_at.astimezone(ZoneInfo(TZ)).date()
    today = datetime.now(ZoneInfo(TZ)).date()
    assert day in days or today > max(days) - timedelta(days=366)


@pytest.mark.parametrize(
    "says", ["每年农历八月十五提醒我给妈妈打电话", "每月初一提醒我上香", "2031年腊月二十三提醒我祭灶"]
)
def test_a_lunar_day_of_no_sure_year_is_asked_back(person: Person, says: str) -> None:
    asked = person.asks(says)
    assert (asked.asked, asked.certainty) == ("new", "unclear")
    assert "农历" in (asked.confirmation or "")


@pytest.fixture(scope="module")
def heads() -> Heads:
    found = local.heads()
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("says", "outcome"),
    [
        ("太好了，谢谢", "success"),
        ("搞定，谢谢", "success"),
        ("多谢，收到了", "success"),
        ("谢谢你，辛苦了！", "success"),
        ("Great, thank you!", "success"),
        ("cheers mate", "success"),
        ("thanks, that was all", "success"),
        ("谢谢，再帮我发给小王", "abandoned"),
        ("Thanks. Send it to Ann as well", "abandoned"),
        ("Could you send it to Bob too? Thanks", "abandoned"),
    ],
)
def test_thanks_at_the_end_of_a_task_are_a_success(heads: Heads, says: str, outcome: str) -> None:
    for request in (
        "帮我查一下这个月的电费账单，然后发给会计。",
        "Find the invoice and mail it to the accountant.",
    ):
        steps = run("search", "mail", request=request)
        made = compress(
            [*steps, step(len(steps), "user_request", input=says)], partial(satisfaction, heads=heads)
        )
        assert made is not None
        assert made.outcome == outcome


def test_thanks_do_not_hide_that_a_tool_failed(heads: Heads) -> None:
    steps = run("search", ok=False)
    made = compress(
        [*steps, step(len(steps), "user_request", input="谢谢")], partial(satisfaction, heads=heads)
    )
    assert made is not None
    assert made.outcome == "failed"


@pytest.mark.parametrize(
    ("says", "hurts"),
    [
        ("对，我喜欢简短的回答，别太啰嗦。", False),
        ("请不要太啰嗦", False),
        ("希望步骤不要太繁琐", False),
        ("不太麻烦的话帮我查一下", False),
        ("please answer shorter", False),
        ("Please don't be so tedious.", False),
        ("It's not annoying at all.", False),
        ("I don't have to redo it every time anymore.", False),
        ("It isn't slow any more.", False),
        ("The build hasn't failed since, and it doesn't crash anymore.", False),
        ("不再报错了", False),
        ("它从来不报错，现在也不会卡死", False),
        ("它不报错，但是没反应", True),
        ("It's not that slow, but it crashes every day.", True),
        ("I can't stop it from crashing.", True),
        ("不能打开，一直报错", True),
        ("这一步太麻烦了", True),
        ("我不想每次都要手动改", True),
        ("I don't want to keep having to redo this.", True),
        ("It's so annoying, I have to redo it every time.", True),
    ],
)
def test_a_wish_about_style_is_no_trouble(says: str, *, hurts: bool) -> None:
    assert bool(find_pains([Message(role="user", text=says)]).pains) == hurts
