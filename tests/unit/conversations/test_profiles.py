"""Profiles: what signals add, in which order, how it is told; and that only messages of substance have
topics.
"""

from __future__ import annotations

from typing import Any

import pytest

from engine.conversations.memories import LABELS, keywords, lines, merge_profile, profile_signals
from jiyi.protocol.conversations import PROFILE_ENTRIES, Message, Profile, ProfileSignals

ONE = ("industry", "role", "expertise_level", "communication_style")
MANY = ("recent_topics", "pain_points", "preferred_tools")
VALUES = dict(zip(ONE, ("pottery", "owner", "expert", "concise"), strict=True))
OTHERS = {"expertise_level": "beginner", "communication_style": "formal"}


def signals(**fields: Any) -> ProfileSignals:
    return ProfileSignals.model_validate(fields)


@pytest.mark.parametrize("name", ONE)
def test_a_value_is_taken_kept_and_replaced(name: str) -> None:
    known = merge_profile(Profile(), signals(**{name: VALUES[name]}))
    assert getattr(known, name) == VALUES[name]
    assert merge_profile(known, signals()) == known
    other = Profile.model_validate({name: OTHERS.get(name, "other")})
    assert merge_profile(other, signals(**{name: VALUES[name]})) == known


@pytest.mark.parametrize(
    ("text", "industry"),
    [
        ("我在一家诊所上班", "healthcare"),
        ("医疗行业的排班很乱", "healthcare"),
        ("I run a small clinic in Leeds", "healthcare"),
        ("虾让我进医院了", None),
        ("It put me in hospital.", None),
        ("我们车间的产线停了", "manufacturing"),
        ("I teach at a primary school", "education"),
        ("我喜欢游泳", None),
    ],
)
def test_the_industry_follows_from_what_users_say_of_their_work(text: str, industry: str | None) -> None:
    assert profile_signals([Message(role="user", text=text)]).industry == industry


@pytest.mark.parametrize("name", MANY)
def test_lists_grow_at_their_head_and_an_entry_that_comes_again_moves_there(name: str) -> None:
    known = merge_profile(Profile(), signals(**{name: ["one"]}))
    steps = {"two": ["two", "one"], "One": ["One", "two"], "two TWO one": ["two", "one"]}
    for words, entries in steps.items():
        added = words.split()
        known = merge_profile(known, signals(**{name: added}))
        assert getattr(known, name) == entries


@pytest.mark.parametrize("name", MANY)
def test_lists_are_bounded_and_the_newest_stay(name: str) -> None:
    made = Profile()
    for number in range(PROFILE_ENTRIES + 3):
        made = merge_profile(made, signals(**{name: [f"entry {number}"]}))
    assert len(getattr(made, name)) == PROFILE_ENTRIES
    assert getattr(made, name)[0] == f"entry {PROFILE_ENTRIES + 2}"


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_card_tells_what_is_known_and_nothing_else(language: Any) -> None:
    assert lines(Profile(), language) == []
    told = lines(Profile(industry="pottery", preferred_tools=["kiln", "sieve"]), language)
    names = LABELS[language]
    assert told == [f"{names['industry']}: pottery", f"{names['preferred_tools']}: kiln, sieve"]


def topics_of(*texts: str) -> list[str]:
    return profile_signals([Message(role="user", text=text) for text in texts]).recent_topics


@pytest.mark.parametrize(
    "text",
    """先忙，回头聊|今天天气不错啊|在吗？有空聊两句吗|好久不见，最近怎么样？|太好了，非常感谢你的帮助|我有点困了，今天就到这吧|早啊，吃了没|对对对就是这个意思
    |Hey, how's it going?|Lovely weather today, isn't it|brb, gotta grab lunch|Haha no way, that's hilarious|hmm okay, let me think about it
    |Sorry, I was away for a minute|Happy Friday everyone!|You're the best, seriously""".split("|"),
)
def test_small_talk_has_no_topic(text: str) -> None:
    assert topics_of(text.strip()) == []


@pytest.mark.parametrize(
    ("text", "topics"),
    [
        ("我最近在学陶艺，拉坯总是拉歪", ["陶艺", "拉坯"]),
        ("红茶菌发酵几天比较合适？", ["红茶菌"]),
        ("马上要去敦煌旅游了，准备看莫高窟", ["莫高窟", "敦煌"]),
        ("我喜欢游泳", ["游泳"]),
        ("React 的 useEffect 为什么会执行两次", ["useeffect", "react"]),
        ("Can you explain how compound interest works on a mortgage?", ["compound", "mortgage"]),
        ("Basically the kubernetes ingress returns 502s after every deploy", ["502s", "kubernetes"]),
        ("I quietly quit my accounting job and started a podcast about beetles", ["podcast", "beetles"]),
        ("I swim every morning", ["swim"]),
    ],
)
def test_what_a_message_is_about(text: str, topics: list[str]) -> None:
    assert topics_of(text) == topics


def test_newest_first_and_small_talk_between_takes_no_place() -> None:
    told = topics_of("我喜欢游泳", "先忙，回头聊", "Which vaccinations do I need for Kenya?", "ok, thanks!")
    assert told == ["kenya", "vaccinations", "游泳"]


def test_what_is_handed_over_or_acted_is_no_topic() -> None:
    assert topics_of("Translate this:\nThe orchid survived the winter in Kenya.") == []
    assert topics_of("Let's play: I'm a pirate and you are my parrot") == []


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("I eat fish now.", ["fish"]),
        ("User likes going to the gym every morning", ["gym"]),
        ("I live in Rome with my brother and we like it a lot.", ["rome", "brother"]),
        ("I run every morning", ["run"]),
        ("我现在吃鱼了", ["鱼"]),
        ("用户住在杭州西湖区，跟女朋友一起", ["西湖区", "女朋友", "杭州"]),
    ],
)
def test_keywords_name_things_people_places_or_what_is_done(text: str, named: list[str]) -> None:
    assert keywords(text, 5) == named
    assert keywords(text, 1) == named[:1]
