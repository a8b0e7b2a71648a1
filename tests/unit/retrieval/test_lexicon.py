"""engine.retrieval.lexicon: BM25 as by its formula, to the last bit, however texts are added."""

from __future__ import annotations

import math
import tracemalloc
from collections import Counter
from collections.abc import Iterable, Sequence
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.retrieval import lexicon
from engine.retrieval.lexicon import Lexicon
from jiyi.text.words import is_filler, is_pair


def lexicon_of(texts: Sequence[Sequence[str]]) -> Lexicon:
    made = Lexicon()
    made.extend(" ".join(text) for text in texts)
    return made


def test_a_word_counts_by_its_weight_where_one_is_given() -> None:
    found = lexicon_of([["tea", "kiln"], ["tea"], ["rain"]])
    parts = found.bm25(["tea"]), found.bm25(["kiln"])
    assert found.bm25({"tea": 1.0, "kiln": 0.5}) == pytest.approx(parts[0] + 0.5 * parts[1])
    assert found.bm25({"tea": 1.0, "kiln": 1.0}) == pytest.approx(found.bm25(["tea", "kiln"]))
    gone = found.information(["gone"])
    assert found.information({"tea": 1.0, "gone": 0.5}) == pytest.approx(
        found.information(["tea"]) + 0.5 * gone
    )


def test_a_score_worked_out_by_hand() -> None:
    scores = lexicon_of([["a", "b"], ["a"]]).bm25(["b"])
    # Rarity ln(1 + 1.5 / 1.5); average length 1.5, so the discount is 1.2 (0.5 + 0.5 · 2 / 1.5) = 1.4.
    assert scores == pytest.approx([math.log(2) * 2.2 / 2.4, 0])


def test_nothing_added_takes_and_scores_nothing() -> None:
    empty = Lexicon()
    assert (len(empty), empty.bm25(["a"]).shape, empty.bytes_used) == (0, (0,), 0)


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
    made.extend(["word1"])
    before = made.bytes_used
    made.extend(["word1 new"])
    assert made.bytes_used > before


class PlainLexicon:
    """BM25 by Robertson & Zaragoza (2009), with the logarithm that is never negative, over a dictionary of
    lists.
    """

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
        return (
            parts[0]
            if len(parts) == 1
            else [(row, 1) for row in sorted({row for part in parts for row, _ in part})]
        )

    def rarity(self, containing: int) -> float:
        return float(np.log1p((len(self.texts) - containing + 0.5) / (containing + 0.5)))

    def bm25(self, question: Iterable[str]) -> list[float]:
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
    st.tuples(
        st.booleans(),
        st.lists(st.lists(st.sampled_from([*"abc", "记忆", "忆记", "ok", "好的"]), max_size=8), max_size=6),
    )
)


@given(steps, st.lists(st.sampled_from([*"abcz", "记忆", "记", "ok"]), max_size=6))
def test_however_texts_are_added_scores_equal_the_plain_ones_to_the_last_bit(
    added: list[tuple[bool, list[list[str]]]], question: list[str]
) -> None:
    made, texts = Lexicon(), list[list[str]]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lexicon, "LATE", 3)
        for at_once, batch in added:
            held = made.bm25(question)  # an answer that somebody still holds stays as it was
            before = held.tolist()
            for part in [batch] if at_once else [[text] for text in batch]:
                made.extend([" ".join(text) for text in part])
            texts += batch
            plain = PlainLexicon(texts)
            for _ in range(2):  # scores of tokens are kept
                assert made.bm25(question).tolist() == plain.bm25(question)
            assert held.tolist() == before
            assert made.information(question) == plain.information(question)
    for row in range(len(texts)):
        assert made.text(row) == tuple(plain.texts[row])
        assert made.similarity(row).tolist() == plain.bm25(plain.texts[row])
    assert made.contents().tolist() == [sum(not is_filler(token) for token in set(text)) for text in texts]
