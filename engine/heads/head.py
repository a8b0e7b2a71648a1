"""One learned judgement: multinomial logistic regression on dense features and n-grams, calibrated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.heads.features import Features, values

#: A probability that nothing reaches.
NEVER = 1.01

Probabilities = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Rows:
    """What a head reads, one row a judgement: ``dense`` is ``(n, d)``, and each row has its n-grams."""

    dense: Features
    grams: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Head:
    """Scaling and calibration are folded into the weights when it is trained.

    Attributes:
        classes: names of the ``c`` classes.
        dense: ``(d, c)``.
        words: ``(v, c)``, a row for each n-gram of the vocabulary.
        bias: ``(c,)``.
        vocabulary: n-gram → its row of ``words``.
        idf: ``(v,)``.
        thresholds: label → precision → the least probability from which on the label was right as often, of writers that the head was
            not trained on; in the order in which they were wanted, the first is the default.
    """

    classes: tuple[str, ...]
    dense: Features
    words: Features
    bias: Features
    vocabulary: Mapping[str, int]
    idf: Features
    thresholds: Mapping[str, Mapping[float, float]]

    def probabilities(self, rows: Rows) -> Probabilities:
        """``(n, c)``; each row adds up to 1."""
        logits = (rows.dense @ self.dense + self.bias).astype(np.float64)
        for row, found in enumerate(rows.grams):
            numbers, weights = values(found, self.vocabulary, self.idf)
            logits[row] += weights @ self.words[numbers]
        return softmax(logits)

    def least(self, label: str, precision: float = 0.0) -> float:
        """The least probability at which a label is right as often as ``precision``, or as the default; above 1 if it never is."""
        known = self.thresholds[label]
        if not precision:
            return next(iter(known.values()))
        return min((least for reached, least in known.items() if reached >= precision), default=NEVER)


def softmax(logits: Probabilities) -> Probabilities:
    shifted = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(shifted / shifted.sum(axis=1, keepdims=True), dtype=np.float64)
