"""engine.text.wordings: what is one statement in other words, and what only looks like it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.text.wordings import MAX_READ, StatementKey, wording

#: A line a pair: whether both tell the same, and the two. Half of what is the same is enough; nothing else
#: may be.
PAIRS = [
    line.split("\t")
    for line in Path(__file__).with_name("wordings.tsv").read_text(encoding="utf-8").splitlines()
]
ENOUGH = 0.5


@pytest.mark.parametrize(("one", "other"), [(one, other) for same, one, other in PAIRS if same == "diff"])
def test_another_number_day_name_not_or_order_is_another_statement(one: str, other: str) -> None:
    assert wording(one) != wording(other)


@pytest.mark.parametrize("chinese", [True, False])
def test_statements_in_other_words_are_one(*, chinese: bool) -> None:
    same = [
        wording(one) == wording(other)
        for kind, one, other in PAIRS
        if kind == "same" and one.isascii() != chinese
    ]
    assert len(same) >= 19
    assert sum(same) >= ENOUGH * len(same)


@given(
    st.sampled_from([one for _, one, _ in PAIRS]),
    st.sampled_from(["not", "never", "7", "Nora", "Monday", "不", "没", "三", "小王", "昨天"]),
    st.data(),
)
def test_whatever_word_of_weight_comes_to_it_makes_another_of_it(
    text: str, word: str, data: st.DataObject
) -> None:
    spaces = (
        [place for place, char in enumerate(text) if char == " "]
        if text.isascii()
        else list(range(1, len(text)))
    )
    place = data.draw(st.sampled_from([*spaces, len(text)]))
    assert wording(f"{text[:place]} {word} {text[place:]}") != wording(text)


@given(st.text(max_size=300))
def test_any_text_has_a_form_and_is_one_with_itself(text: str) -> None:
    assert wording(text) == wording(f" {text}\t")


def test_long_texts_are_one_only_if_they_are_the_same() -> None:
    text = "I really like tea. " * (MAX_READ // 10)
    assert wording(text) != wording(text.replace("really ", ""))


@dataclass(frozen=True)
class Memory:
    subject: str | None = None
    user_id: str | None = None
    visibility: str | None = None


def test_what_two_people_say_or_others_are_told_is_not_one() -> None:
    mine = StatementKey.of("I like tea.", Memory("user", "lin"))
    assert mine == StatementKey.of("I really like tea", Memory(None, "lin"))
    others = [Memory("user", "mei"), Memory("Anna", "lin"), Memory("user", "lin", "agent")]
    assert mine not in [StatementKey.of("I like tea.", other) for other in others]
    assert StatementKey.of("Anna likes tea.", Memory("Anna")) == StatementKey.of(
        "Anna really likes tea.", Memory()
    )
