"""engine.retrieval.lexicon: BM25 against its formula, written out."""

from __future__ import annotations

import math
import tracemalloc
from collections import Counter
from collections.abc import Sequence
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.retrieval import lexicon
from engine.retrieval.lexicon import Lexicon
from jiyi.text.tokens import is_filler, is_pair

words = st.lists(st.sampled_from(["a", "b", "c", "记忆", "inv-2093", "😀"]), max_size=8)
collections = st.lists(words, max_size=12)


def lexicon_of(texts: Sequence[Sequence[str]]) -> Lexicon:
    made = Lexicon()
    for text in texts:
        made.add(text)
    return made


def test_a_word_counts_by_its_weight_where_one_is_given() -> None:
    found = lexicon_of([["tea", "kiln"], ["tea"], ["rain"]])
    parts = found.bm25(["tea"]), found.bm25(["kiln"])
    assert found.bm25({"tea": 1.0, "kiln": 0.5}) == pytest.approx(parts[0] + 0.5 * parts[1])
    assert found.bm25({"tea": 1.0, "kiln": 1.0}) == pytest.approx(found.bm25(["tea", "kiln"]))
    gone = found.information(["gone"])
    assert found.information({"tea": 1.0, "gone": 0.5}) == pytest.approx(found.information(["tea"]) + 0.5 * gone)


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


def test_what_it_takes_is_about_what_it_says() -> None:
    random = Random(7)
    vocabulary = [f"word{i}" for i in range(500)]
    texts = [" ".join(random.choices(vocabulary, k=12)) for _ in range(5_000)]
    tracemalloc.start()
    made = Lexicon()
    made.extend(texts)
    made.bm25(vocabulary[:3])
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert 0.5 < made.bytes_used / taken < 2
    assert taken < 400 * len(texts)
    made.add(["word1"])
    before = made.bytes_used
    made.add(["word1", "new"])
    assert made.bytes_used > before


# Against a plain one


class PlainLexicon:
    """The same with a dictionary of lists: what the arrays must equal to the last bit."""

    def __init__(self, texts: Sequence[Sequence[str]]) -> None:
        self.texts = [Counter(text) for text in texts]
        self.postings: dict[str, list[tuple[int, int]]] = {}
        self.pairs: dict[str, list[str]] = {}
        for row, counted in enumerate(self.texts):
            for token, count in counted.items():
                if token not in self.postings and is_pair(token):
                    for character in dict.fromkeys(token):
                        self.pairs.setdefault(character, []).append(token)
                self.postings.setdefault(token, []).append((row, count))

    def where(self, token: str) -> list[tuple[int, int]]:
        parts = [self.postings[part] for part in (token, *self.pairs.get(token, ())) if part in self.postings]
        return parts[0] if len(parts) == 1 else [(row, 1) for row in sorted({row for part in parts for row, _ in part})]

    def rarity(self, containing: int) -> float:
        return float(np.log1p((len(self.texts) - containing + 0.5) / (containing + 0.5)))

    def bm25(self, question: Sequence[str]) -> list[float]:
        lengths = [sum(counted.values()) for counted in self.texts]
        average = max(sum(lengths) / max(len(lengths), 1), 1.0)
        scores = [0.0] * len(self.texts)
        for token in dict.fromkeys(question):
            found = self.where(token)
            rarity = self.rarity(len(found))
            for row, count in found:
                discount = 1.2 * (1 - 0.5 + 0.5 * lengths[row] / average)
                scores[row] += rarity * count * (1.2 + 1) / (count + discount)
        return scores

    def information(self, question: Sequence[str]) -> float:
        return sum(self.rarity(len(self.where(token))) for token in dict.fromkeys(question))


steps = st.lists(
    st.tuples(st.booleans(), st.lists(st.lists(st.sampled_from([*"abc", "记忆", "忆记", "ok", "好的"]), max_size=8), max_size=6))
)


@given(steps, st.lists(st.sampled_from([*"abcz", "记忆", "记", "ok"]), max_size=6))
def test_however_texts_are_added_scores_equal_the_plain_ones_to_the_last_bit(
    added: list[tuple[bool, list[list[str]]]], question: list[str]
) -> None:
    made, texts = Lexicon(), list[list[str]]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lexicon, "LATE", 3)
        for at_once, batch in added:
            if at_once:
                made.extend([" ".join(text) for text in batch])
            else:
                for text in batch:
                    made.add(text)
            texts += batch
            plain = PlainLexicon(texts)
            for _ in range(2):  # scores of tokens are kept
                assert made.bm25(question).tolist() == plain.bm25(question)
            assert made.information(question) == plain.information(question)
    assert [made.text(row) for row in range(len(made))] == [tuple(counted) for counted in plain.texts] if added else not len(made)
    assert made.contents().tolist() == [sum(not is_filler(token) for token in set(text)) for text in texts]
