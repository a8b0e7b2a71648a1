"""jiyi.text.words: keywords in Chinese and English, and what counts as idle."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from engine.text.keywords import MAX_EXTRACTED_KEYWORDS, keywords_of, keywords_ranked, words_of
from jiyi.protocol.base import MAX_KEYWORD_CHARS
from jiyi.text.words import MAX_MARKS, is_idle, language_of, nfkc, normalise
from tests.unit.text.labelled import labelled


@labelled
def test_normalise_folds_width_and_case(text: str, expected: str) -> None:
    assert normalise(text) == expected


@pytest.mark.parametrize("marks", ["\u0301\u0316", "\u0345\u0301\u0316", "\U0001d165\u0316"])
def test_rows_of_marks_are_put_apart_once(marks: str) -> None:
    """Normalisation sorts a row in time that grows with its square."""
    text = "e" + marks * 1_000
    assert normalise(text) == normalise(normalise(text))
    assert max(map(len, normalise(text).split("\u034f"))) <= MAX_MARKS + 2
    assert nfkc("e" + marks * 4) == unicodedata.normalize("NFKC", "e" + marks * 4)


@labelled
def test_keywords_are_what_people_look_for(
    description: str, subject: str | None, object_: str | None, expected: list[str]
) -> None:
    assert keywords_of(description, subject, object_) == expected


@given(st.text(max_size=200))
@example("see " + "q7" * 5_000)  # a pasted token does not fit into an index
def test_keywords_are_distinct_normalised_short_and_few(text: str) -> None:
    found = keywords_of(text, None, None)
    assert len(found) == len(set(found)) <= MAX_EXTRACTED_KEYWORDS
    assert all(2 <= len(word) <= MAX_KEYWORD_CHARS and word == word.strip() for word in found)


@labelled
def test_what_only_says_that_something_is_idle_is_idle(description: str, *, idle: bool) -> None:
    assert is_idle(description) == idle


@labelled
def test_a_triple_decides_where_there_is_one(predicate: str, object_: str, *, expected: bool) -> None:
    assert is_idle("idle", predicate, object_) is expected
    assert is_idle("a long text about tea", predicate, object_) is expected
    for half in (("is", None), (None, "idle")):  # decides nothing
        assert is_idle("bed is idle", *half)
        assert not is_idle("tea", *half)


@labelled
def test_what_is_mostly_chinese_is_chinese_and_anything_else_taken_for_english(
    text: str, language: str
) -> None:
    assert language_of(text) == language


@labelled
def test_the_most_telling_keywords_come_first(text: str, expected: list[str]) -> None:
    assert keywords_ranked(text) == expected


@given(st.text(max_size=200))
@example("00 jumps")
def test_ranking_adds_no_words_and_leaves_out_verbs_of_somebody_only(text: str) -> None:
    ranked, words = keywords_ranked(text), set(words_of(text))
    assert len(ranked) == len(set(ranked))
    assert set(ranked) <= words
    assert all(word.endswith("s") for word in words - set(ranked))
    assert bool(ranked) == bool(words)
