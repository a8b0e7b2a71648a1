"""Patterns: the same problem in several wordings, and the steps that half of them share."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from engine.conversations.memories import StoredExperience, pattern_hash
from engine.growth.skills import LivedExperience, aggregate, common_steps, is_due
from tests.unit.growth.steps import START

PAIN = "the printer jams on the second tray"
DUE = {"min_reuse": 3, "min_confidence": 0.7}


def lived(number: int, pain: str = PAIN, *steps: str, **fields: Any) -> LivedExperience:
    told = StoredExperience(
        pain_pattern=pain, solution_steps=list(steps or ("open it",)), **{"outcome": "success", "confidence": 0.9, **fields}
    )
    return LivedExperience(UUID(int=number + 1), START + timedelta(days=number), told)


def test_wordings_of_the_same_problem_are_one_pattern_and_other_problems_others() -> None:
    told = [lived(0), lived(1, "The printer jams on the second tray!"), lived(2, "printer jams on second tray")]
    [found] = aggregate(told)
    assert (found.title, len(found.wordings), found.total_reuse) == (PAIN, 3, 2)
    assert len(aggregate([*told, lived(3, "the kettle leaks at the spout"), lived(4, "打印机卡纸")])) == 3
    assert aggregate([lived(0, outcome="failed", reuse_count=9)]) == []  # no evidence


def test_steps_that_half_share_are_common() -> None:
    told = [StoredExperience(pain_pattern=PAIN, solution_steps=steps) for steps in (["a b c", "d e f"], ["A b c", "g h i"], ["x y z"])]
    assert common_steps(told) == ["a b c"]
    assert common_steps(told[:2]) == ["a b c", "d e f", "g h i"]


def test_reuse_tools_industry_and_evidence_are_put_together() -> None:
    [found] = aggregate(
        [
            lived(0, reuse_count=2, tools_used=["a"]),
            lived(1, f"{PAIN} again", reuse_count=1, tools_used=["a", "b"], industry_context="print"),
        ]
    )
    assert (found.total_reuse, found.tools_used, found.industry_context) == (4, ["a", "b"], "print")
    assert found.evidence == [UUID(int=1), UUID(int=2)]
    assert found.hashes == [pattern_hash(PAIN), pattern_hash(f"{PAIN} again")]


def test_due_by_reuse_confidence_and_steps() -> None:
    [enough] = aggregate([lived(0, reuse_count=3)])
    [too_seldom] = aggregate([lived(0, reuse_count=2)])
    [unsure] = aggregate([lived(0, reuse_count=3, confidence=0.69)])
    told = StoredExperience(pain_pattern=PAIN, outcome="success", confidence=0.9, reuse_count=9)
    [without_steps] = aggregate([LivedExperience(UUID(int=1), START, told)])
    assert [is_due(one, **DUE) for one in (enough, too_seldom, unsure, without_steps)] == [True, False, False, False]


@given(st.permutations(range(6)))
def test_any_order_gives_the_same(order: list[int]) -> None:
    known = [lived(n, PAIN if n % 2 else "the kettle leaks at the spout", reuse_count=n) for n in range(6)]
    assert aggregate([known[n] for n in order]) == aggregate(known)
