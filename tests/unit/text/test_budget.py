"""Token estimates that are rather high, and everything that takes a budget keeps it, whatever the text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from engine.providers import remote
from engine.providers.llm_prompts import BEGIN, END, block_of
from engine.providers.questions import Consistency, Digest, Insights, Keywords, Memo, Poignancy, Question
from jiyi.protocol.tier_questions import TierItem
from jiyi.text.budget import CUT, cut_to_tokens, estimate_tokens
from jiyi.text.prompt import MAX_BUDGET, Line, Section, compose
from jiyi.text.prompting import quoted, quoted_to_tokens
from jiyi.tiers.retrieval_node import HEADINGS, fitting_history
from tests.unit.text.labelled import labelled

#: Any text, and texts of what is hard to count: marks, numbers, joined emoji, other scripts, words without
#: end, white space.
ANY = st.text(max_size=200)
HARD = st.text(alphabet='ab Zé9. 。，,\n\t\u3000\u2028土火กिЖ…<>"\\\x00\u0301\u200d🔥👩', max_size=300)
LONG = st.builds(lambda unit, times: unit * times, st.text(min_size=1, max_size=12), st.integers(1, 200))
TEXTS = st.one_of(ANY, HARD, LONG)
BUDGETS = st.one_of(st.integers(1, 60), st.integers(1, 4_000))


@labelled
def test_a_character_is_one_and_a_half_and_a_word_one_and_three_tenths(text: str, estimate: int) -> None:
    assert estimate_tokens(text) == estimate
    assert estimate_tokens("x" * 400) == 100


@given(TEXTS, TEXTS, st.sampled_from(["", " ", "\n", "\n\n"]))
@example("0:0:0:0:0㐀", "0:0:0:0:0㐀", " ")
def test_estimates_add_up_or_less(one: str, other: str, between: str) -> None:
    assert estimate_tokens(one + between + other) <= estimate_tokens(one) + estimate_tokens(other)


@given(TEXTS, st.integers(0, 200))
def test_a_cut_text_is_within_its_budget_and_a_beginning(text: str, most: int) -> None:
    cut = cut_to_tokens(text, most)
    assert estimate_tokens(cut) <= most
    if estimate_tokens(text) <= most:
        assert cut == text
    else:
        assert text.startswith(cut.removesuffix(CUT))


@labelled
def test_cuts_are_where_something_ends(text: str, most: int, kept: str) -> None:
    assert cut_to_tokens(text, most) == kept


ITEMS = st.lists(
    st.builds(
        TierItem,
        item_id=st.just("i"),
        source=st.sampled_from(["hot", "cold", "external"]),
        content=TEXTS,
        score=st.floats(0, 1),
    )
)


@given(ITEMS, BUDGETS, st.sampled_from(sorted(HEADINGS)), TEXTS)
def test_a_history_keeps_its_budget(items: list[TierItem], budget: int, language: Any, heading: str) -> None:
    text, left_out = fitting_history(items, budget, language, heading)
    assert estimate_tokens(text) <= budget
    assert (text == "") == (left_out == len(items))
    whole, none = fitting_history(items, None, language, heading)
    assert none == 0
    # Only what is rounded up item by item may be in the way.
    if estimate_tokens(whole) <= budget and left_out:
        assert estimate_tokens(whole) + 2 * len(items) + 12 > budget


QUESTIONS: list[Callable[[str, str, list[str]], Question[Any]]] = [
    lambda name, text, _: Poignancy(agent_id=name, text=text),
    lambda name, text, _: Consistency(agent_id=name, text=text),
    lambda name, text, _: Keywords(agent_id=name, text=text),
    lambda name, _, texts: Insights(agent_id=name, statements=texts, focal_point="why", count=5),
    lambda name, _, texts: Digest(agent_id=name, statements=texts),
    lambda name, text, texts: Memo(agent_id=name, utterances=[(text, one) for one in texts]),
]


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda made: made("a", "b", ["c"]).prompt)
@given(
    name=TEXTS, text=TEXTS, texts=st.lists(TEXTS, min_size=1, max_size=60), limit=st.integers(2_000, 4_000)
)
def test_an_llms_block_keeps_its_length(
    question: Any, name: str, text: str, texts: list[str], limit: int
) -> None:
    block = block_of(question(name, text, texts), limit)
    assert len(block.text) <= limit
    assert block.text.startswith(BEGIN)
    assert block.text.endswith(END)


@given(TEXTS, st.integers(1, 500))
def test_a_quoted_text_keeps_its_length(text: str, room: int) -> None:
    assert len(quoted(text, room)) <= room + 2


@given(TEXTS, BUDGETS)
def test_a_quoted_text_keeps_its_budget(text: str, budget: int) -> None:
    assert estimate_tokens(quoted_to_tokens(text, budget)) <= budget


@given(TEXTS, st.integers(1, 500))
def test_a_text_for_an_embedder_keeps_the_models_limit(text: str, budget: int) -> None:
    assert remote.estimate(remote.cut(text, budget)) <= budget


def test_the_largest_budget_is_no_reason_to_be_slow() -> None:
    assert compose([Section("", [Line("土" * 200_000)])], MAX_BUDGET).cut == []
