"""jiyi.text.prompt: parts by priority within a budget, and an account of what was cut."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from engine.tiers.answer import council_sections
from jiyi.text.budget import estimate_tokens
from jiyi.text.prompt import SEPARATOR, Section, build_context
from jiyi.text.prompting import PREFACE

SENTENCE = "The kiln was fired twice and the glaze held. "

COUNCIL = council_sections(
    system="You sit on a council.",
    persona="You are 林岚, who doubts.",
    memories=[f"Verdict {number}: fire once." for number in range(8)],
    experiences=[f"Lesson {number}: test the clay." for number in range(8)],
    proposal="Shall the kiln be raised to 1,240 degrees?",
)

SECTIONS = st.lists(
    st.builds(
        Section,
        name=st.uuids().map(str),
        items=st.lists(st.text(alphabet="ab 。，.\n土火", max_size=200), max_size=5),
        heading=st.sampled_from(["", "## Heading"]),
        priority=st.integers(0, 5),
        essential=st.booleans(),
        max_items=st.none() | st.integers(0, 4),
        max_tokens=st.none() | st.integers(0, 100),
        remembered=st.sampled_from([None, "en", "zh"]),
    ),
    max_size=6,
)


def test_all_parts_in_their_order_with_the_five_best_and_the_three_best() -> None:
    context = build_context(COUNCIL)
    parts = context.text.split(SEPARATOR)
    assert SEPARATOR == "\n\n---\n\n"
    assert parts == [
        "You sit on a council.",
        "You are 林岚, who doubts.",
        "\n\n".join([PREFACE["en"], *(f'"Verdict {n}: fire once."' for n in range(5))]),
        "\n\n".join([PREFACE["en"], *(f'"Lesson {n}: test the clay."' for n in range(3))]),
        "Shall the kiln be raised to 1,240 degrees?",
    ]
    assert context.cut == ["memories: 3 of 8 items are more than its limit of 5", "experiences: 5 of 8 items are more than its limit of 3"]


def test_what_must_be_there_is_cut_last() -> None:
    essential = build_context([section for section in COUNCIL if section.essential]).tokens
    context = build_context(COUNCIL, essential + 60)
    assert context.text.startswith("You sit on a council.")
    assert context.text.endswith("Shall the kiln be raised to 1,240 degrees?")
    assert [part.kept for part in context.parts] == [1, 1, 4, 0, 1]
    assert context.cut[0].startswith("memories: 3 of 8 items are more than its limit of 5; 1 of 8 items do not fit into what the ")
    assert context.cut[1].startswith("experiences: 5 of 8 items are more than its limit of 3; 3 of 8 items do not fit into what ")


def test_a_long_item_is_shortened_where_a_sentence_ends() -> None:
    (part,) = build_context([Section(name="m", items=[SENTENCE * 50], priority=1)], 100).parts
    assert (part.kept, part.dropped, part.shortened) == (1, 0, True)
    assert part.why == "m: the last one was shortened to what the budget leaves, 100 tokens"
    assert build_context([Section(name="m", items=[SENTENCE * 50], priority=1)], 100).text.endswith("held.…")


def test_a_section_keeps_to_its_own_limit_and_leaves_the_rest_to_others_by_their_priority() -> None:
    first = Section(name="first", items=[SENTENCE * 20], priority=1, max_tokens=40)
    context = build_context([first, Section(name="second", items=[SENTENCE * 20], priority=2)], 150)
    assert context.parts[0].tokens <= 40
    assert context.parts[1].tokens > 80
    assert "its own limit, 40 tokens" in context.cut[0]
    sections = [Section(name=name, items=[SENTENCE], priority=priority) for name, priority in (("a", 2), ("b", 1))]
    context = build_context(sections, estimate_tokens(SENTENCE))
    assert [(part.name, part.kept) for part in context.parts] == [("a", 0), ("b", 1)]


@given(SECTIONS, st.integers(1, 400))
def test_the_budget_holds_and_the_same_gives_the_same(sections: list[Section], budget: int) -> None:
    context = build_context(sections, budget)
    assert context.tokens == estimate_tokens(context.text) <= budget
    assert context == build_context(sections, budget)
    for section, part in zip(sections, context.parts, strict=True):
        given_items = sum(1 for item in section.items if item.strip())
        assert part.kept + part.dropped == given_items
        assert bool(part.why) == (part.dropped > 0 or part.shortened)
        assert section.max_tokens is None or part.tokens <= section.max_tokens
        assert section.max_items is None or part.kept <= section.max_items
    unlimited = [section.model_copy(update={"max_items": None, "max_tokens": None}) for section in sections]
    assert build_context(unlimited, 100_000).cut == []
    blank = [Section(name="a", items=[" ", ""], priority=1, heading="## A"), Section(name="b", items=[" b "], priority=2)]
    assert build_context(blank).text == "b"


@pytest.mark.parametrize("wrong", [{"name": " "}, {"priority": -1}, {"max_items": -1}, {"colour": 1}])
def test_sections_out_of_bounds_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Section.model_validate({"name": "a", "priority": 1} | wrong)
    with pytest.raises(ValueError, match="may be there once, of a, a"):
        build_context([Section(name="a", priority=1)] * 2)
    for budget in (0, 1_000_001):
        with pytest.raises(ValueError, match="budget: "):
            build_context(COUNCIL, budget)
