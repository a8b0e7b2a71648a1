"""An exchange in the forms of chat APIs, and what its stable part may take of a budget."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest

from engine.conversations.stable import Basis, is_crowded, recall_room, stable_of
from jiyi.chat import shapes
from jiyi.chat.chain import Exchange
from jiyi.protocol.conversations import ChatMessage
from jiyi.text.budget import estimate_tokens
from jiyi.text.prompt import Line, Section, compose
from jiyi.text.prompting import PREFACE

HISTORY = tuple(
    ChatMessage(role=role, content=text)
    for role, text in (("user", "hi"), ("assistant", "hello"), ("user", "我想喝茶"))
)
READY = Exchange("a", "Be kind.", "我想喝茶", recalled="now", earlier={1: "then"}, chat=HISTORY)


@pytest.mark.parametrize("exchange", [READY, replace(READY, chat=READY.chat[:2])])
def test_what_was_recalled_stands_before_its_message_whether_the_last_is_among_the_others_or_not(
    exchange: Exchange,
) -> None:
    messages = [(message["role"], message["content"]) for message in shapes.openai(exchange)]
    earlier = [("system", "then"), ("user", "hi"), ("assistant", "hello")]
    assert messages == [("system", "Be kind."), *earlier, ("system", "now"), ("user", "我想喝茶")]
    prefixed = [message["content"] for message in shapes.openai(exchange, prefixed=True)]
    assert prefixed == ["Be kind.", "then\n\nhi", "hello", "now\n\n我想喝茶"]
    ready = shapes.anthropic(exchange)
    assert ready["system"] == [{"type": "text", "text": "Be kind.", "cache_control": {"type": "ephemeral"}}]
    assert [
        (message["role"], [part["text"] for part in message["content"]]) for message in ready["messages"]
    ] == [("user", ["then", "hi"]), ("assistant", ["hello"]), ("user", ["now", "我想喝茶"])]
    assert ready["messages"][-1]["content"][-1]["cache_control"] == {"type": "ephemeral"}


def test_the_same_words_twice_are_two_messages_and_a_tool_s_result_is_no_answer() -> None:
    yes = (ChatMessage(role="user", content="yes"), ChatMessage(role="assistant", content="ok"))
    assert shapes.turn_of(replace(READY, user_input="yes", chat=yes)) == 2
    call = {"id": "c1", "function": {"name": "search", "arguments": '{"q": "tea"}'}}
    result = ChatMessage(role="tool", content="found", tool_call_id="c1")
    called = (yes[0], ChatMessage(role="assistant", tool_calls=[call]), result)
    waiting = replace(READY, user_input="yes", chat=called, earlier={})
    assert shapes.turn_of(waiting) == 1
    asked, used, given = shapes.anthropic(waiting)["messages"]
    assert [part["text"] for part in asked["content"]] == ["now", "yes"]
    assert (used["content"][0]["name"], used["content"][0]["input"]) == ("search", {"q": "tea"})
    assert (given["role"], given["content"][0]["tool_use_id"]) == ("user", "c1")


def test_the_cache_s_share_is_what_two_prompts_begin_with() -> None:
    assert shapes.cache_share(["alone"]) == 1.0
    assert shapes.cache_share(["one two three four", "five six seven eight"]) < 0.1
    growing: list[Any] = [{"role": "user", "content": "water the ferns every morning " * 50}]
    prompts = [growing[:], [*growing, {"role": "user", "content": "and the moss"}]]
    assert shapes.cache_share(prompts) > 0.9
    shares = shapes.CacheShares()
    for prompt in prompts:
        assert shares.share("s") is None
        shares.note("s", prompt)
    assert shares.share("s") == shapes.cache_share(prompts)
    for number in range(shapes.SESSIONS):
        shares.note(number, prompts[0])
    assert shares.share("s") is None, "the latest sessions only"


def section(*texts: str, **fields: Any) -> Section:
    lines = [Line(text, item=Basis((f"memory:{text}",), (uuid4(),))) for text in texts]
    return Section("## Likes", lines, **fields)


@pytest.mark.parametrize("most", [0, 1, 5, 20, 60, 500])
def test_the_stable_part_keeps_to_its_share_and_names_only_what_is_in_it(most: int) -> None:
    soul = section(
        "You are kind. " * 30, "You are brief.", end="</SOUL>", own=True, opens=True, shortens=True
    )
    likes = section(*(f"likes tea number {place} 喜欢茶" for place in range(30)))
    made = stable_of(compose([soul, likes], most))
    assert made.tokens <= most
    assert estimate_tokens(made.text) <= most
    assert len(made.node_ids) == len(made.facts)
    assert all(fact.removeprefix("memory:")[:15] in made.text for fact in made.facts)
    if most == 60:
        assert (made.opening.endswith("…\n</SOUL>"), made.body) == (True, "")
    if most == 500:
        assert made.body.startswith(PREFACE["en"])


def test_a_message_s_recall_keeps_with_the_stable_part_to_the_budget_and_with_all_before_to_three() -> None:
    rooms = [(1_000, 300, 0), (1_000, 300, 1_900), (1_000, 300, 2_700), (60, 30, 0)]
    assert [recall_room(*room, is_statement=False) for room in rooms] == [700, 700, 0, 30]
    assert [recall_room(*room, is_statement=True) for room in rooms] == [41, 41, 0, 2]
    assert [is_crowded(*room) for room in rooms] == [False, False, True, False]
