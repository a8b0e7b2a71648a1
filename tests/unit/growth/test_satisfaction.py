"""Satisfaction from the user's last words (ZC-88, ZC-89, K-35)."""

from __future__ import annotations

import pytest
from rich.console import Console

from bench.satisfaction import OWN, judged
from jiyi.growth.satisfaction.detect import LAST_MESSAGES, Satisfaction, satisfaction

POSITIVE, NEGATIVE, NEUTRAL = Satisfaction.POSITIVE, Satisfaction.NEGATIVE, Satisfaction.NEUTRAL


@pytest.mark.parametrize("word", "很好 解决了 可以了 对了 完美 棒 不错 成功了 行了 搞定".split())
def test_zc_88_positive_words(word: str) -> None:
    assert satisfaction([word]) is POSITIVE


@pytest.mark.parametrize("word", "不对 没用 还是不行 错了 差太远 不好使 不管用 没效果 失败 不行".split())
def test_zc_88_negative_words(word: str) -> None:
    assert satisfaction([word]) is NEGATIVE


@pytest.mark.parametrize("word", ["不行了", "不对了", "不可以了", "没搞定"])
def test_k_35_a_negation_turns_a_good_word_round(word: str) -> None:
    assert satisfaction([word]) is NEGATIVE


@pytest.mark.parametrize("word", ["不错", "没错", "不错了", "not bad", "no more errors"])
def test_k_35_what_only_looks_like_a_negation(word: str) -> None:
    assert satisfaction([word]) is POSITIVE


@pytest.mark.parametrize("text", ["执行了一遍", "很好奇", "可以了解", "不错过", "没用过", "核对了名单", "How does error handling work?"])
def test_k_35_the_longest_word_counts(text: str) -> None:
    assert satisfaction([text]) is NEUTRAL


def test_zc_88_nothing_said_is_none_and_no_verdict_is_neutral() -> None:
    assert satisfaction([]) is None
    assert satisfaction(["今天天气怎么样"]) is NEUTRAL


def test_zc_88_the_newest_of_the_last_three_decides() -> None:
    assert satisfaction(["还是不行", "解决了"]) is POSITIVE
    assert satisfaction(["解决了", "还是不行", "嗯"]) is NEGATIVE
    assert satisfaction(["失败", *["嗯"] * LAST_MESSAGES]) is NEUTRAL


@pytest.mark.parametrize("thanks", ["谢谢", "thanks!"])
def test_bare_thanks_are_no_verdict(thanks: str) -> None:
    assert satisfaction([thanks]) is NEUTRAL
    assert satisfaction(["搞定了", thanks]) is POSITIVE
    assert satisfaction(["wrong", thanks]) is NEGATIVE


@pytest.mark.parametrize("text", ["my daughter went through enough", "an insight", "blame and flames", "laughing at sights"])
def test_a_word_is_no_part_of_a_longer_one(text: str) -> None:
    assert satisfaction([text]) is Satisfaction.NEUTRAL


@pytest.mark.parametrize("text", ["我的车被撞坏了", "昨天的电影挺有意思", "The movie was awful", "I had a terrible day"])
def test_what_is_said_of_something_else_is_no_verdict(text: str) -> None:
    assert satisfaction([text]) is Satisfaction.NEUTRAL


@pytest.mark.parametrize("text", ["孩子很喜欢这个故事", "My daughter loved the poem", "My boss was happy with the report"])
def test_what_others_say_of_the_agents_work_is_one(text: str) -> None:
    assert satisfaction([text]) is Satisfaction.POSITIVE


@pytest.mark.parametrize("text", ["这样可以了吗？", "Does it work?", "如果成功了告诉我", "I hope it works", "请写一首很棒的诗"])
def test_questions_conditions_and_requests_are_no_verdict(text: str) -> None:
    assert satisfaction([text]) is NEUTRAL


@pytest.mark.parametrize(
    ("text", "expected"),
    [("刚才失败了，现在成功了", POSITIVE), ("It worked yesterday but now it fails.", NEGATIVE), ("虽然快，但是结果错了", NEGATIVE)],
)
def test_what_is_so_now_counts_more_than_what_was(text: str, expected: Satisfaction) -> None:
    assert satisfaction([text]) is expected


def test_the_labelled_words_are_read_as_labelled() -> None:
    found = judged(OWN, Console(quiet=True))
    assert found["of"] >= 120
    assert found["right"] >= 0.95
