"""What stands in an assistant's prompt, whatever its user asks, and what does not."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from engine.conversations.stable import VITAL_TOKENS, is_vital_fact
from jiyi.protocol.conversations import ContextRequest
from jiyi.protocol.recall import InjectedContext, RecallRequest
from jiyi.text.budget import estimate_tokens
from models.db.actions import Actor
from models.memory.work import EMBED
from tasks.conversations import injection
from tasks.framework.work import run_until_idle
from tasks.memory import embed
from tasks.retrieval import context
from tests.integration.conversations.talk import START, end_session, run, say
from tests.integration.conversations.test_commands import add
from tests.integration.memory.test_inbox import observed, save
from tests.reports.talks import LATER, a_group_each

pytestmark = pytest.mark.usefixtures("database", "nothing_owed")
#: Before a conclusion expires.
SOON = START + timedelta(days=2)


def talk(group: str, *said: str, session_id: str = "s1", **fields: Any) -> None:
    """What was said in a session that is over."""
    say(group, *said, session_id=session_id, **fields)
    end_session(group, session_id)
    run()


def ask(group: str, query: str, turn: int = 1, **fields: Any) -> InjectedContext:
    asked = ContextRequest(agent_id="helper", query=query, split=True, turn=turn, session_id="chat", **fields)
    return injection.build(Actor(group, "test"), asked)


def test_what_is_vital_stands_in_every_chat(group: str) -> None:
    zh, film = f"{group}-zh", "Which film shall we watch tonight?"
    talk(
        group,
        "I'm allergic to cashews.",
        "My son Teo has epilepsy.",
        "I take 20 mg of warfarin for my heart.",
        "My dad uses a wheelchair.",
        "I work as a nurse in a cancer ward in Turin.",
    )
    talk(
        zh,
        "我对腰果过敏。",
        "我儿子小迪有癫痫。",
        "我每天要服药控制血压。",
        "我爸爸坐轮椅。",
        "我在都灵的肿瘤医院当护士。",
    )
    for one, question, vital, other in (
        (group, film, ("cashews", "epilepsy", "warfarin", "wheelchair"), "Turin"),
        (zh, "今晚看什么电影？", ("腰果", "癫痫", "血压", "轮椅"), "都灵"),
    ):
        lines = ask(one, question).stable.splitlines()
        assert [sum(word in line for line in lines) for word in vital] == [1] * len(vital)
        assert not any(other in line for line in lines)


def test_what_a_program_observed_of_health_stands_in_chats_with_its_user_alone(group: str) -> None:
    save(observed(group, "Zoe is allergic to lupins.", agent_id="helper", occurred_at=START, user_id="zoe"))
    shown = {user: ask(group, "Which film shall we watch?", user_id=user).stable for user in ("zoe", "ben")}
    assert {user: "lupins" in stable for user, stable in shown.items()} == {"zoe": True, "ben": False}


def test_what_is_vital_is_found_however_much_came_after_it(group: str) -> None:
    vital = observed(group, "Zoe is allergic to lupins.", agent_id="helper", occurred_at=START)
    save(vital)
    later = START + timedelta(hours=1)
    save(
        *(
            observed(group, f"A parcel with number {n} came.", agent_id="helper", occurred_at=later)
            for n in range(150)
        )
    )
    assert "lupins" in ask(group, "Which film shall we watch?").stable


#: What is usual, an exception, a word of it, and a question.
EXCEPTIONS = [
    (
        "I work from the Leeds office every day.",
        "The lift is being mended, so I work from the Hull office only till the 20th.",
        "Hull",
        "Which office do I work from?",
    ),
    (
        "我每天在静安的办公室上班。",
        "电梯在修，这个礼拜先改到虹桥的办公室上班。",
        "虹桥",
        "我在哪个办公室上班？",
    ),
]


def test_an_exception_is_over_after_its_last_day_in_whatever_was_taken_from_it(group: str) -> None:
    for one, (usual, exception, word, question) in a_group_each(group, EXCEPTIONS):
        talk(one, usual, exception)
        lines = ask(one, question, now=START + timedelta(days=60)).context.splitlines()
        over = [line for line in lines if "no longer so" in line or "已改变" in line]
        assert over
        assert [line for line in lines if word in line and line not in over] == []


def test_what_a_bare_number_corrects_is_still_known(group: str) -> None:
    talk(group, "The party at the Anchor is for 32 people.", "*23")
    lines = ask(group, "How many people come to the party?", now=LATER).context.splitlines()
    assert [line for line in lines if "*23" in line]
    [party] = {line for line in lines if "32 people" in line}
    assert "no longer so" in party


def test_a_chat_s_prompt_follows_what_is_vital_as_it_comes_and_ends(group: str) -> None:
    assert "latex" not in ask(group, "Hello there!").stable
    talk(group, "I'm allergic to walnuts and latex.")
    first = ask(group, "What's on in town?", 2)
    assert "latex" in first.stable
    assert ask(group, "And on Sunday?", 3).stable == first.stable
    talk(
        group,
        "I'm not allergic to latex after all, the test came back negative.",
        session_id="s2",
        start=LATER,
    )
    after = ask(group, "What's on in town?", 4, now=LATER + timedelta(days=1)).stable
    assert "walnuts" in after
    assert not any("latex" in line and "not allergic" not in line for line in after.splitlines())


def test_vital_statements_have_a_limit_within_which_the_newest_stand(group: str) -> None:
    foods = (
        "almond barley celery durian endive fennel grape honey iris juniper kiwi lupin mango nettle".split()
    )
    for food in foods:
        add(
            group,
            f"The user found out at the clinic that they are badly allergic to {food}.",
            f"agent://helper/knowledge/{food}",
        )
    stable = ask(group, "Which film shall we watch?").stable
    shown = [food for food in foods if food in stable]
    assert 3 <= len(shown) < len(foods)
    assert shown == foods[-len(shown) :]
    assert estimate_tokens(stable) <= VITAL_TOKENS + 60  # beside the preface


@pytest.mark.parametrize(
    ("text", "vital"),
    [
        ("User: My niece Ada can't have gluten.", True),
        ("User: I’m strictly vegetarian.", True),
        ("用户：我奶奶听不清，要戴助听器。", True),
        ("用户：我女儿不能吃花生。", True),
        ("用户：我gluten intolerant，出去吃饭要注意。", True),
        ("用户：我有asthma，天天带着吸入器。", True),
        ("User: I love vegan ramen.", False),
        ("User: I work as a biologist in cancer research.", False),
        ("用户：我喜欢素食餐厅。", False),
        ("User: I moved to Lisbon.", False),
    ],
)
def test_health_is_vital_and_words_of_it_by_chance_are_not(text: str, *, vital: bool) -> None:
    assert is_vital_fact(text) == vital


CONCLUDED = [
    ("Oleg bought a third cello.", "Oleg collects cellos.", "What does Oleg collect?", "(concluded)"),
    ("奥列格买了第三把大提琴。", "奥列格收集大提琴。", "奥列格收集什么？", "(推断)"),
]


def test_a_conclusion_is_shown_as_one(group: str) -> None:
    for one, (said, conclusion, question, mark) in a_group_each(group, CONCLUDED):
        heard = observed(one, said, agent_id="helper", occurred_at=START)
        thought = {"node_type": "thought", "evidence": [heard.event_id], "occurred_at": START}
        save(heard)
        save(observed(one, conclusion, agent_id="helper", **thought))
        run_until_idle(EMBED, embed)
        who, asked = Actor(one, "test"), {"agent_id": "helper", "query": question, "now": SOON}
        chat = injection.build(who, ContextRequest.model_validate(asked)).context
        for text in (chat, context.build(who, RecallRequest.model_validate(asked)).text):
            lines = text.splitlines()
            assert [line.endswith(f'"{conclusion}" {mark}') for line in lines if conclusion in line] == [True]
            assert [mark in line for line in lines if said in line] == [False]
        as_json = injection.build(who, ContextRequest.model_validate({**asked, "format": "json"})).context
        found = [entry for entry in json.loads(as_json)["knowledge"] if entry["text"] == conclusion]
        assert [bool(entry.get("concluded")) for entry in found] == [True]
