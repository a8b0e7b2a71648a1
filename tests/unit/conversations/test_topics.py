"""What a user talks about: only messages of substance have topics, and no topic is a greeting, an adverb or a filler."""

from __future__ import annotations

import pytest

from engine.conversations.profiles import keywords, profile_signals
from jiyi.protocol.conversations.types import Message


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
