"""What people report their assistant to have got wrong: what ended, what stayed, whose words they were,
without any LLM.

The reported sentences, and others of the same kind.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import timedelta
from typing import Any

import pytest

from engine.conversations.marks import ENDS, live, marks_of, visible_text
from engine.heads.judgements import ENDED, Heads
from engine.heads.model import NEVER
from jiyi.protocol.recall import ReinstateMemory
from jiyi.text.kept import NOT_KEPT
from models.db.actions import Actor
from models.memory.archive import reinstate_memory
from tests.integration.conversations.talk import START, nodes
from tests.reports.talks import LATER, a_group_each, stored_text, talk, talk_in_each

pytestmark = pytest.mark.usefixtures("database", "nothing_owed")


def stands(group: str, talks: Sequence[Any], without: Collection[str] = ENDS) -> list[str]:
    """Of talks of two sessions each, a month between them: all that stands of what was said and taken from it.

    ``without`` what is marked so: what only may have ended is *earlier*.
    """
    talks = a_group_each(group, talks)
    talk_in_each((one, earlier) for one, (earlier, _) in talks)
    talk_in_each(((one, later) for one, (_, later) in talks), LATER, session_id="s2")
    on = (START + timedelta(days=31)).date()
    left = []
    for one, _ in talks:
        rows = [
            (row["description"], marks_of(row["provenance"], on))
            for row in nodes(one)
            if not row["superseded_at"]
        ]
        gone = {*without, "until", "else"}
        left.append(
            " | ".join(live(said, [mark for mark in marks if mark.why in gone]) for said, marks in rows)
        )
    return left


#: What was said, what is said later, what of it stays, and what goes.
TAKEN_BACK = [
    (
        "Careful with recipes for me: I'm allergic to peanuts, and my son Leo can't have dairy.",
        "Small correction: Leo can have dairy after all, the doctor says it was never an allergy.",
        ["allergic to peanuts"],
        "can't have dairy",
    ),
    (
        "I'm allergic to sesame, and my niece Ida can't have gluten.",
        "Correction: Ida can have gluten after all, it was never coeliac disease.",
        ["allergic to sesame"],
        "can't have gluten",
    ),
    (
        "I'm allergic to peanuts and shellfish.",
        "I'm not allergic to shellfish after all, the test came back negative.",
        ["allergic to peanuts"],
        "and shellfish",
    ),
    (
        "I'm allergic to kiwis and latex.",
        "I'm not allergic to latex after all, the test came back negative.",
        ["allergic to kiwis"],
        "and latex",
    ),
    ("我对花生和海鲜过敏。", "检查结果出来了，我对海鲜不过敏。", ["花生"], "和海鲜过敏"),
    ("I live in Porto and work as a nurse.", "I moved to Graz.", ["nurse", "Graz"], "live in Porto"),
    (
        "I live in Porto and work as a nurse.",
        "I moved to Lisbon last week.",
        ["work as a nurse", "Lisbon"],
        "live in Porto",
    ),
    ("I live in Lund and work as a plumber.", "I moved to Malmö.", ["plumber", "Malmö"], "live in Lund"),
    ("我住在成都，是高中物理老师。", "我搬到杭州了。", ["物理老师", "杭州"], "住在成都"),
    ("我姐姐叫安娜。", "更正：我姐姐叫汉娜，不叫安娜。", ["汉娜"], "姐姐叫安娜"),
    ("我弟弟叫小军。", "更正：我弟弟叫小钧，不叫小军。", ["小钧"], "弟弟叫小军"),
    ("I live in Leeds.", "Sorry, I meant Leicester, not Leeds.", ["Leicester"], "live in Leeds"),
    ("I live in Derby.", "Sorry, I meant Durham, not Derby.", ["Durham"], "live in Derby"),
    (
        "My flight is on March 3.",
        "Actually it's March 13, not March 3.",
        ["March 13"],
        "flight is on March 3",
    ),
    ("My train is on May 4.", "Actually it's May 14, not May 4.", ["May 14"], "train is on May 4"),
    ("我对花生过敏", "说错了，我是对芝麻过敏，不是花生", ["芝麻"], "我对花生过敏"),
    (
        "I'm allergic to peanuts.",
        "I was wrong: I'm allergic to sesame, not peanuts.",
        ["sesame"],
        "allergic to peanuts",
    ),
    ("I love cilantro.", "I hate cilantro.", ["hate cilantro"], "love cilantro"),
]


def test_what_is_taken_back_ends_and_what_stood_beside_it_stays(group: str) -> None:
    left = stands(group, [([earlier], [later]) for earlier, later, _, _ in TAKEN_BACK])
    for (*_, stays, gone), found in zip(TAKEN_BACK, left, strict=True):
        assert [part for part in stays if part not in found] == [], found
        assert gone not in found


OF_OTHERS = [
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
]


def test_news_of_something_else_retires_no_fact(group: str) -> None:
    left = stands(
        group, [([earlier], [later]) for earlier, later in OF_OTHERS], without=("ended", "corrected")
    )
    for (earlier, _), found in zip(OF_OTHERS, left, strict=True):
        assert found.count(earlier.rstrip(".。")) == 2, "the turn and the fact"


#: What is so, what is only quoted, and a word of that.
SAMPLES = [
    ("My name is Ana.", "For example, a user could write 'My name is Bob and I live in Paris'.", "Bob"),
    ("My name is Kemal.", "For example, a user could write 'My name is Dora and I live in Rome'.", "Dora"),
    ("我叫小红。", "例如：我叫李雷，住在上海。", "李雷"),
    ("I live in Oslo.", "Example sentence: I live in Tokyo and work as a nurse.", "Tokyo"),
    ("I live in Oslo.", 'Copy of Sam\'s mail: "I moved to Tokyo last week."', "moved to Tokyo"),
    ("I live in Oslo.", "Test input: I moved to Tokyo last week.", "moved to Tokyo"),
    ("I live in Bern.", "Test input: I moved to Quito last week.", "moved to Quito"),
]


def test_samples_and_quoted_letters_are_nobodys_facts(group: str) -> None:
    left = stands(group, [([own], [foreign]) for own, foreign, _ in SAMPLES])
    for (own, _, word), found in zip(SAMPLES, left, strict=True):
        assert own.rstrip(".。") in found
        assert word not in found


#: What is told in confidence, and a word of it.
CONFIDENCES = [
    ("Please remember that I don't want this saved: my salary is 5,400.", "5,400"),
    ("Not to be remembered: my salary is 5,400.", "5,400"),
    ("Off the record, I was in rehab in May.", "rehab"),
    ("Don't store this: my rent is 1,260.", "1,260"),
    ("Please don't remember my address: I live at 14 Elm Street in Leeds.", "Elm"),
    ("Don't save this, but I was diagnosed with shingles last month.", "shingles"),
    ("别记住：我的工资是一万二", "一万二"),
    ("这个不要记下来：我上个月确诊了抑郁症", "抑郁"),
    ("这个别记下来：我欠了三万块", "三万"),
    ("不要存：我下个月要做手术", "手术"),
]


def test_what_is_not_to_be_kept_is_in_no_memory_and_a_note_says_so(group: str) -> None:
    talks = a_group_each(group, CONFIDENCES)
    talk_in_each((one, ["I keep plums in the cellar.", said]) for one, (said, _) in talks)
    for one, (said, word) in talks:
        found = stored_text(one)
        assert word not in found
        assert "plums" in found
        assert NOT_KEPT["en" if said.isascii() else "zh"] in found


def test_what_else_was_said_in_those_sessions_is_as_it_was(group: str) -> None:
    own = "I live in Rome with my cat.", "I'm 34.", "My sister Eva lives in Paris and she is 4 years younger."
    job = "我住在上海，在一家医院当护士。", "我儿子5岁，叫小宝。", "我不吃猪肉。"
    home, work = stands(group, [(own, ["I moved to Turin."]), (job, ["我现在不当护士了，改行做会计。"])])
    assert "live in Rome" not in home
    assert all(part in home for part in ("Turin", "I'm 34", "Eva lives in Paris"))
    assert "当护士。" not in work
    assert all(part in work for part in ("住在上海", "会计", "小宝", "不吃猪肉"))


def test_what_only_may_have_ended_stays_current_and_is_shown_as_earlier(
    group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The surer a judge has to be, the less is superseded: here it never is sure."""
    least = Heads.least

    def never_sure(heads: Heads, name: str, label: str, precision: float = 0.0) -> float:
        return NEVER if label == ENDED else least(heads, name, label, precision)

    monkeypatch.setattr(Heads, "least", never_sure)
    talk(group, "I take piano lessons with Osk.")
    talk(group, "No more piano lessons with Osk.", start=LATER, session_id="s2")
    assert not any(
        mark.why in ("ended", "corrected") for row in nodes(group) for mark in marks_of(row["provenance"])
    )
    old = next(row for row in nodes(group, "knowledge", "preference") if "piano" in row["description"])
    assert [mark.why for mark in marks_of(old["provenance"])] == ["earlier"]
    assert old["superseded_at"] is None
    now = LATER + timedelta(days=1)
    [part] = visible_text(old["description"], old["created_at"], old["provenance"], now).ended
    assert ("piano" in part.text, part.sure) == (True, False)
    reinstate_memory.perform(Actor(group, "test"), ReinstateMemory(id=old["node_id"], reason="a pause"))
    [kept] = [row for row in nodes(group, "knowledge", "preference") if row["node_id"] == old["node_id"]]
    assert marks_of(kept["provenance"]) == []
