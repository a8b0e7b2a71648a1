"""Skills: the problem in several wordings, common steps, what the rules write of them, and the hint."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from unittest.mock import Mock
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.conversations.memories import StoredExperience, pattern_hash
from engine.growth import skills
from engine.growth.questions import SkillDraft
from engine.rules.provider import Rules
from jiyi.chat.chain import Chain, Exchange
from jiyi.chat.steps import HINT_TOKENS, HintStage, hint
from jiyi.protocol.artifacts import MAX_NAME_CHARS
from jiyi.protocol.proposals import Status
from jiyi.text.budget import estimate_tokens
from tests.unit.growth.steps import START

CANDIDATE = skills.SkillCandidate(name="n", body="b", confidence=0.9)
PASSED, REFUSED = skills.GateReport(CANDIDATE, [], 0.9), skills.GateReport(CANDIDATE, ["no"], 0.9)


def pattern(title: str = "the printer jams", *steps: str, **fields: Any) -> skills.ArtifactPattern:
    told = {"wordings": [title], "total_reuse": 3, "confidence": 0.9, "evidence": [UUID(int=1)], **fields}
    common = list(steps or ("open it", "close it"))
    return skills.ArtifactPattern(kind="skill", hashes=[b"1"], title=title, common_steps=common, **told)


def test_a_skill_of_the_rules_has_all_its_parts_in_the_language_of_the_problem_and_passes_the_gate() -> None:
    english, chinese = pattern(wordings=["a", "b"]), pattern("打印机卡纸", "打开纸盒")
    made = skills.draft_skill(english)
    assert made.triggers == ["a", "b"]
    assert made.body.startswith("# Handle: the printer jams\n")
    for part in ("## When", "## Steps", "1. open it", "2. close it", "## Evidence", str(UUID(int=1))):
        assert part in made.body, part
    assert skills.draft_skill(chinese).name == "处理：打印机卡纸"
    assert "## 步骤" in skills.draft_skill(chinese).body
    for one in (english, chinese):
        assert Rules().ask(SkillDraft(agent_id="a", pattern=one)) == skills.draft_skill(one)
        assert skills.inspect_candidate(skills.draft_skill(one), near_duplicate=0.9).passed


def test_lines_of_evidence_cannot_make_headings_and_long_ones_are_cut() -> None:
    lines = skills.draft_skill(pattern("x\n# Heading\n1. do this")).body.splitlines()
    assert [line for line in lines if line.startswith("# ")] == ["# Handle: x # Heading 1. do this"]
    assert len(skills.draft_skill(pattern("p" * 1_000, "s" * 1_000)).name) == MAX_NAME_CHARS


def test_an_llm_may_not_name_tools_that_were_not_used() -> None:
    question = SkillDraft(agent_id="a", pattern=pattern(tools_used=["search"]))
    answer = skills.draft_skill(pattern()).model_copy(update={"tools": ["search", "rm"]})
    assert "rm" in question.problems(answer)[0]


@pytest.mark.parametrize(
    ("known", "report", "count", "auto", "expected"),
    [
        (None, PASSED, 3, False, "pending"),
        (None, PASSED, 3, True, "approved"),
        (None, REFUSED, 3, True, "refused"),
        (("refused", 0), PASSED, 4, False, "pending"),
        (("rejected", 3), PASSED, 5, True, "rejected"),
        (("rejected", 3), PASSED, 6, True, "pending"),
        (("rejected", 3), REFUSED, 6, False, "rejected"),
        (("deleted", 3), PASSED, 6, False, "pending"),
        (("approved", 3), REFUSED, 99, False, "approved"),
        (("archived", 3), PASSED, 99, True, "archived"),
        (("pending", 0), REFUSED, 9, False, "pending"),
    ],
)
def test_what_becomes_of_a_candidate(
    known: tuple[Status, int] | None, report: skills.GateReport, count: int, auto: bool, expected: Status
) -> None:
    before = known and skills.KnownArtifact(
        artifact_id=UUID(int=1), status=known[0], decided_evidence=known[1]
    )
    assert skills.next_status(before, report, count, auto_mode=auto) == expected


LONG = (("n", "d"), ("名" * 5_000, "说" * 5_000), ('"]\n# order', "\\" * 300), ("🙂" * 900, "é" * 900))


@pytest.mark.parametrize(("name", "about"), LONG)
def test_a_hint_has_at_most_150_tokens(name: str, about: str) -> None:
    said = hint("skill", name, about)
    assert estimate_tokens(said) <= HINT_TOKENS
    assert "\n" not in said


def test_one_hint_a_session_and_one_question_a_minute() -> None:
    pending = Mock(side_effect=["", ConnectionError(), "[a hint]", "[another]"])
    now, prompts = [0.0], []
    chain = Chain([HintStage(pending, clock=lambda: now[0])])
    for moment in (0.0, 30.0, 61.0, 90.0, 122.0, 200.0):
        now[0] = moment
        prompts.append(chain.before(Exchange("a", "Be kind.", "hi", "s")).system_prompt)
    assert prompts == [*["Be kind."] * 4, "Be kind.\n\n[a hint]", "Be kind."]
    assert [call.args[0] for call in pending.call_args_list] == ["a", "a", "a"]


PAIN = "the printer jams on the second tray"


def lived(number: int, pain: str = PAIN, *steps: str, **fields: Any) -> skills.LivedExperience:
    given = {"outcome": "success", "confidence": 0.9, "solution_steps": list(steps or ("open it",)), **fields}
    told = StoredExperience.model_validate({"pain_pattern": pain, **given})
    return skills.LivedExperience(UUID(int=number + 1), START + timedelta(days=number), told)


def test_wordings_of_the_same_problem_are_one_pattern_and_other_problems_others() -> None:
    others = "The printer jams on the second tray!", "printer jams on second tray"
    told = [lived(0), *(lived(number, pain) for number, pain in enumerate(others, start=1))]
    [found] = skills.aggregate(told)
    assert (found.title, len(found.wordings), found.total_reuse) == (PAIN, 3, 2)
    assert (
        len(skills.aggregate([*told, lived(3, "the kettle leaks at the spout"), lived(4, "打印机卡纸")])) == 3
    )
    assert skills.aggregate([lived(0, outcome="failed", reuse_count=9)]) == []  # no evidence


def test_steps_that_half_share_are_common() -> None:
    told = [
        StoredExperience(pain_pattern=PAIN, solution_steps=steps)
        for steps in (["a b c", "d e f"], ["A b c", "g h i"], ["x y z"])
    ]
    assert skills.common_steps(told) == ["a b c"]
    assert skills.common_steps(told[:2]) == ["a b c", "d e f", "g h i"]


def test_reuse_tools_industry_and_evidence_are_put_together() -> None:
    again = {"reuse_count": 1, "tools_used": ["a", "b"], "industry_context": "print"}
    first = lived(0, reuse_count=2, tools_used=["a"])
    [found] = skills.aggregate([first, lived(1, f"{PAIN} again", **again)])
    assert (found.total_reuse, found.tools_used, found.industry_context) == (4, ["a", "b"], "print")
    assert found.evidence == [UUID(int=1), UUID(int=2)]
    assert found.hashes == [pattern_hash(PAIN), pattern_hash(f"{PAIN} again")]


@pytest.mark.parametrize(
    ("fields", "due"),
    [
        ({"reuse_count": 3}, True),
        ({"reuse_count": 2}, False),
        ({"reuse_count": 3, "confidence": 0.69}, False),
        ({"reuse_count": 9, "solution_steps": []}, False),
    ],
)
def test_due_by_reuse_confidence_and_steps(fields: dict[str, Any], *, due: bool) -> None:
    [found] = skills.aggregate([lived(0, **fields)])
    assert skills.is_due(found) == due


@given(st.permutations(range(6)))
def test_any_order_gives_the_same(order: list[int]) -> None:
    known = [lived(n, PAIN if n % 2 else "the kettle leaks at the spout", reuse_count=n) for n in range(6)]
    assert skills.aggregate([known[n] for n in order]) == skills.aggregate(known)
