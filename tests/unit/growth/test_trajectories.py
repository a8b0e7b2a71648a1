"""Steps become trajectories: masked, in order, once, with what came of it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.growth.trajectories import (
    Trajectory,
    TrajectoryStep,
    acted_on,
    classify,
    compress,
    in_order,
    satisfaction,
)
from engine.heads.judgements import SATISFACTION, Heads, Judged
from jiyi.protocol.trajectories import SUMMARY_CHARS, Completion, RequestType, Satisfaction, summary
from tests.unit.growth.steps import START, run, step
from tests.unit.text.labelled import labelled


@given(st.text(max_size=600))
def test_a_summary_is_one_line_of_at_most_200_characters(text: str) -> None:
    once = summary(text)
    assert len(once) <= SUMMARY_CHARS
    assert len(summary(once)) <= SUMMARY_CHARS
    assert summary("two\n lines") == "two lines"


@pytest.mark.parametrize(
    "secret",
    ["sk-abcdefghijklmnopqrstuv", "my password is Hunter2!x", "密码是Hunter2!x", "4111 1111 1111 1111"],
)
def test_a_summary_has_no_secret(secret: str) -> None:
    found = summary(f"so {secret} then")
    assert "[…]" in found
    assert not {"Hunter2!x", "abcdefghijklmnopqrstuv", "4111"} & set(found.split())


def test_steps_come_once_in_the_order_of_their_numbers() -> None:
    steps = run("search")
    assert {tuple(in_order(some)) for some in permutations(steps)} == {tuple(steps)}
    again = [step(0, "user_request", input="find the invoice", event_id=step(99).event_id)]
    assert in_order([*steps, *steps, *again]) == steps


def compressed(steps: Sequence[TrajectoryStep], verdict: Satisfaction | None = "neutral") -> Trajectory:
    made = compress(steps, lambda _messages: verdict)
    assert made is not None
    return made


def test_the_chain_joins_a_call_with_its_result() -> None:
    made = compressed(run("search", "mail", "search"))
    assert [(link.step_type, link.tool, link.ok) for link in made.execution_chain] == [
        ("user_request", None, None),
        ("tool_call", "search", True),
        ("tool_call", "mail", True),
        ("tool_call", "search", True),
        ("generation", None, None),
    ]
    assert made.tools_used == ["search", "mail"]
    assert compress([], satisfaction) is None


def test_the_same_call_several_times_in_a_row_is_one_link_and_the_chain_is_bounded() -> None:
    made = compressed([step(0, "user_request", input="go"), *(step(n, input="again") for n in (1, 2, 3))])
    assert [link.times for link in made.execution_chain] == [1, 3]
    long = compressed([step(n, input=str(n)) for n in range(1_000)])
    assert (long.steps, len(long.execution_chain)) == (1_000, 100)


def test_times_counts_and_tokens_estimated_where_nobody_said() -> None:
    asked = step(0, "user_request", input="two words", tokens=7, ms=5)
    made = compressed([asked, step(9, "generation", output="four words are here", ms=20)])
    assert (made.steps, made.duration_ms, made.started_at) == (2, 25, START)
    assert (made.ended_at - made.started_at).total_seconds() == 9
    assert made.tokens > 7 + 3


RETRIED = [*run("search", ok=False)[:-1], step(5), step(6, "tool_result", ok=True), step(7, "generation")]


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
        (RETRIED, "neutral", "success"),
    ],
)
def test_how_it_ended(steps: list[TrajectoryStep], verdict: Satisfaction, expected: Completion) -> None:
    assert compressed(steps, verdict).outcome == expected
    # What worked and displeased is no example.
    assert (compressed(run("search")).worked, compressed(run("search"), "negative").worked) == (True, False)


@labelled
def test_kinds_of_requests(request_: str, tools: bool, expected: RequestType) -> None:
    assert classify(request_, tools=tools) == expected


def test_the_users_last_three_requests_tell_of_satisfaction() -> None:
    heard: list[Sequence[str]] = []
    asked = [step(n, "user_request", input=f"m{n}") for n in range(5)]
    compress(asked, lambda messages: heard.append(messages) or "neutral")
    assert heard == [["m2", "m3", "m4"]]
    made = compress([*run("search"), step(8, "user_request", input="解决了，完美")], satisfaction)
    assert made is not None
    assert made.satisfaction == "positive"


@labelled
def test_a_plain_verdict_is_heard_and_small_talk_is_none(
    judges: Heads, messages: list[str], expected: Satisfaction
) -> None:
    assert satisfaction(messages, judges) == expected


@pytest.mark.parametrize("side", ["positive", "negative"])
def test_a_verdict_that_is_not_sure_enough_is_none(judges: Heads, side: Satisfaction) -> None:
    least = judges.least(SATISFACTION, side)
    for probability, expected in ((least, side), (least - 0.01, "neutral")):
        probabilities = {"positive": 0.0, "negative": 0.0, "neutral": 1 - probability, side: probability}
        assert acted_on(Judged(side, probability, probabilities), judges) == expected


@pytest.mark.parametrize("text", ["", "😀", "?", "Я очень доволен", "好" * 600])
def test_bad_input_is_answered(judges: Heads, text: str) -> None:
    for judge in (judges, None):
        assert satisfaction([], judge) is None
        assert satisfaction([text], judge) in ("positive", "negative", "neutral")


@labelled
def test_without_the_local_model_only_a_clause_that_is_a_verdict_counts(
    text: str, expected: Satisfaction
) -> None:
    assert satisfaction([text]) == expected
