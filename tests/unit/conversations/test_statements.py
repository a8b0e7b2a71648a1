"""What of a message counts as stated by the user, and what does not."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from engine.conversations.statements import STRONG, statements
from engine.times.past import with_dates
from jiyi.protocol.conversations import Message

WEDNESDAY = datetime(2026, 3, 4, 9, tzinfo=UTC)


def said(*texts: str, role: str = "user") -> list[str]:
    messages = [Message(role=role, text=text) for text in texts]  # type: ignore[arg-type] # the tests name roles
    return [one.text for made in statements(messages) for one in made]


NOTHING_OF_THE_USER = """What should I cook tonight? | 晚上吃什么好呢？
    | If I won the lottery, I would buy a house in Rome. | 要是我有钱就去环游世界。
    | Translate into French: I live in Madrid and I love paella. | 把这句话翻译成英文：我明天去上海出差。 | 我朋友说：“我这辈子都不想加班。”
    | In my novel the hero lives in Venice and owns a lion. | 听说新规更严了。 | 帮我写一段祝福语
    | Thanks, that's really helpful! | 嗯嗯，知道了 | Let's role-play: you are a waiter and I am a customer who hates onions."""


@pytest.mark.parametrize(
    "text", [*NOTHING_OF_THE_USER.split("|"), "```\nmy_name = 'Anna'\nI live in a code block\n```"]
)
def test_what_states_nothing_of_the_user(text: str) -> None:
    messages = [Message(role="user", text=text.strip())]
    assert not [made for made in statements(messages) if any(one.strength >= STRONG for one in made)]


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("I'm allergic to shellfish.", "I'm allergic to shellfish."),
        ("I'm a strict vegetarian, what should I cook tonight?", "I'm a strict vegetarian"),
        ("我对花生过敏，晚上吃什么好？", "我对花生过敏"),
        ("Remember that my daughter Mia has asthma.", "my daughter Mia has asthma."),
        ("记一下：发布日固定在每周二。", "发布日固定在每周二。"),
        ("My sister Nora lives in Ghent, remember?", "My sister Nora lives in Ghent"),
        ("我的上司在上海工作呢。", "我的上司在上海工作呢。"),
    ],
)
def test_what_is_stated(text: str, kept: str) -> None:
    assert said(text) == [kept]


def test_what_others_say_or_act_is_no_statement_of_the_user() -> None:
    assert said("You live in Oslo and love skiing in winter.", role="assistant") == []
    assert said("I live in Oslo and love skiing in winter.", role="tool") == []
    messages = [
        "你扮演面试官，我是应聘者",
        "我叫李雷，有十年Java经验",
        "不演了，说正经的",
        "我真正的工作是在图书馆管古籍",
    ]
    assert said(*messages) == ["我真正的工作是在图书馆管古籍"]


def test_a_short_answer_keeps_its_question() -> None:
    messages = [
        Message(role="assistant", text="Nice. What's your dog called?"),
        Message(role="user", text="Bruno."),
    ]
    [[one]] = statements(messages)
    assert (one.text, one.question) == ("Bruno.", "What's your dog called?")
    unsure = [Message(role="assistant", text="When is it?"), Message(role="user", text="I don't know.")]
    assert statements(unsure) == []


def test_a_wish_for_how_to_be_answered_is_kept_and_a_task_is_not() -> None:
    [[wish]] = statements([Message(role="user", text="以后回答都用中文")])
    assert wish.lasting
    assert said("Always answer in British English.") == ["Always answer in British English."]
    assert said("Shorten this text to one paragraph.") == []


def test_a_name_that_is_addressed_tells_nothing() -> None:
    spoken = [
        Message(role="user", name="Jon", text="Hey!"),
        Message(role="user", name="Gina", text="Definitely, Jon!"),
    ]
    assert statements(spoken) == []


@pytest.mark.parametrize(
    ("text", "dated"),
    [
        ("I moved yesterday", "I moved yesterday (2026-03-03)"),
        ("the party is on Friday", "the party is on Friday (2026-03-06)"),
        ("I met him on Monday", "I met him on Monday (2026-03-02)"),
        ("next Wednesday", "next Wednesday (2026-03-11)"),
        ("a couple of days ago", "a couple of days ago (2026-03-02)"),
        ("last year in June", "last year (2025) in June"),
        ("昨天去了医院", "昨天 (2026-03-03)去了医院"),
        ("上周五见过他", "上周五 (2026-02-27)见过他"),
        ("下个月5号搬家", "下个月5号 (2026-04-05)搬家"),
        ("三个月后回国", "三个月后 (2026-06)回国"),
        ("每周三游泳", "每周三游泳"),
        ("in 999 months", "in 999 months (2109-06)"),
        ("the keys come a week tomorrow", "the keys come a week tomorrow (2026-03-12)"),
        ("two weeks from today", "two weeks from today (2026-03-18)"),
        ("it's been a week today", "it's been a week today (2026-03-04)"),
        ("sprained it Tuesday just gone", "sprained it Tuesday just gone (2026-03-03)"),
    ],
)
def test_relative_days_are_dated(text: str, dated: str) -> None:
    assert with_dates(text, WEDNESDAY) == dated
    assert with_dates(text, None) == text
