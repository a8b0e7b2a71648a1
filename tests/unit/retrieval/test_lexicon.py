"""jiyi.retrieval.lexicon: BM25 against its formula, written out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jiyi.retrieval import lexicon
from jiyi.retrieval.lexicon import Lexicon

words = st.lists(st.sampled_from(["a", "b", "c", "记忆", "inv-2093", "😀"]), max_size=8)
collections = st.lists(words, max_size=12)


def lexicon_of(texts: Sequence[Sequence[str]]) -> Lexicon:
    made = Lexicon()
    for text in texts:
        made.add(text)
    return made


def formula(texts: Sequence[list[str]], question: list[str]) -> list[float]:
    """Robertson & Zaragoza (2009), with the logarithm that is never negative; each of the question's tokens once."""
    k1, b = 1.2, 0.5
    average = max(sum(map(len, texts)) / max(len(texts), 1), 1.0)
    scores = []
    for text in texts:
        score = 0.0
        for token in set(question):
            containing = sum(token in other for other in texts)
            rarity = math.log(1 + (len(texts) - containing + 0.5) / (containing + 0.5))
            occurs = text.count(token)
            score += rarity * occurs * (k1 + 1) / (occurs + k1 * (1 - b + b * len(text) / average))
        scores.append(score)
    return scores


def test_a_score_worked_out_by_hand() -> None:
    scores = lexicon_of([["a", "b"], ["a"]]).bm25(["b"])
    # Rarity ln(1 + 1.5 / 1.5); average length 1.5, so the discount is 1.2 (0.5 + 0.5 · 2 / 1.5) = 1.4.
    assert scores == pytest.approx([math.log(2) * 2.2 / 2.4, 0])


@given(collections, words)
def test_scores_are_those_of_the_formula(texts: list[list[str]], question: list[str]) -> None:
    scores = lexicon_of(texts).bm25(question)
    assert scores.shape == (len(texts),)
    assert scores == pytest.approx(formula(texts, question))


@given(collections, collections, words)
def test_adding_later_is_the_same_as_adding_at_once(texts: list[list[str]], more: list[list[str]], question: list[str]) -> None:
    grown = lexicon_of(texts)
    kept = grown.bm25(question)  # an answer that somebody still holds must not keep the index from growing
    for text in more:
        grown.add(text)
        grown.bm25(question)
    assert np.array_equal(grown.bm25(question), lexicon_of([*texts, *more]).bm25(question))
    assert kept == pytest.approx(formula(texts, question))


@given(st.lists(words, min_size=1, max_size=12), words, st.randoms(use_true_random=False))
def test_the_order_of_the_texts_does_not_matter(texts: list[list[str]], question: list[str], random: Random) -> None:
    order = list(range(len(texts)))
    random.shuffle(order)
    shuffled = lexicon_of([texts[i] for i in order]).bm25(question)
    assert shuffled == pytest.approx(lexicon_of(texts).bm25(question)[order])


@given(st.lists(words, min_size=1, max_size=12), st.data())
def test_likeness_asks_with_the_texts_own_tokens(texts: list[list[str]], data: st.DataObject) -> None:
    position = data.draw(st.integers(0, len(texts) - 1))
    made = lexicon_of(texts)
    assert made.likeness(position) == pytest.approx(formula(texts, texts[position]))


def test_rarer_tokens_more_occurrences_and_shorter_texts_count_more() -> None:
    made = lexicon_of([["a", "x"], ["a", "y"], ["a", "z"]])
    common, rare = made.bm25(["a"])[0], made.bm25(["x"])[0]
    assert rare > common > 0
    once, twice = lexicon_of([["a", "x"], ["a", "a"]]).bm25(["a"])
    assert once < twice < 2 * once
    short, long = lexicon_of([["a"], ["a", "x", "y"]]).bm25(["a"])
    assert short > long


def test_the_constants_are_read_when_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    made = lexicon_of([["a"], ["a", "x", "y"], ["z"]])
    monkeypatch.setattr(lexicon, "B", 0.0)  # lengths do not matter
    assert made.bm25(["a"])[0] == made.bm25(["a"])[1]


def test_repeating_a_word_of_the_question_changes_nothing() -> None:
    made = lexicon_of([["a", "b"], ["b"]])
    assert np.array_equal(made.bm25(["a", "b", "a", "a"]), made.bm25(["a", "b"]))


def test_nothing_added_nothing_found() -> None:
    empty = Lexicon()
    assert len(empty) == 0
    assert empty.bm25(["a"]).shape == (0,)
    assert empty.bytes_used == 0


def test_texts_without_tokens_and_unknown_words_score_nothing() -> None:
    made = lexicon_of([[], ["a"], []])
    assert len(made) == 3
    assert made.bm25([]).tolist() == made.bm25(["unknown"]).tolist() == made.likeness(0).tolist() == [0, 0, 0]
    assert np.flatnonzero(made.bm25(["a"])).tolist() == [1]
    assert lexicon_of([[], []]).bm25(["a"]).tolist() == [0, 0]


def test_what_it_takes_grows_with_what_it_holds() -> None:
    made = lexicon_of([["a"]])
    sizes = [made.bytes_used]
    for text in (["a"], ["a", "b"]):
        made.add(text)
        sizes.append(made.bytes_used)
    assert sizes[1] - sizes[0] == 16 + 80  # a posting more, and a text
    assert sizes[2] - sizes[1] == 2 * 16 + 80 + 250  # a new word, too
