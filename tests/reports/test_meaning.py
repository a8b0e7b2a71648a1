"""What people report their assistant to have got wrong: what ended, what stayed, whose words they were,
without any LLM.

The reported sentences, and others of the same kind.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta

import pytest

from engine.conversations.marks import ENDS, live, marks_of
from tests.integration.conversations.talk import START, hurry, nodes, run, say

pytestmark = pytest.mark.usefixtures("database", "nothing_owed")

CALLED = "Hello there.", "Nice weather.", "Well then."


def stands(group: str, earlier: list[str], later: list[str], without: Collection[str] = ENDS) -> str:
    """All that stands of what was said in two sessions, a month between them, and of what was taken from it.

    ``without`` what is marked so: what only may have ended is *earlier*.
    """
    for number, said in enumerate((earlier, later)):
        if said:
            say(group, *CALLED, *said, start=START + timedelta(days=30 * number), session_id=f"s{number}")
            hurry()
            run()
    on = (START + timedelta(days=31)).date()
    rows = [row for row in nodes(group) if not row["superseded_at"]]
    return " | ".join(
        live(
            row["description"],
            [mark for mark in marks_of(row["provenance"], on) if mark.why in {*without, "until", "else"}],
        )
        for row in rows
    )


@pytest.mark.parametrize(
    ("earlier", "later", "stays", "gone"),
    [
        (
            "Careful with recipes for me: I'm allergic to peanuts, and my son Leo can't have dairy.",
            "Small correction: Leo can have dairy after all, the doctor says it was never an allergy.",
            ["allergic to peanuts"],
            ["can't have dairy"],
        ),
        (
            "I'm allergic to sesame, and my niece Ida can't have gluten.",
            "Correction: Ida can have gluten after all, it was never coeliac disease.",
            ["allergic to sesame"],
            ["can't have gluten"],
        ),
        (
            "I'm allergic to peanuts and shellfish.",
            "I'm not allergic to shellfish after all, the test came back negative.",
            ["allergic to peanuts"],
            ["and shellfish"],
        ),
        (
            "I'm allergic to kiwis and latex.",
            "I'm not allergic to latex after all, the test came back negative.",
            ["allergic to kiwis"],
            ["and latex"],
        ),
        ("我对花生和海鲜过敏。", "检查结果出来了，我对海鲜不过敏。", ["花生"], ["和海鲜过敏"]),
        ("I live in Porto and work as a nurse.", "I moved to Graz.", ["nurse", "Graz"], ["live in Porto"]),
        (
            "I live in Lund and work as a plumber.",
            "I moved to Malmö.",
            ["plumber", "Malmö"],
            ["live in Lund"],
        ),
        ("我住在成都，是高中物理老师。", "我搬到杭州了。", ["物理老师", "杭州"], ["住在成都"]),
        ("我姐姐叫安娜。", "更正：我姐姐叫汉娜，不叫安娜。", ["汉娜"], ["姐姐叫安娜"]),
        ("我弟弟叫小军。", "更正：我弟弟叫小钧，不叫小军。", ["小钧"], ["弟弟叫小军"]),
        ("I live in Leeds.", "Sorry, I meant Leicester, not Leeds.", ["Leicester"], ["live in Leeds"]),
        ("I live in Derby.", "Sorry, I meant Durham, not Derby.", ["Durham"], ["live in Derby"]),
        (
            "My flight is on March 3.",
            "Actually it's March 13, not March 3.",
            ["March 13"],
            ["flight is on March 3"],
        ),
        ("My train is on May 4.", "Actually it's May 14, not May 4.", ["May 14"], ["train is on May 4"]),
        ("我对花生过敏", "说错了，我是对芝麻过敏，不是花生", ["芝麻"], ["我对花生过敏"]),
        (
            "I'm allergic to peanuts.",
            "I was wrong: I'm allergic to sesame, not peanuts.",
            ["sesame"],
            ["allergic to peanuts"],
        ),
        ("I love cilantro.", "I hate cilantro.", ["hate cilantro"], ["love cilantro"]),
    ],
)
def test_what_is_taken_back_ends_and_what_stood_beside_it_stays(
    group: str, earlier: str, later: str, stays: list[str], gone: list[str]
) -> None:
    left = stands(group, [earlier], [later])
    assert [part for part in stays if part not in left] == []
    assert [part for part in gone if part in left] == []


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        ("I'm allergic to penicillin.", "My daughter is not allergic to cats anymore."),
        ("I'm allergic to penicillin.", "My brother outgrew his allergy to penicillin."),
        ("I'm allergic to ibuprofen.", "My sister outgrew her allergy to ibuprofen."),
        ("I'm allergic to shrimp, it put me in hospital.", "I eat fish now."),
        ("My mother has a cat.", "My mother moved to Lyon."),
        ("My aunt keeps bees.", "My aunt moved to Bergen."),
        ("I work as a nurse at St Mary's.", "My colleague Clara changed her team last week."),
        ("I teach chemistry at Elmwood.", "My neighbour Otto switched his job last month."),
        ("My dentist moved to Park Street.", "Clara's team switched its standup to Wednesday."),
        ("My landlord raised the rent to 950.", "Clara moved her desk to room 5."),
        ("I stopped going to the gym on Mondays.", "Felix's team switched its standup to Monday."),
        ("I switched from coffee to tea.", "We changed the coffee supplier to Roastery Blue."),
        ("Felix moved his desk to room 8.", "David moved his desk to room 6."),
        ("My brother plays the cello.", "My brother changed his job to Siemens."),
        ("计费服务换到了c4集群。", "预发环境的数据库迁到了db7。"),
        ("公司的市场预算涨到四万。", "房东把房租涨到了九百五。"),
        ("小李的工位在三楼。", "小张的工位搬到了五楼。"),
        ("小赵的车停在地下二层。", "小钱的车换到了地面停车场。"),
        ("小王的组会在周二。", "小林的组会改到周四。"),
        ("我妈妈养了一只猫。", "我妈妈搬到了里昂。"),
        ("我邻居养了一只乌龟。", "我邻居换了新工作。"),
    ],
)
def test_news_of_something_else_retires_no_fact(group: str, earlier: str, later: str) -> None:
    found = stands(group, [earlier], [later], without=("ended", "corrected"))
    assert found.count(earlier.rstrip(".。")) == 2, "the turn and the fact"


@pytest.mark.parametrize(
    ("own", "foreign", "word"),
    [
        ("My name is Ana.", "For example, a user could write 'My name is Bob and I live in Paris'.", "Bob"),
        (
            "My name is Kemal.",
            "For example, a user could write 'My name is Dora and I live in Rome'.",
            "Dora",
        ),
        ("我叫小红。", "例如：我叫李雷，住在上海。", "李雷"),
        ("I live in Oslo.", "Example sentence: I live in Tokyo and work as a nurse.", "Tokyo"),
        ("I live in Oslo.", 'Copy of Sam\'s mail: "I moved to Tokyo last week."', "moved to Tokyo"),
        ("I live in Oslo.", "Test input: I moved to Tokyo last week.", "moved to Tokyo"),
        ("I live in Bern.", "Test input: I moved to Quito last week.", "moved to Quito"),
    ],
)
def test_samples_and_quoted_letters_are_nobodys_facts(group: str, own: str, foreign: str, word: str) -> None:
    left = stands(group, [own], [foreign])
    assert own.rstrip(".。") in left
    assert word not in left


@pytest.mark.parametrize(
    ("said", "word"),
    [
        ("Please remember that I don't want this saved: my salary is 5,400.", "5,400"),
        ("Not to be remembered: my salary is 5,400.", "5,400"),
        ("Off the record, I was in rehab in May.", "rehab"),
        ("Don't store this: my rent is 1,260.", "1,260"),
        ("Please don't remember my address: I live at 14 Elm Street in Leeds.", "Elm"),
        ("别记住：我的工资是一万二", "一万二"),
        ("这个不要记下来：我上个月确诊了抑郁症", "抑郁"),
        ("这个别记下来：我欠了三万块", "三万"),
        ("不要存：我下个月要做手术", "手术"),
    ],
)
def test_what_is_not_to_be_kept_is_in_no_memory(group: str, said: str, word: str) -> None:
    assert word not in stands(group, [], [said])


def test_what_else_was_said_in_those_sessions_is_as_it_was(group: str) -> None:
    own = [
        "I live in Rome with my cat.",
        "I'm 34.",
        "My sister Eva lives in Paris and she is 4 years younger.",
    ]
    left = stands(group, own, ["I moved to Turin."])
    assert "live in Rome" not in left
    assert all(part in left for part in ("Turin", "I'm 34", "Eva lives in Paris"))


def test_a_job_that_changed_leaves_home_children_and_diet(group: str) -> None:
    own = ["我住在上海，在一家医院当护士。", "我儿子5岁，叫小宝。", "我不吃猪肉。"]
    left = stands(group, own, ["我现在不当护士了，改行做会计。"])
    assert "当护士。" not in left
    assert all(part in left for part in ("住在上海", "会计", "小宝", "不吃猪肉"))
