"""engine.retrieval.corpus: against a plain rewriting of it, and across languages."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from engine.retrieval.corpus import LANGUAGE_PRIOR, language_sums, similarity_matrix
from engine.retrieval.ranking import Floats


def alike_in(vectors: Floats, languages: NDArray[np.int8], rows: NDArray[np.intp]) -> Floats:
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    sums = language_sums(unit.astype(np.float32), np.ones(len(unit)), np.arange(len(unit)), languages)
    return similarity_matrix(
        unit[rows], languages[rows], sums.astype(np.float64), np.bincount(languages, minlength=2)
    )


def common(unit: Floats, languages: NDArray[np.int8], one: int, other: int) -> Floats:
    """What the others of its language have in common; that of all others counts as much as some of them."""
    others = [row for row in range(len(unit)) if row not in (one, other)]
    own = [row for row in others if languages[row] == languages[one]]
    mean = unit[others].mean(axis=0)
    return np.asarray((unit[own].sum(axis=0) + LANGUAGE_PRIOR * mean) / (len(own) + LANGUAGE_PRIOR))


@given(st.integers(0, 10_000), st.integers(3, 14))
def test_alike_is_the_cosine_without_what_the_others_of_a_language_have_in_common(
    seed: int, size: int
) -> None:
    random = np.random.default_rng(seed)
    vectors, languages = random.standard_normal((size, 6)) + 1, random.integers(0, 2, size).astype(np.int8)
    rows = random.permutation(size)[:4]
    found = alike_in(vectors, languages, rows)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    for i, one in enumerate(rows):
        for j, other in enumerate(rows):
            if one != other:
                left, right = (
                    unit[one] - common(unit, languages, one, other),
                    unit[other] - common(unit, languages, other, one),
                )
                assert found[i, j] == pytest.approx(
                    left @ right / np.linalg.norm(left) / np.linalg.norm(right), abs=1e-5
                )


def test_what_says_the_same_in_two_languages_is_alike() -> None:
    """Each language has a direction of its own, longer than what is said in it."""
    random = np.random.default_rng(0)
    said = random.standard_normal((40, 16)) * 0.5
    vectors = np.concatenate([said + 3 * np.eye(16)[0], said + 3 * np.eye(16)[1]])
    languages = np.repeat(np.array([0, 1], dtype=np.int8), 40)
    found = alike_in(vectors, languages, np.array([0, 1, 40, 41]))
    assert min(found[0, 2], found[1, 3]) > 0.7
    assert max(found[0, 3], found[1, 2], found[0, 1]) < 0.6


def test_more_memories_than_a_small_integer_counts() -> None:
    random = np.random.default_rng(0)
    found = alike_in(random.standard_normal((200, 6)), np.zeros(200, dtype=np.int8), np.arange(200))
    assert np.diag(found) == pytest.approx(np.ones(200))
    assert found == pytest.approx(found.T)


def test_two_memories_alone_have_nothing_in_common_to_take_away() -> None:
    vectors, languages = np.array([[1.0, 0.2], [1, 0]]), np.zeros(2, dtype=np.int8)
    assert alike_in(vectors, languages, np.arange(2))[0, 1] == pytest.approx(1 / np.sqrt(1.04))
