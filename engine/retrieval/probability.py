"""How likely a memory is to answer: a score says which memory comes first, this says whether any is worth having.

A logistic model of five measures, fitted on questions whose evidence is known (docs/benchmarks.md), each with vectors of
a matrix that had not seen its writer. A weight says what one unit of a measure adds to the log of the odds.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from engine.providers.embedder_specs import ADAPTED_MODELS
from engine.retrieval.corpus import Corpus, Rows
from engine.retrieval.relevance import Relevance, Words, information
from engine.retrieval.scoring import MIN_NORM, Floats, deviation, mean

#: What is measured of each memory, in this order: its cosine with the question; the share of what the question asks that it says; how many
#: standard deviations its relevance is behind the best one's; how many the best one's is above the agent's mean; and the logarithm of how
#: many memories there are, because among many more look alike.
MEASURES = ("cosine", "said", "behind", "best", "memories")
#: Weights of the measures and the constant. Cosines of one model say nothing about another's, so those that are not listed go without.
WEIGHTS: Mapping[str, tuple[float, ...]] = {ADAPTED_MODELS["m1"]: (1.873, 3.027, -0.882, 0.740, -0.587, -1.426)}
WITHOUT_COSINE = (0.0, 3.413, -0.977, 0.828, -0.579, -1.147)


def measures(corpus: Corpus, found: Relevance, asked: Words, rows: Rows) -> Floats:
    """The measures of some rows, shape ``(len(rows), len(MEASURES))``; a cosine that is not known counts as 0."""
    total = found.total
    spread = max(float(deviation(total - mean(total))), MIN_NORM)
    best = float(total.max())
    zeros = np.zeros(rows.size)
    columns = (
        zeros if found.dense is None else found.dense[rows],
        zeros if found.lexical is None else found.lexical[rows] / information(corpus, asked),
        (best - total[rows]) / spread,
        zeros + (best - float(mean(total))) / spread,
        zeros + np.log(len(corpus)),
    )
    return np.stack(columns, axis=1)


def probabilities(corpus: Corpus, found: Relevance, asked: Words, rows: Rows, model: str) -> Floats:
    """Of some rows, the probability that each answers, 0 … 1, shape ``(len(rows),)``.

    Args:
        corpus: the agent's memories, at least one.
        found: what :func:`engine.retrieval.relevance.hybrid` made of the question.
        asked: its tokens.
        rows: whose probability is wanted.
        model: what embedded question and memories.
    """
    weights = WITHOUT_COSINE if found.dense is None else WEIGHTS.get(model, WITHOUT_COSINE)
    odds = measures(corpus, found, asked, rows) @ np.array(weights[:-1]) + weights[-1]
    if found.dense is not None:  # what has no vector is judged by the rest
        without = ~corpus.has_vector[rows]
        if without.any():
            odds[without] = measures(corpus, found, asked, rows[without]) @ np.array(WITHOUT_COSINE[:-1]) + WITHOUT_COSINE[-1]
    return np.asarray(1 / (1 + np.exp(-odds)), dtype=np.float64)
