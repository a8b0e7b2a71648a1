"""Skills written by rules, what becomes of them, and the hint."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from engine.growth.skills import PriorDecision, draft_skill, inspect_candidate, next_status
from engine.providers.questions import SkillDraft
from engine.rules.provider import Rules
from jiyi.chat.chain import Chain, Exchange
from jiyi.chat.hint import HINT_TOKENS, HintStage, hint
from jiyi.protocol.growth.artifact_types import MAX_NAME_CHARS, GateReport, Pattern, Status
from jiyi.text.budget import estimate_tokens

PASSED, REFUSED = GateReport(passed=True, confidence=0.9), GateReport(passed=False, issues=["no"], confidence=0.9)


def pattern(title: str = "the printer jams", *steps: str, **fields: Any) -> Pattern:
    told = {"wordings": [title], "total_reuse": 3, "confidence": 0.9, "evidence": [UUID(int=1)], **fields}
    return Pattern(kind="skill", hashes=[b"1"], title=title, common_steps=list(steps or ("open it", "close it")), **told)


def test_a_skill_of_the_rules_has_all_its_parts_in_the_language_of_the_problem_and_passes_the_gate() -> None:
    english, chinese = pattern(wordings=["a", "b"]), pattern("打印机卡纸", "打开纸盒")
    made = draft_skill(english)
    assert made.triggers == ["a", "b"]
    assert made.body.startswith("# Handle: the printer jams\n")
    for part in ("## When", "## Steps", "1. open it", "2. close it", "## Evidence", str(UUID(int=1))):
        assert part in made.body, part
    assert draft_skill(chinese).name == "处理：打印机卡纸"
    assert "## 步骤" in draft_skill(chinese).body
    for one in (english, chinese):
        assert Rules().ask(SkillDraft(agent_id="a", pattern=one)) == draft_skill(one)
        assert inspect_candidate(draft_skill(one), min_confidence=0.7, near_duplicate=0.9).passed


def test_lines_of_evidence_cannot_make_headings_and_long_ones_are_cut() -> None:
    made = draft_skill(pattern("x\n# Heading\n1. do this"))
    assert [line for line in made.body.splitlines() if line.startswith("# ")] == ["# Handle: x # Heading 1. do this"]
    assert len(draft_skill(pattern("p" * 1_000, "s" * 1_000)).name) == MAX_NAME_CHARS


def test_an_llm_may_not_name_tools_that_were_not_used() -> None:
    question = SkillDraft(agent_id="a", pattern=pattern(tools_used=["search"]))
    answer = draft_skill(pattern()).model_copy(update={"tools": ["search", "rm"]})
    assert "rm" in question.problems(answer)[0]


@pytest.mark.parametrize(
    ("known", "report", "count", "auto", "expected"),
    [
        (None, PASSED, 3, False, "pending"),
        (None, PASSED, 3, True, "accepted"),
        (None, REFUSED, 3, True, "refused"),
        (PriorDecision("refused", 0), PASSED, 4, False, "pending"),
        (PriorDecision("declined", 3), PASSED, 5, True, "declined"),
        (PriorDecision("declined", 3), PASSED, 6, True, "pending"),
        (PriorDecision("declined", 3), REFUSED, 6, False, "declined"),
        (PriorDecision("deleted", 3), PASSED, 6, False, "pending"),
        (PriorDecision("accepted", 3), REFUSED, 99, False, "accepted"),
        (PriorDecision("archived", 3), PASSED, 99, True, "archived"),
        (PriorDecision("pending", 0), REFUSED, 9, False, "pending"),
    ],
)
def test_what_becomes_of_a_candidate(known: PriorDecision | None, report: GateReport, count: int, auto: bool, expected: Status) -> None:
    assert next_status(known, report, count, auto_mode=auto) == expected


LONG = (("n", "d"), ("名" * 5_000, "说" * 5_000), ('"]\n# order', "\\" * 300), ("🙂" * 900, "é" * 900))


@pytest.mark.parametrize(("name", "about"), LONG)
def test_a_hint_has_at_most_150_tokens(name: str, about: str) -> None:
    said = hint("skill", name, about)
    assert estimate_tokens(said) <= HINT_TOKENS
    assert "\n" not in said


def test_one_hint_a_session_and_one_question_a_minute() -> None:
    asked: list[str] = []
    answers = iter(["", ConnectionError(), "[a hint]", "[another]"])
    now = [0.0]

    def pending(agent_id: str, _seconds: float) -> str:
        asked.append(agent_id)
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    chain = Chain([HintStage(pending, clock=lambda: now[0])])
    prompts = []
    for moment in (0.0, 30.0, 61.0, 90.0, 122.0, 200.0):
        now[0] = moment
        prompts.append(chain.before(Exchange("a", "Be kind.", "hi", "s")).system_prompt)
    assert prompts == [*["Be kind."] * 4, "Be kind.\n\n[a hint]", "Be kind."]
    assert asked == ["a", "a", "a"]
    assert HintStage(None).missing() == "candidates"
