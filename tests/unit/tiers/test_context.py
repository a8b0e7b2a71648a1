"""jiyi.text.prompt: lines of sections within a budget, and an account of what was cut."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from engine.tiers.answer import council_sections
from jiyi.text.budget import estimate_tokens
from jiyi.text.prompt import SEVERAL_SPEAKERS, Line, Over, PromptStyle, Section, compose
from jiyi.text.prompting import PREFACE

SENTENCE = "The kiln was fired twice and the glaze held. "
STYLE = SEVERAL_SPEAKERS["en"]

COUNCIL = council_sections(
    system="You sit on a council.",
    persona="You are 林岚, who doubts.",
    memories=[f"Verdict {number}: fire once." for number in range(8)],
    experiences=[f"Lesson {number}: test the clay." for number in range(8)],
    proposal="Shall the kiln be raised to 1,240 degrees?",
)

DAYS = st.none() | st.dates().map(lambda day: datetime(day.year, day.month, day.day, tzinfo=UTC))
LINES = st.builds(
    Line,
    st.text(alphabet="ab ,.<|\n土火。", max_size=200),
    rank=st.integers(0, 5),
    at=DAYS,
    ended=st.none() | st.dates(),
    renewed=st.none() | st.dates(),
    over=st.lists(
        st.builds(Over, st.text(alphabet="ab土", min_size=1, max_size=20), st.dates(), st.booleans()),
        max_size=2,
    ),
    speaker=st.sampled_from(["", "user"]),
    label=st.sampled_from(["", "### Record 1"]),
    share=st.sampled_from([0.1, 0.5, 1.0]),
)
SECTIONS = st.lists(
    st.builds(
        Section,
        st.sampled_from(["", "## A", "## B"]),
        st.lists(LINES, max_size=5),
        least=st.sampled_from([0, 0.3]),
        share=st.sampled_from([0.2, 1.0]),
        name=st.sampled_from(["a", "b", "c"]),
        priority=st.integers(0, 2),
        max_lines=st.none() | st.integers(0, 4),
        max_tokens=st.none() | st.integers(0, 100),
        own=st.booleans(),
        opens=st.booleans(),
        shortens=st.booleans(),
        end=st.sampled_from(["", "</A>"]),
    ),
    max_size=6,
)
STYLES = st.builds(
    PromptStyle,
    st.sampled_from(["en", "zh"]),
    form=st.sampled_from(["text", "json", "template"]),
    template=st.just("Known: {{a}}, twice {{a}}\n{{c}}{{other}}"),
    days=st.sampled_from(["", "above", "before"]),
    bullet=st.sampled_from(["", "- ", "{number}. "]),
    between=st.sampled_from(["\n", "\n\n"]),
    apart=st.sampled_from(["\n", "\n\n---\n\n"]),
    first=st.sampled_from(["", "== Memory =="]),
    last=st.sampled_from(["", "== End =="]),
    quotes=st.booleans(),
)


def section(*texts: str, **fields: Any) -> Section:
    return Section("", [Line(text) for text in texts], shortens=True, own=True, **fields)


def test_all_parts_in_their_order_with_the_five_best_and_the_three_best() -> None:
    context = compose(COUNCIL, 2_000, STYLE)
    assert context.text.split("\n\n---\n\n") == [
        "You sit on a council.",
        "You are 林岚, who doubts.",
        "\n\n".join([PREFACE["en"], *(f'"Verdict {n}: fire once."' for n in range(5))]),
        "\n\n".join(f'"Lesson {n}: test the clay."' for n in range(3)),
        "Shall the kiln be raised to 1,240 degrees?",
    ]
    assert context.cut == [
        "memories: 3 of 8 items are more than its limit of 5",
        "experiences: 5 of 8 items are more than its limit of 3",
    ]


def test_what_must_be_there_is_cut_last() -> None:
    essential = compose([section for section in COUNCIL if section.priority == 0], 2_000, STYLE).tokens
    context = compose(COUNCIL, essential + 56, STYLE)
    assert context.text.startswith("You sit on a council.")
    assert context.text.endswith("Shall the kiln be raised to 1,240 degrees?")
    assert [part.kept for part in context.parts] == [1, 1, 4, 0, 1]
    why = "{}: {} of 8 items are more than its limit of {}; {} of 8 items do not fit into what the "
    assert context.cut[0].startswith(why.format("memories", 3, 5, 1))
    assert context.cut[1].startswith(why.format("experiences", 5, 3, 3))


def test_a_long_item_is_shortened_where_a_sentence_ends() -> None:
    made = compose([section(SENTENCE * 50, name="m")], 100)
    [part] = made.parts
    assert (part.kept, part.dropped, part.shortened) == (1, 0, True)
    assert part.why.startswith("m: the last one was shortened to what the budget leaves, ")
    assert made.text.endswith("held.…")


def test_a_section_keeps_to_its_own_limit_and_leaves_the_rest_to_others_by_their_priority() -> None:
    first = section(SENTENCE * 20, name="first", max_tokens=40)
    context = compose([first, section(SENTENCE * 20, name="second", priority=1)], 150)
    assert context.parts[0].tokens <= 40
    assert context.parts[1].tokens > 80
    assert "its own limit, " in context.cut[0]
    both = [section(SENTENCE, name="a", priority=2), section(SENTENCE, name="b", priority=1)]
    context = compose(both, estimate_tokens(SENTENCE))
    assert [(part.name, part.kept) for part in context.parts] == [("a", 0), ("b", 1)]


@given(SECTIONS, st.integers(1, 400), STYLES)
def test_the_budget_holds_and_the_same_gives_the_same(
    sections: list[Section], budget: int, style: PromptStyle
) -> None:
    context = compose(sections, budget, style)
    assert estimate_tokens(context.text) <= context.tokens <= budget
    assert context == compose(sections, budget, style)
    assert len(context.lines) == sum(part.kept for part in context.parts)
    for given_section, part in zip(sections, context.parts, strict=True):
        assert bool(part.why) == (part.dropped > 0 or part.shortened)
        assert given_section.max_tokens is None or part.tokens <= given_section.max_tokens
        assert given_section.max_lines is None or part.kept <= given_section.max_lines
    free = {"max_lines": None, "max_tokens": None, "share": 1.0}
    unlimited = [
        replace(one, **free, lines=[replace(line, share=1.0) for line in one.lines]) for one in sections
    ]
    assert compose(unlimited, 100_000, style).cut == []


def test_blank_lines_are_none() -> None:
    assert compose([Section("## A", [Line(" "), Line("")]), section(" b ")], 100).text == "b"
    assert compose([section("b")], 0).text == ""
