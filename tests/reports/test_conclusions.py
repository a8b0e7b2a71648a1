"""What a memory concludes by itself, and what it says of its users in general: nothing that nobody said."""

from __future__ import annotations

from datetime import timedelta

import pytest

from engine.conversations.memories import profile_signals
from engine.providers.questions import Insights
from engine.rules.provider import Rules
from jiyi.protocol.conversations import Message, Profile
from models.conversations import injections
from models.db.connection import unit_of_work
from tests.integration.conversations.talk import START
from tests.reports.talks import LATER, a_group_each, talk, talk_in_each

RULES = Rules()


def concluded(*said: str, every: int = 30) -> list[str]:
    """What the rules conclude from statements that were made some days apart."""
    times = [START + timedelta(days=every * number) for number in range(len(said))]
    question = Insights(agent_id="helper", focal_point="?", statements=list(said), times=times, count=5)
    return [one.text for one in RULES.ask(question).insights]


@pytest.mark.parametrize(
    "said",
    [
        (
            "Fee of the nursery set to 400 euros.",
            "Fee of the nursery raised to 450 euros.",
            "Fee of the nursery: they want 600 euros, we refused.",
        ),
        ("Headcount is 40.", "Headcount is 44.", "Headcount for next year: 60, not approved yet."),
        (
            "The crew is 9 people.",
            "The crew is 11 people.",
            "The crew would be 15 people if the grant had come through.",
        ),
        (
            "Our price is 80 euros.",
            "Our price is 85 euros.",
            "Our price should be 95 euros, says the agency.",
        ),
        ("Tickets cost 20 euros.", "Tickets cost 22 euros.", "Maybe tickets cost 30 euros at the door."),
        ("The deposit is 500 euros.", "The deposit is 550 euros.", "The deposit is 700 euros? No way."),
        ("My salary is 3,100 euros.", "My salary is 3,300 euros.", "My sister's salary is 4,800 euros."),
        (
            "Rent of the flat is 900 euros.",
            "Rent of the garage is 95 euros.",
            "Rent of the studio is 410 euros.",
        ),
        ("Tyre pressure is 32.", "Water pressure is 41.", "Air pressure is 29."),
        ("学费是3000元", "学费涨到3200元了", "学费，学校提出4000元，我们拒绝了"),
        ("团队人数是12", "团队人数增加到15", "明年团队人数计划是30"),
        ("我的体重是70公斤", "我的体重是71公斤", "如果不运动，体重会到80公斤"),
        ("我的工资是9000元", "我的工资是9500元", "邻居的工资是15000元"),
    ],
)
def test_no_figure_is_strung_on_that_was_not_so(said: tuple[str, ...]) -> None:
    assert concluded(*said) == []


@pytest.mark.parametrize(
    ("said", "conclusion"),
    [
        (
            (
                "Fee of the nursery set to 400 euros.",
                "Fee of the nursery raised to 450 euros.",
                "Fee of the nursery is 480 euros.",
            ),
            "Fee of the nursery: 400 euros → 450 euros → 480 euros, 1 May to 30 June",
        ),
        (
            (
                "User: My sister's salary is 4,800 euros.",
                "My sister's salary rose to 4,900 euros.",
                "My sister's salary is 5,100 euros.",
            ),
            "Sister's salary: 4,800 euros → 4,900 euros → 5,100 euros, 1 May to 30 June",
        ),
        (
            ("学费是3000元", "学费涨到3200元了", "学费现在是3500元"),
            "学费：3000元 → 3200元 → 3500元，5月1日至6月30日",
        ),
    ],
)
def test_what_was_so_is_still_concluded(said: tuple[str, ...], conclusion: str) -> None:
    assert concluded(*said) == [conclusion]


@pytest.mark.parametrize("said", ["If it rains we meet at the library.", "我们可能去图书馆见面"])
def test_what_was_only_supposed_is_no_habit(said: str) -> None:
    assert concluded(said, said, said, said, every=7) == []


def profile(group: str) -> Profile:
    with unit_of_work() as connection:
        return injections.find_profile(connection, (group, "helper")) or Profile()


#: What was said, the role that follows, the news, and the role that is left.
ROLES = [
    ("I work as an accountant at a bank.", "accountant", "I no longer work as an accountant.", None),
    ("I'm a nurse at a clinic in Bergen.", "nurse", "I'm a teacher at a primary school now.", "teacher"),
    ("我在医院当护士。", "护士", "我不当护士了，我现在是老师。", "老师"),
]


@pytest.mark.usefixtures("database", "nothing_owed")
def test_the_profile_loses_what_is_no_longer_so(group: str) -> None:
    rows = a_group_each(group, ROLES)
    talk_in_each((one, [said]) for one, (said, *_) in rows)
    assert [profile(one).role for one, _ in rows] == [role for _, role, _, _ in ROLES]
    talk_in_each(((one, [news]) for one, (_, _, news, _) in rows), LATER, session_id="s2")
    assert [profile(one).role for one, _ in rows] == [left for *_, left in ROLES]


@pytest.mark.usefixtures("database", "nothing_owed")
def test_a_topic_is_one_that_comes_up_again(group: str) -> None:
    talk(group, "Which kiln is best for stoneware?", "What should I cook with coriander?")
    assert profile(group).recent_topics == []
    talk(group, "How long does the kiln have to cool?", start=LATER, session_id="s2")
    assert profile(group).recent_topics == ["kiln"]


@pytest.mark.parametrize(
    "said",
    [
        "lol look at that formal wear",
        "Write a professional letter to my landlord.",
        "外卖专家说今天会爆单",
        "My senior colleague is on leave.",
        "Mia's bank called about her Volvo.",
        "我去银行取了点钱",
        "The shop on the corner has a court behind it.",
        "用官方的语气写一封请假信",
    ],
)
def test_what_is_not_sure_is_in_no_profile(said: str) -> None:
    found = profile_signals([Message(role="user", text=said)])
    assert {found.industry, found.role, found.expertise_level, found.communication_style} == {None}
