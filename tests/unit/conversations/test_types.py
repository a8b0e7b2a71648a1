"""jiyi.protocol.conversations.types and the question that is asked about them: forms, limits, and answers seen against the messages."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from pydantic import BaseModel, ValidationError

from engine.providers.llm_prompts import block_of
from engine.providers.questions import Extraction
from engine.rules.provider import Rules
from jiyi.protocol.conversations.types import CombinedExtraction, ExtractedExperience, ExtractedMemory, KnownFact, Message, ProfileSignals

DAY = datetime(2026, 5, 1, 9, tzinfo=UTC)
QUESTION = Extraction(
    agent_id="helper",
    messages=[Message(role="user", text="My name is Anna.", at=DAY), Message(role="user", text="I moved to Porto.", name="Anna")],
    since=1,
    known=[KnownFact(content="Anna lives in Lisbon.", subject="Anna", attribute="home", single_valued=True)],
)


LIVED = {"pain_pattern": "p", "solution_steps": [], "outcome": "partial", "confidence": 1, "turns": [0]}


@pytest.mark.parametrize(
    ("model", "fields", "wrong"),
    [
        (ExtractedMemory, {"content": "x", "turns": []}, "turns"),
        (ExtractedMemory, {"content": "x", "importance": 0, "turns": [0]}, "importance"),
        (ExtractedMemory, {"content": "x", "importance": 10.5, "turns": [0]}, "importance"),
        (ExtractedExperience, {**LIVED, "outcome": "fine"}, "outcome"),
        (ProfileSignals, {"communication_style": "poetic"}, "communication_style"),
    ],
)
def test_an_answer_out_of_bounds_is_refused(model: type[BaseModel], fields: dict[str, object], wrong: str) -> None:
    with pytest.raises(ValidationError, match=wrong):
        model.model_validate(fields)


@pytest.mark.parametrize(("turns", "supersedes", "expected"), [([0], [], "turns"), ([2], [], "turns"), ([1], [1], "supersedes")])
def test_numbers_that_name_nothing_are_problems(turns: list[int], supersedes: list[int], expected: str) -> None:
    answer = CombinedExtraction(memories=[ExtractedMemory(content="x", turns=turns, supersedes=supersedes)])
    [problem] = QUESTION.problems(answer)
    assert problem.startswith(f"memories.0.{expected}")
    assert QUESTION.problems(CombinedExtraction(memories=[ExtractedMemory(content="x", turns=[1], supersedes=[0])])) == []


def test_the_block_says_who_when_what_is_known_and_what_is_new() -> None:
    text = block_of(QUESTION, 10_000).text
    assert 'about: "new are the lines from 1 on"' in text
    assert 'statement 0: "Anna lives in Lisbon."' in text
    assert 'line 0: "user (user, 2026-05-01): My name is Anna."' in text
    assert 'line 1: "Anna (user): I moved to Porto."' in text


def test_the_rules_answer_from_new_messages_only() -> None:
    [memory] = Rules().ask(QUESTION).memories
    assert (memory.subject, memory.attribute, memory.single_valued, memory.turns) == ("Anna", "home", True, [1])
