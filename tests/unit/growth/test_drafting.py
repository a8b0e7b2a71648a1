"""Skills written by rules, what becomes of them, and the hint."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from engine.growth.questions import SkillDraft
from engine.growth.skills import PriorDecision, draft_skill, inspect_candidate, next_status
from engine.rules.provider import Rules
from jiyi.chat.chain import Chain, Exchange
from jiyi.chat.hint import HINT_TOKENS, HintStage, hint
from jiyi.protocol.growth.artifact_types import MAX_NAME_CHARS, GateReport, Pattern, Status
from jiyi.text.budget import estimate_tokens

PASSED, REFUSED = GateReport(passed=True, confidence=0.9), GateReport(passed=False, issues=["no"], confidence=0.9)


def pattern(title: str = "the printer jams", *steps: str, **fields: Any) -> Pattern:
    told = {"wordings": [title], "total_reuse": 3, "confidence": 0.9, "evidence": [UUID(int=1)], **fields}
    return Pattern(kind="skill", hashes=[b"1"], title=title, common_steps=list(steps or ("open it", "close it")), **told)


def test_a_skill_has_heading_when_steps_and_evidence() -> None:
    body = draft_skill(pattern()).body
    assert body.startswith("# Handle: the printer jams\n")
    for part in ("## When", "## Steps", "1. open it", "2. close it", "## Evidence", str(UUID(int=1))):
        assert part in body, part


def test_a_chinese_problem_has_a_chinese_skill() -> None:
    made = draft_skill(pattern("打印机卡纸", "打开纸盒"))
    assert made.name == "处理：打印机卡纸"
    assert "## 步骤" in made.body


def test_wordings_are_the_triggers() -> None:
    assert draft_skill(pattern(wordings=["a", "b"])).triggers == ["a", "b"]


def test_lines_of_evidence_cannot_make_headings() -> None:
    made = draft_skill(pattern("x\n# Heading\n1. do this"))
    assert [line for line in made.body.splitlines() if line.startswith("# ")] == ["# Handle: x # Heading 1. do this"]


def test_long_problems_are_cut() -> None:
    made = draft_skill(pattern("p" * 1_000, "s" * 1_000))
    assert len(made.name) == MAX_NAME_CHARS


def test_what_the_rules_write_passes_the_gate() -> None:
    for one in (pattern(), pattern("打印机卡纸", "打开纸盒")):
        assert inspect_candidate(draft_skill(one), min_confidence=0.7, near_duplicate=0.9).passed


def test_the_rules_answer_the_question() -> None:
    assert Rules().ask(SkillDraft(agent_id="a", pattern=pattern())) == draft_skill(pattern())


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
        (PriorDecision("refused", 0), REFUSED, 4, False, "refused"),
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
    answers = iter(["", "[a hint]", "[another]"])
    now = [0.0]

    def pending(agent_id: str, _seconds: float) -> str:
        asked.append(agent_id)
        return next(answers)

    chain = Chain([HintStage(pending, clock=lambda: now[0])])
    prompts = []
    for moment in (0.0, 30.0, 61.0, 200.0):
        now[0] = moment
        prompts.append(chain.before(Exchange("a", "Be kind.", "hi", "s")).system_prompt)
    assert prompts == ["Be kind.", "Be kind.", "Be kind.\n\n[a hint]", "Be kind."]
    assert asked == ["a", "a"]
    assert HintStage(None).missing() == "candidates"
    assert HintStage(pending).priority == 78


def test_a_service_that_is_away_costs_one_question() -> None:
    asked: list[str] = []

    def away(agent_id: str, _seconds: float) -> str:
        asked.append(agent_id)
        raise ConnectionError

    chain = Chain([HintStage(away, clock=lambda: 0.0)])
    assert [chain.before(Exchange("a", "Be kind.", "hi", "s")).system_prompt for _ in range(3)] == ["Be kind."] * 3
    assert asked == ["a"]
