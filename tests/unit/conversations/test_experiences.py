"""Experiences: what is told of the same problem is one."""

from __future__ import annotations

from typing import Any

import pytest

from engine.conversations.memories import StoredExperience, merged, pattern_hash, text_of
from jiyi.protocol.conversations.types import MAX_STEPS, OUTCOMES, ExtractedExperience, Outcome


def told(**fields: Any) -> ExtractedExperience:
    made = {"pain_pattern": "The glaze cracks", "solution_steps": ["cool slowly"], "outcome": "partial", "confidence": 0.7, "turns": [0]}
    return ExtractedExperience.model_validate({**made, **fields})


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
    assert pattern_hash(same) == pattern_hash("The glaze cracks") != pattern_hash("The glaze runs")


STEPS = [f"step {number}" for number in range(MAX_STEPS)]


@pytest.mark.parametrize(
    ("first", "second", "both"),
    [
        ({}, {"solution_steps": ["thin coat", "Cool slowly"]}, {"solution_steps": ["cool slowly", "thin coat"]}),
        ({}, {"solution_steps": STEPS}, {"solution_steps": ["cool slowly", *STEPS[:-1]]}),
        ({"tools_used": ["kiln"]}, {"tools_used": ["Kiln", "sieve"]}, {"tools_used": ["kiln", "sieve"]}),
        ({"confidence": 0.7}, {"confidence": 0.6}, {"confidence": 0.7}),
        ({"confidence": 0.7}, {"confidence": 0.9}, {"confidence": 0.9}),
        ({"context": "new clay", "industry_context": "pottery"}, {}, {"context": "new clay", "industry_context": "pottery"}),
        ({"context": "new clay"}, {"context": "old kiln"}, {"context": "old kiln"}),
    ],
)
def test_what_is_told_again_is_joined_each_step_once_in_its_order(
    first: dict[str, Any], second: dict[str, Any], both: dict[str, Any]
) -> None:
    made = merged(merged(None, told(**first)), told(**second))
    assert {name: getattr(made, name) for name in both} == both
    assert made.reuse_count == 1
    assert merged(made, told()).reuse_count == 2


@pytest.mark.parametrize("first", OUTCOMES)
@pytest.mark.parametrize("second", OUTCOMES)
def test_the_better_outcome_is_kept(first: Outcome, second: Outcome) -> None:
    made = merged(merged(None, told(outcome=first)), told(outcome=second))
    assert OUTCOMES.index(made.outcome) == max(OUTCOMES.index(first), OUTCOMES.index(second))


def test_the_text_says_problem_steps_and_outcome_in_the_language_of_the_problem() -> None:
    made = merged(None, told(solution_steps=["cool slowly", "thinner coat"], outcome="success"))
    assert text_of(made) == "The glaze cracks | Steps: 1. cool slowly; 2. thinner coat | Outcome: success"
    made = merged(None, told(pain_pattern="釉面开裂", solution_steps=["慢慢降温"], outcome="failed", context="新土"))
    assert text_of(made) == "釉面开裂 | 背景：新土 | 步骤：1. 慢慢降温 | 结果：失败"
