"""What a message ends of what was said before; never by likeness alone."""

from __future__ import annotations

from engine.conversations.endings import (
    MOST_PAIRS,
    EndingCandidate,
    TimedMessage,
    candidates,
    find_endings,
    live_parts,
)
from engine.heads.judgements import Heads
from tests.unit.text.labelled import labelled


def found_in(older: str, newer: str, heads: Heads, session: str = "a") -> list[tuple[str, EndingCandidate]]:
    """The parts of what was said before that may be over."""
    found = candidates([TimedMessage(older, session="a")], TimedMessage(newer, session=session), heads)
    return [(older[slice(*one.span)], one) for one in found]


@labelled
def test_a_clause_without_its_pronoun_is_of_who_speaks_unless_somebody_else_is_named(
    text: str, attribute: str | None
) -> None:
    found = live_parts(text)[-1].attribute
    assert (found and found.name) == attribute


@labelled
def test_what_is_named_replaced_or_corrected_ends_and_nothing_else(
    older: str, newer: str, over: str | None, judges: Heads
) -> None:
    ends = find_endings([TimedMessage(older, session="a")], TimedMessage(newer, session="a"), judges)
    found = [older[slice(*one.span)] for one in ends]
    assert len(found) == (over is not None)
    assert all((over or "") in part for part in found)


def test_news_of_the_home_leaves_the_job_of_the_same_sentence(judges: Heads) -> None:
    for older in ("I live in Porto and work as a nurse.", "I work as a nurse and live in Porto."):
        ends = find_endings(
            [TimedMessage(older, session="a")],
            TimedMessage("I moved to Lisbon last week.", session="b"),
            judges,
        )
        assert [older[slice(*one.span)] for one in ends] in (["I live in Porto"], ["live in Porto"])


def test_a_correction_is_of_another_spelling_of_a_name_of_its_own_number_and_of_nothing_else(
    judges: Heads,
) -> None:
    tutor = "my new tutor is Mrs Kowalska, room 6"
    found = found_in(tutor, "Actually it's Kowalczyk. I called her the wrong name", judges, "b")
    assert [part for part, one in found if one.corrected] == ["Mrs Kowalska"]
    assert not found_in(tutor, "Actually it's Brennan who has the keys", judges, "b")
    found = found_in(
        "Mrs Aerts at 9, the bar at 11", "*10 for Mrs Aerts, I read my own handwriting wrong", judges
    )
    assert {part for part, one in found if one.certain} == {"Mrs Aerts at 9"}
    supper = "choir supper 16th June, upstairs at the Anchor, 42 people"
    assert {part for part, _ in found_in(supper, "*24, I always turn them round", judges)} == {"42 people"}


def test_long_texts_are_held_against_each_other_within_bounds_and_without_judges_nothing_ends(
    judges: Heads,
) -> None:
    """Ten messages of three hundred facts in the same words once took minutes and gigabytes."""

    def text(who: str) -> str:
        return " ".join(f"My friend {who}{number} keeps a boat in the harbour." for number in range(300))

    older = [TimedMessage(text(who), session="a") for who in "ABCDEFGHIJ"]
    found = candidates(older, TimedMessage(text("Z"), session="b"), judges)
    assert 0 < len(found) <= MOST_PAIRS
    assert {one.old for one in found} == {len(older) - 1}, "the latest first"
    assert find_endings([TimedMessage("I live in Porto.")], TimedMessage("I live in Lisbon now."), None) == []
