"""What is asked of appointments in words, in both languages, through the loop and a running service."""

from __future__ import annotations

from collections.abc import Callable
from uuid import uuid4

import pytest

from jiyi import Client
from jiyi.chat.loop import ConversationLoop
from jiyi.protocol.appointments import AskedSchedules
from jiyi.protocol.base import Rows
from models.accounts import audit
from models.db.connection import unit_of_work
from models.db.scope import for_groups

AGENT, TZ, SECONDS = "小伴", "Asia/Shanghai", 60.0

pytest.importorskip("onnxruntime", reason="needs the `local` extra")


def state(client: Client) -> dict[str, tuple[str, str | None]]:
    """What is to be done → state and cron."""
    found = client.command("appointments.list", SECONDS, agent_id=AGENT)
    assert isinstance(found, Rows)
    return {one.task_description: (one.state, one.cron) for one in found.rows}


def done(client: Client) -> list[str]:
    """What was asked and done, oldest first."""
    with for_groups(client.group), unit_of_work() as connection:
        found = audit.entries(connection, client.group, None, 50, action="appointments.ask")
    return [entry.details.get("asked", "new") for entry in reversed(found)]


@pytest.mark.parametrize(
    ("taken", "several", "unknown", "moves", "lists", "cancels"),
    [
        (
            ("每天早上9点提醒我查房", "每天下午3点提醒我给花浇水", "每天晚上8点提醒我给狗洗澡"),
            "取消提醒",
            "把钢琴课的提醒取消吧",
            "把浇水的提醒改到4点",
            "我有哪些提醒",
            "查房的提醒取消吧",
        ),
        (
            (
                "remind me every day at 9am to check the ward",
                "remind me every day at 3pm to water the ferns",
                "remind me every day at 8pm to wash the dog",
            ),
            "cancel the reminder",
            "cancel the reminder for the piano lesson",
            "move the reminder for the ferns to 4pm",
            "what reminders do I have?",
            "cancel the reminder for the ward",
        ),
    ],
    ids=["zh", "en"],
)
def test_appointments_are_made_moved_listed_and_cancelled_in_words(
    client: Client, taken: tuple[str, ...], several: str, unknown: str, moves: str, lists: str, cancels: str
) -> None:
    with ConversationLoop(client, tz=TZ, seconds=SECONDS) as loop:
        for said in taken:
            assert loop.before(AGENT, "You are kind.", said).reply is not None
        before = state(client)
        assert len(before) == len(taken)
        ward, water, dog = [
            next(task for task, (_, cron) in before.items() if cron == f"0 {hour} * * *")
            for hour in (9, 15, 20)
        ]

        for unclear in (several, unknown):
            asked = loop.before(AGENT, "You are kind.", unclear)
            assert asked.reply is not None
            assert all(task in asked.reply for task in before)
            assert "[schedule] " in asked.system_prompt
            assert state(client) == before

        assert "16:00" in (loop.before(AGENT, "", moves).reply or "")
        assert state(client) == before | {water: ("active", "0 16 * * *")}

        told = loop.before(AGENT, "You are kind.", lists)
        assert told.reply is not None
        assert all(task in told.reply and task in told.system_prompt for task in before)

        gone = loop.before(AGENT, "You are kind.", cancels)
        assert gone.reply is not None
        assert ward in gone.reply
        assert ward in gone.system_prompt
        assert state(client) == {
            ward: ("ended", "0 9 * * *"),
            water: ("active", "0 16 * * *"),
            dog: ("active", "0 20 * * *"),
        }
        assert done(client) == ["new", "new", "new", "move", "cancel"]

        for idle in ("今天天气怎么样", "The meeting was cancelled"):
            assert loop.before(AGENT, "You are kind.", idle).reply is None
        assert len(done(client)) == 5


def asking(client: Client) -> Callable[..., AskedSchedules]:
    def ask(text: str, user: str | None = None, request_id: object = None) -> AskedSchedules:
        asked = client.within(SECONDS).appointments.ask
        again = str(request_id or uuid4())
        return asked(agent_id=AGENT, text=text, tz=TZ, user_id=user, request_id=again)

    return ask


def test_the_same_request_twice_cancels_one(client: Client) -> None:
    ask, again = asking(client), str(uuid4())
    ask("每天早上9点提醒我查房")
    first = ask("取消提醒", request_id=again)
    ask("每天晚上8点提醒我给狗洗澡")
    second = ask("取消提醒", request_id=again)
    assert first.schedule is not None
    assert (second.schedule, second.confirmation) == (first.schedule, first.confirmation)
    assert {one for one, _ in state(client).values()} == {"ended", "active"}
    resumed = client.command("appointments.update", SECONDS, id=first.schedule.id, paused=False)
    assert resumed.model_dump()["state"] == "active"


@pytest.mark.parametrize(
    ("plan", "other", "lists", "cancels", "word"),
    [
        ("每天早上9点提醒我查房", "每天晚上8点提醒我遛狗", "我有哪些提醒", "取消查房的提醒", "查房"),
        (
            "remind me every day at 9am to check the ward",
            "remind me every day at 8pm to walk the dog",
            "what reminders do I have?",
            "cancel the reminder for the ward",
            "ward",
        ),
    ],
    ids=["zh", "en"],
)
def test_one_person_s_appointments_are_no_other_s(
    client: Client, plan: str, other: str, lists: str, cancels: str, word: str
) -> None:
    ask = asking(client)
    assert [ask(plan, "zoe").asked, ask(other, "ben").asked] == ["new", "new"]
    told = [ask(lists, user).confirmation or "" for user in ("zoe", "ben")]
    assert [word in sentence for sentence in told] == [True, False]
    assert ask(lists).schedules == []
    assert ask(cancels, "ben").certainty == "unclear"
    assert ask(cancels, "zoe").asked == "cancel"
    listed = client.command("appointments.list", SECONDS, agent_id=AGENT, user_id="ben")
    assert isinstance(listed, Rows)
    assert [schedule.user_id for schedule in listed.rows] == ["ben"]
