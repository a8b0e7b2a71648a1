"""Experiences: what is told of the same problem is one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.conversations.memories import StoredExperience, merged, pattern_hash, text_of
from jiyi.protocol.conversations.types import MAX_STEPS, OUTCOMES, ExtractedExperience, Outcome


def told(**fields: Any) -> ExtractedExperience:
    made = {"pain_pattern": "The glaze cracks", "solution_steps": ["cool slowly"], "outcome": "partial", "confidence": 0.7, "turns": [0]}
    return ExtractedExperience.model_validate({**made, **fields})


def again(**fields: Any) -> StoredExperience:
    return merged(merged(None, told()), told(**fields))


def test_the_first_telling_is_kept_as_it_is() -> None:
    made = merged(None, told(context="new clay", tools_used=["kiln"], industry_context="pottery"))
    assert made == StoredExperience(
        pain_pattern="The glaze cracks",
        context="new clay",
        solution_steps=["cool slowly"],
        outcome="partial",
        confidence=0.7,
        reuse_count=0,
        tools_used=["kiln"],
        industry_context="pottery",
    )


@pytest.mark.parametrize("same", ["the glaze CRACKS", "  The glaze   cracks ", "Ｔhe glaze cracks"])
def test_the_same_problem_has_the_same_hash(same: str) -> None:
    assert pattern_hash(same) == pattern_hash("The glaze cracks")


def test_another_problem_has_another_hash() -> None:
    assert pattern_hash("The glaze runs") != pattern_hash("The glaze cracks")


def test_steps_are_joined_each_once_in_the_order_in_which_they_came() -> None:
    assert again(solution_steps=["thinner coat", "Cool slowly"]).solution_steps == ["cool slowly", "thinner coat"]


def test_steps_are_bounded() -> None:
    steps = [f"step {number}" for number in range(MAX_STEPS)]
    assert len(again(solution_steps=steps).solution_steps) == MAX_STEPS


@pytest.mark.parametrize("first", OUTCOMES)
@pytest.mark.parametrize("second", OUTCOMES)
def test_the_better_outcome_is_kept(first: Outcome, second: Outcome) -> None:
    made = merged(merged(None, told(outcome=first)), told(outcome=second))
    assert OUTCOMES.index(made.outcome) == max(OUTCOMES.index(first), OUTCOMES.index(second))


def test_told_again_it_was_used_once_more() -> None:
    assert again().reuse_count == 1
    assert merged(again(), told()).reuse_count == 2


def test_the_greater_confidence_is_kept() -> None:
    assert again(confidence=0.6).confidence == 0.7
    assert again(confidence=0.9).confidence == 0.9


def test_tools_are_joined() -> None:
    first = merged(None, told(tools_used=["kiln"]))
    assert merged(first, told(tools_used=["Kiln", "sieve"])).tools_used == ["kiln", "sieve"]


def test_a_new_context_replaces_the_old_one_and_none_leaves_it() -> None:
    first = merged(None, told(context="new clay", industry_context="pottery"))
    assert merged(first, told()).context == "new clay"
    assert merged(first, told(context="old kiln")).context == "old kiln"
    assert merged(first, told()).industry_context == "pottery"


def test_the_text_says_problem_steps_and_outcome() -> None:
    text = text_of(again(solution_steps=["thinner coat"], outcome="success"))
    assert text == "The glaze cracks | Steps: 1. cool slowly; 2. thinner coat | Outcome: success"


def test_the_text_is_in_the_language_of_the_problem() -> None:
    made = merged(None, told(pain_pattern="釉面开裂", solution_steps=["慢慢降温"], outcome="failed", context="新土"))
    assert text_of(made) == "釉面开裂 | 背景：新土 | 步骤：1. 慢慢降温 | 结果：失败"


@given(steps=st.lists(st.lists(st.sampled_from("abcdef"), max_size=6), min_size=1, max_size=5))
def test_merging_loses_no_step(steps: list[list[str]]) -> None:
    made = None
    for some in steps:
        made = merged(made, told(solution_steps=some))
    assert made is not None
    assert set(made.solution_steps) == {step for some in steps for step in some}
