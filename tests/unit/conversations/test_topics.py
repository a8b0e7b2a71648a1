"""What a user talks about: only messages of substance have topics, and no topic is a greeting, an adverb or a filler."""

from __future__ import annotations

import pytest

from engine.conversations.profiles import keywords, profile_signals
from jiyi.protocol.conversations.types import Message


def topics_of(*texts: str) -> list[str]:
    return profile_signals([Message(role="user", text=text) for text in texts]).recent_topics


@pytest.mark.parametrize(
    "text",
    """先忙，回头聊|今天天气不错啊|你好呀|在吗？有空聊两句吗|哈哈哈笑死我了|行吧，那先这样，改天再说|嗯嗯知道了，辛苦你啦|晚安，明天见|好久不见，最近怎么样？
    |我先去吃饭了，等会儿回来|真的假的？不会吧|周末愉快！|太好了，非常感谢你的帮助|我有点困了，今天就到这吧|其实我也不太清楚，随便吧
    |早啊，吃了没|没事没事，你慢慢来
    |哎呀堵车了，晚点到|对对对就是这个意思|哇塞，厉害了
    |Hey, how's it going?|Lovely weather today, isn't it|brb, gotta grab lunch|Thanks a million, that was really helpful!
    |Haha no way, that's hilarious
    |Talk to you later, have a great weekend|Good morning! Did you sleep well?|hmm okay, let me think about it|Not bad at all, actually
    |Sorry, I was away for a minute|Honestly I'm just really tired right now|Happy Friday everyone!
    |You're the best, seriously|How's your day been?
    |No worries, take your time|That makes a lot of sense, thanks for explaining""".split("|"),
)
def test_small_talk_has_no_topic(text: str) -> None:
    assert topics_of(text.strip()) == []


@pytest.mark.parametrize(
    ("text", "topics"),
    [
        ("我最近在学陶艺，拉坯总是拉歪", ["陶艺", "拉坯"]),
        ("红茶菌发酵几天比较合适？", ["红茶菌"]),
        ("租房合同里的押金条款是什么意思", ["租房", "押金"]),
        ("马上要去敦煌旅游了，准备看莫高窟", ["莫高窟", "敦煌"]),
        ("我喜欢游泳", ["游泳"]),
        ("React 的 useEffect 为什么会执行两次", ["useeffect", "react"]),
        ("Can you explain how compound interest works on a mortgage?", ["compound", "mortgage"]),
        ("Basically the kubernetes ingress returns 502s after every deploy", ["502s", "kubernetes"]),
        ("I quietly quit my accounting job and started a podcast about beetles", ["podcast", "beetles"]),
        ("Why does my espresso taste sour?", ["espresso", "taste"]),
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
        ("I quit my job", ["job"]),
        ("I run every morning", ["run"]),
        ("我现在吃鱼了", ["鱼"]),
        ("用户住在杭州西湖区，跟女朋友一起", ["西湖区", "女朋友", "杭州"]),
        ("我每天早上都会去跑步", ["跑步"]),
    ],
)
def test_keywords_name_things_people_places_or_what_is_done(text: str, named: list[str]) -> None:
    assert keywords(text, 5) == named
    assert keywords(text, 1) == named[:1]
