"""engine.retrieval.relevance: how likely a memory is to answer."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.providers.embedder_specs import ADAPTED_MODELS
from engine.retrieval import relevance
from engine.retrieval.relevance import WEIGHTS, WITHOUT_COSINE, hybrid, measures, probabilities
from engine.text.keywords import query_tokens
from tests.unit.retrieval.test_relevance import NOW, embed_by_text, random_corpus

MODEL = ADAPTED_MODELS["m2"]


@given(st.integers(0, 10_000))
def test_each_is_between_0_and_1_and_follows_from_its_own_measures(seed: int) -> None:
    corpus, question, query = random_corpus(seed)
    found, asked = hybrid(corpus, question, query, embed_by_text, NOW), query_tokens(question)
    every = np.arange(len(corpus))
    likely = probabilities(corpus, found, asked, every, MODEL)
    assert ((likely > 0) & (likely < 1)).all()
    assert probabilities(corpus, found, asked, every[3:5], MODEL) == pytest.approx(likely[3:5])
    values = measures(corpus, found, asked, every)
    assert values[:, 2].min() == 0  # nothing is before the best
    for row in every.tolist():
        weights = WEIGHTS[MODEL] if corpus.has_vector[row] else WITHOUT_COSINE
        odds = values[row] @ np.array(weights[:-1]) + weights[-1]
        assert likely[row] == pytest.approx(1 / (1 + np.exp(-odds)))


def test_cosines_of_another_model_and_no_cosines_count_for_nothing() -> None:
    corpus, question, query = random_corpus(4)
    asked, rows = query_tokens(question), np.arange(len(corpus))
    found = hybrid(corpus, question, query, embed_by_text, NOW)
    odds = (
        measures(corpus, found, asked, rows)[:, 1:] @ np.array(relevance.WITHOUT_COSINE[1:-1])
        + relevance.WITHOUT_COSINE[-1]
    )
    assert probabilities(corpus, found, asked, rows, "another") == pytest.approx(1 / (1 + np.exp(-odds)))
    words = hybrid(corpus, question, None, None, NOW)
    assert (
        probabilities(corpus, words, asked, rows, MODEL).tolist()
        == probabilities(corpus, words, asked, rows, "another").tolist()
    )
