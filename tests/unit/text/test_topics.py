"""engine.text.statements: what a text is about, whom it speaks of, and what stands beside it."""

from __future__ import annotations

from engine.text.statements import (
    StatementSubject,
    is_of,
    may_be_of,
    people_in,
    stand_beside,
    statement_of,
    topics_of,
)
from tests.unit.text.labelled import labelled


@labelled
def test_topics(text: str, topic: str) -> None:
    assert topic in topics_of(text)
    assert is_of(text, topic)


def test_a_narrower_topic_hides_the_wider_one_of_a_question() -> None:
    assert topics_of("Which doctor does my fillings, the dentist?") == {"dentist"}
    assert topics_of("Which doctor did I see?") == {"doctor"}
    assert topics_of("The weather is fine.") == topics_of("哈哈") == frozenset()
    # Relations are the same in either language.
    assert people_in("我妈妈在成都") == people_in("my mum lives in Chengdu") - {"Chengdu"} == {"mother"}


@labelled
def test_whom_a_text_may_speak_of(question: str, text: str, *, expected: bool) -> None:
    assert may_be_of(people_in(question), text) is expected


@labelled
def test_what_a_text_begins_to_speak_of(text: str, thing: str | None, attribute: str) -> None:
    assert statement_of(text) == (thing and StatementSubject(thing, attribute))


@labelled
def test_statements_of_different_things_or_attributes_stand_beside_each_other(
    one: str, other: str, *, beside: bool
) -> None:
    assert stand_beside(one, other) == stand_beside(other, one) == beside
