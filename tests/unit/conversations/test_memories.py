"""When turns are read, how extractions become events, and tellings of one problem one experience."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any
from uuid import uuid4

import pytest

from engine.conversations import memories
from engine.providers.questions import Summary
from engine.rules.provider import SUMMARY_KEYWORDS, SUMMARY_TOKENS, Rules
from jiyi.protocol.conversations import (
    MAX_STEPS,
    OUTCOMES,
    CombinedExtraction,
    ExtractedExperience,
    ExtractedMemory,
    Message,
)
from jiyi.protocol.conversations import said_at as last_said_at
from jiyi.protocol.events import MemoryObserved
from jiyi.settings import Settings
from jiyi.text.budget import estimate_tokens
from jiyi.text.words import language_of
from models.conversations.extraction_schedule import Waiting, due_at

DAY = datetime(2026, 5, 1, tzinfo=UTC)
IDS = [uuid4() for _ in range(3)]
SAID = [Message(role="user", text=str(number), at=DAY + timedelta(hours=number)) for number in range(3)]
SOURCE = memories.ExtractionSource("g", "小伴", "monday", SAID, IDS, "rules-1", "extraction@1")


def memory(content: str = "The user lives in Porto.", **fields: Any) -> ExtractedMemory:
    return ExtractedMemory.model_validate({"content": content, "turns": [0], **fields})


def event(made: ExtractedMemory, source: memories.ExtractionSource = SOURCE) -> MemoryObserved:
    found = memories.event_of(made, source)
    assert isinstance(found, MemoryObserved)
    return found


@pytest.mark.parametrize(
    ("fields", "uri"),
    [
        ({"attribute": "home"}, "agent://小伴/knowledge/home"),
        ({"attribute": "likes:tea", "type": "preference"}, "agent://小伴/preference/likes"),
        ({"category": "agent_lesson"}, "agent://小伴/knowledge/agent_lesson"),
    ],
)
def test_the_address_follows_from_type_and_attribute(fields: dict[str, Any], uri: str) -> None:
    assert event(memory(**fields)).payload.uri == uri


def test_a_memory_names_its_turns_and_was_said_with_the_last_of_them() -> None:
    made = event(memory(turns=[2, 0, 2]))
    assert made.payload.evidence == [IDS[0], IDS[2]]
    assert made.occurred_at == memories.said_at(SOURCE.messages, [0, 2]) == DAY + timedelta(hours=2)
    assert last_said_at([*SOURCE.messages, Message(role="user", text="whenever")]) == DAY + timedelta(hours=2)


def test_the_id_is_the_same_in_each_attempt_and_what_stood_in_for_an_llm_is_marked() -> None:
    assert event(memory()).event_id == event(memory()).event_id
    others = (memory(), memory("The user lives in Lisbon."), memory(turns=[1]))
    assert len({event(one).event_id for one in others}) == 3
    assert event(memory(), replace(SOURCE, fallback=True)).payload.provenance["fallback"] is True
    assert "fallback" not in event(memory()).payload.provenance


@pytest.mark.parametrize(
    ("importance", "confidence", "injected", "kept"),
    [
        (3, 0.6, "", (1, 1)),
        (2.9, 0.59, "", (0, 0)),
        (3, 0.6, "the user lives in Porto", (0, 1)),
        (3, 0.6, "The user lives in Lisbon.", (1, 1)),
        (3, 0.6, "用户住在波尔图。", (1, 1)),
    ],
)
def test_the_unimportant_the_unsure_and_what_was_injected_are_dropped(
    importance: float, confidence: float, injected: str, kept: tuple[int, int]
) -> None:
    extraction = CombinedExtraction(
        memories=[memory(importance=importance)], experiences=[experience(confidence=confidence)]
    )
    found = memories.worth_keeping(extraction, [injected], 3)
    assert (len(found.memories), len(found.experiences)) == kept


def test_what_is_said_of_one_attribute_again_comes_in_a_later_part() -> None:
    home = {"attribute": "home", "single_valued": True}
    made = [memory("A", **home), memory("B"), memory("C", **home), memory("D", subject="Anna", **home)]
    assert [[one.content for one in part] for part in memories.waves(made)] == [["A", "B", "D"], ["C"]]


@pytest.mark.parametrize(
    "text",
    ["One.", "The kiln is hot. The glaze runs. Then it cracks. " * 20, "窑很热。釉会流。然后开裂。" * 40],
)
def test_a_summary_is_short_and_in_the_language_of_the_text(text: str) -> None:
    made = Rules().ask(Summary(agent_id="a", language=language_of(text), text=text))
    assert estimate_tokens(made.overview) <= SUMMARY_TOKENS
    assert 1 <= len(made.keywords) <= SUMMARY_KEYWORDS
    assert language_of(made.overview) == language_of(text)
    assert len(text) > 40 or made.overview == text
    assert Rules().ask(Summary(agent_id="a", text="!!!")).keywords == ["…"]


NOW, SECOND = datetime(2026, 5, 1, 9, tzinfo=UTC), timedelta(seconds=1)


@pytest.mark.parametrize(
    ("waiting", "expected"),
    [
        (Waiting(0, None), None),
        (Waiting(4, NOW), NOW),
        (Waiting(4, NOW, NOW - 10 * SECOND), NOW + 20 * SECOND),
        (Waiting(4, NOW, NOW - 31 * SECOND), NOW),
        (Waiting(3, NOW - 590 * SECOND), NOW + 10 * SECOND),
        (Waiting(3, NOW - 700 * SECOND, NOW - 10 * SECOND), NOW + 20 * SECOND),
        (Waiting(1, NOW, NOW - SECOND, ended=True), NOW),
        (Waiting(0, None, NOW, ended=True), None),
    ],
)
def test_due_at(waiting: Waiting, expected: datetime | None) -> None:
    assert due_at(waiting, NOW, Settings(_env_file=None)) == expected


def experience(**fields: Any) -> ExtractedExperience:
    made = {"pain_pattern": "The glaze cracks", "solution_steps": ["cool slowly"], "turns": [0]}
    return ExtractedExperience.model_validate({**made, "outcome": "partial", "confidence": 0.7, **fields})


def test_the_first_telling_is_kept_as_it_is_and_the_same_problem_has_the_same_hash() -> None:
    first = experience(context="new clay", tools_used=["kiln"], industry_context="pottery")
    kept = memories.StoredExperience(**first.model_dump(exclude={"turns"}), reuse_count=0)
    assert memories.merge_experience(None, first) == kept
    same = ["The glaze cracks", "the glaze CRACKS", "  The glaze   cracks ", "Ｔhe glaze cracks"]
    assert len(set(map(memories.pattern_hash, same))) == 1
    assert memories.pattern_hash("The glaze runs") != memories.pattern_hash(same[0])


def told_twice(first: dict[str, Any], second: dict[str, Any]) -> memories.StoredExperience:
    once = memories.merge_experience(None, experience(**first))
    return memories.merge_experience(once, experience(**second))


STEPS = [f"step {number}" for number in range(MAX_STEPS)]


@pytest.mark.parametrize(
    ("first", "second", "both"),
    [
        ({}, {"solution_steps": ["thin", "Cool slowly"]}, {"solution_steps": ["cool slowly", "thin"]}),
        ({}, {"solution_steps": STEPS}, {"solution_steps": ["cool slowly", *STEPS[:-1]]}),
        ({"tools_used": ["kiln"]}, {"tools_used": ["Kiln", "sieve"]}, {"tools_used": ["kiln", "sieve"]}),
        ({"confidence": 0.7}, {"confidence": 0.6}, {"confidence": 0.7}),
        ({"confidence": 0.7}, {"confidence": 0.9}, {"confidence": 0.9}),
        ({"industry_context": "pots"}, {}, {"industry_context": "pots"}),
        ({"context": "clay"}, {}, {"context": "clay"}),
        ({"context": "new clay"}, {"context": "old kiln"}, {"context": "old kiln"}),
    ],
)
def test_what_is_told_again_is_joined_each_step_once_in_its_order(
    first: dict[str, Any], second: dict[str, Any], both: dict[str, Any]
) -> None:
    made = told_twice(first, second)
    assert {name: getattr(made, name) for name in both} == both
    assert (made.reuse_count, memories.merge_experience(made, experience()).reuse_count) == (1, 2)


def test_the_better_outcome_is_kept() -> None:
    for first, second in product(OUTCOMES, OUTCOMES):
        made = told_twice({"outcome": first}, {"outcome": second})
        assert made.outcome == max(first, second, key=OUTCOMES.index)


def test_the_text_says_problem_steps_and_outcome_in_the_language_of_the_problem() -> None:
    english = {"solution_steps": ["cool slowly", "thinner coat"], "outcome": "success"}
    chinese = {
        "pain_pattern": "釉面开裂",
        "solution_steps": ["慢慢降温"],
        "outcome": "failed",
        "context": "新土",
    }
    for told, text in (
        (english, "The glaze cracks | Steps: 1. cool slowly; 2. thinner coat | Outcome: success"),
        (chinese, "釉面开裂 | 背景：新土 | 步骤：1. 慢慢降温 | 结果：失败"),
    ):
        assert memories.text_of(memories.merge_experience(None, experience(**told))) == text
