"""Steps become trajectories: masked, in order, once, with what came of it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.growth.trajectories import classify, compress, satisfaction
from jiyi.protocol.growth.steps import SUMMARY_CHARS, in_order, summary
from jiyi.protocol.growth.trajectories import Completion, RequestType, Satisfaction
from tests.unit.growth.steps import START, run, step


def says(verdict: Satisfaction | None) -> object:
    return lambda _messages: verdict


def neutral(_messages: Sequence[str]) -> Satisfaction | None:
    return "neutral"


def test_no_steps_are_no_trajectory() -> None:
    assert compress([], neutral) is None


def test_a_summary_is_one_line_of_at_most_200_characters() -> None:
    assert summary("two\n lines") == "two lines"
    assert len(summary("x" * 1_000_000)) == SUMMARY_CHARS


@pytest.mark.parametrize("secret", ["sk-abcdefghijklmnopqrstuv", "my password is Hunter2!x", "密码是Hunter2!x", "4111 1111 1111 1111"])
def test_a_summary_has_no_secret(secret: str) -> None:
    found = summary(f"so {secret} then")
    assert "[…]" in found
    assert not {"Hunter2!x", "abcdefghijklmnopqrstuv", "4111"} & set(found.split())


@given(st.text(max_size=600))
def test_a_summary_of_a_summary_is_no_longer(text: str) -> None:
    once = summary(text)
    assert len(once) <= SUMMARY_CHARS
    assert len(summary(once)) <= SUMMARY_CHARS


def test_steps_come_in_the_order_of_their_numbers() -> None:
    steps = run("search")
    assert {tuple(in_order(some)) for some in permutations(steps)} == {tuple(steps)}


def test_a_step_told_twice_comes_once() -> None:
    steps = run("search")
    again = [step(0, "user_request", input="find the invoice", event_id=step(99).event_id)]
    assert in_order([*steps, *steps, *again]) == steps


def test_the_chain_joins_a_call_with_its_result() -> None:
    made = compress(run("search", "mail"), neutral)
    assert made is not None
    assert [(link.step_type, link.tool, link.ok) for link in made.execution_chain] == [
        ("user_request", None, None),
        ("tool_call", "search", True),
        ("tool_call", "mail", True),
        ("generation", None, None),
    ]


def test_the_same_call_several_times_in_a_row_is_one_link() -> None:
    made = compress([step(0, "user_request", input="go"), *(step(n, input="again") for n in (1, 2, 3))], neutral)
    assert made is not None
    assert [link.times for link in made.execution_chain] == [1, 3]


def test_tools_are_named_once_in_their_order() -> None:
    made = compress(run("search", "mail", "search"), neutral)
    assert made is not None
    assert made.tools_used == ["search", "mail"]


def test_tokens_are_added_up_and_estimated_where_nobody_said() -> None:
    made = compress([step(0, "user_request", input="two words", tokens=7), step(1, "generation", output="four words are here")], neutral)
    assert made is not None
    assert made.tokens > 7 + 3


def test_times_and_counts() -> None:
    made = compress([step(0, "user_request", ms=5), step(9, "generation", ms=20)], neutral)
    assert made is not None
    assert (made.steps, made.duration_ms, made.started_at) == (2, 25, START)
    assert (made.ended_at - made.started_at).total_seconds() == 9


@pytest.mark.parametrize(
    ("steps", "verdict", "expected"),
    [
        (run("search"), "neutral", "success"),
        (run("search"), "positive", "success"),
        (run("search", ok=False), "neutral", "failed"),
        (run("search"), "negative", "partial"),
        ([*run("search"), step(9, "tool_result", tool="mail", ok=False)], "neutral", "partial"),
        (run(), "neutral", "success"),
        (run(), "negative", "failed"),
        ([step(0, "user_request", input="hello?")], "neutral", "abandoned"),
        ([step(0, "user_request", input="x"), step(1)], "neutral", "abandoned"),
        ([*run("search"), step(8, "user_request", input="thanks")], "positive", "success"),
    ],
)
def test_how_it_ended(steps: list[object], verdict: Satisfaction, expected: Completion) -> None:
    made = compress(steps, says(verdict))  # type: ignore[arg-type]
    assert made is not None
    assert made.outcome == expected


def test_a_tool_that_worked_when_it_was_tried_again_worked() -> None:
    steps = [*run("search", ok=False)[:-1], step(5, input="again"), step(6, "tool_result", ok=True), step(7, "generation", output="there")]
    made = compress(steps, neutral)
    assert made is not None
    assert made.outcome == "success"


@pytest.mark.parametrize(
    ("request_", "tools", "expected"),
    [
        ("find the invoice", True, "tool_task"),
        ("where is the invoice?", False, "question"),
        ("打印机为什么不动", False, "question"),
        ("请帮我写一封信", False, "request"),
        ("write a letter", False, "request"),
        ("good morning", False, "chat"),
        ("", False, "chat"),
    ],
)
def test_kinds_of_requests(request_: str, tools: bool, expected: RequestType) -> None:
    assert classify(request_, tools=tools) == expected


def test_the_last_three_requests_tell_of_satisfaction() -> None:
    heard: list[Sequence[str]] = []
    compress([step(n, "user_request", input=f"m{n}") for n in range(5)], lambda messages: heard.append(messages) or "neutral")
    assert heard == [["m2", "m3", "m4"]]


def test_satisfaction_is_that_of_the_users_words() -> None:
    made = compress([*run("search"), step(8, "user_request", input="解决了，完美")], satisfaction)
    assert made is not None
    assert made.satisfaction == "positive"


def test_what_worked_and_displeased_is_no_example() -> None:
    good, bad = compress(run("search"), says("neutral")), compress(run("search"), says("negative"))  # type: ignore[arg-type]
    assert good is not None
    assert bad is not None
    assert (good.worked, bad.worked) == (True, False)


def test_a_chain_is_bounded() -> None:
    made = compress([step(n, input=str(n)) for n in range(1_000)], neutral)
    assert made is not None
    assert (made.steps, len(made.execution_chain)) == (1_000, 100)
