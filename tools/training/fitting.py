"""Fits a head, and asks it about each writer that it was not trained on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.sparse import csr_matrix

from engine.heads.model import Features, Head, Inputs, Probabilities, softmax, values

#: An n-gram of fewer texts is learned by heart rather than from.
LEAST_TEXTS = 3
#: Iterations of a fit at most; it ends before, when a step makes the loss less by a smaller part than this.
ITERATIONS, TOLERANCE = 500, 1e-6
#: What calibration may come to.
FACTORS, SHIFTS = (0.2, 5.0), (-2.0, 2.0)
#: Kept from zero in logarithms.
TINY = 1e-9

Labels = NDArray[np.str_]


@dataclass(frozen=True, slots=True)
class Shape:
    """How the parts of a row are weighed against each other: ``scales`` of blocks of so many columns, of
    n-grams; 1 / ridge.
    """

    blocks: tuple[tuple[int, float], ...]
    words: float
    strength: float

    def columns(self) -> Features:
        """A factor for each column of ``dense``."""
        return np.concatenate([np.full(width, scale, dtype=np.float32) for width, scale in self.blocks])


def fit(rows: Inputs, labels: Labels, weights: Features, shape: Shape) -> Head:
    """A head without calibration or thresholds."""
    vocabulary, idf = _vocabulary(rows.grams)
    mean, scale = rows.dense.mean(axis=0), shape.columns()
    classes = sorted(set(labels.tolist()))
    wanted = np.array([classes.index(label) for label in labels.tolist()])
    words = _sparse(rows.grams, vocabulary, idf) * shape.words
    learned, bias = _least_loss(
        ((rows.dense - mean) * scale).astype(np.float32), words, wanted, weights * shape.strength
    )
    dense = learned[: scale.size] * scale[:, None]
    return Head(
        tuple(classes),
        dense.astype(np.float32),
        (learned[scale.size :] * shape.words).astype(np.float32),
        (bias - mean @ dense).astype(np.float32),
        vocabulary,
        idf,
        {},
    )


def _least_loss(dense: Features, words: Any, wanted: NDArray[np.intp], weights: Features) -> tuple[Any, Any]:
    """Weights ``(d + v, c)`` and bias ``(c,)`` of the least weighted cross-entropy with a ridge on the
    weights.

    By L-BFGS. The dense columns and the sparse ones are multiplied apart: as one sparse matrix they take ten
    times as long.
    """
    rows, width = np.arange(wanted.size), dense.shape[1]
    size, classes = width + words.shape[1], int(wanted.max()) + 1
    transposed = words.T.tocsr()

    def loss(given: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        learned, bias = given[: size * classes].reshape(size, classes), given[size * classes :]
        likely = softmax(dense @ learned[:width].astype(np.float32) + words @ learned[width:] + bias)
        cost = -(np.log(np.maximum(likely[rows, wanted], TINY)) * weights).sum() + (learned**2).sum() / 2
        likely[rows, wanted] -= 1
        likely *= weights[:, None]
        slope = np.vstack([dense.T @ likely.astype(np.float32), transposed @ likely]) + learned
        return float(cost), np.concatenate([slope.ravel(), likely.sum(axis=0)])

    start = np.zeros(size * classes + classes)
    found = minimize(
        loss, start, jac=True, method="L-BFGS-B", options={"maxiter": ITERATIONS, "ftol": TOLERANCE}
    ).x
    return found[: size * classes].reshape(size, classes), found[size * classes :]


def _vocabulary(grams: Sequence[Sequence[str]]) -> tuple[dict[str, int], Features]:
    counted: dict[str, int] = {}
    texts = set(map(tuple, grams))
    for found in texts:
        for gram in dict.fromkeys(found):
            counted[gram] = counted.get(gram, 0) + 1
    kept = sorted(gram for gram, count in counted.items() if count >= LEAST_TEXTS)
    idf = np.array([np.log((1 + len(texts)) / (1 + counted[gram])) + 1 for gram in kept], dtype=np.float32)
    return {gram: number for number, gram in enumerate(kept)}, idf


def _sparse(grams: Sequence[Sequence[str]], vocabulary: Mapping[str, int], idf: Features) -> Any:
    found = [values(some, vocabulary, idf) for some in grams]
    rows = np.repeat(np.arange(len(found)), [numbers.size for numbers, _ in found])
    data = (
        np.concatenate([weights for _, weights in found]),
        (rows, np.concatenate([numbers for numbers, _ in found])),
    )
    return csr_matrix(data, shape=(len(found), len(vocabulary)))


def some(rows: Inputs, chosen: NDArray[np.intp]) -> Inputs:
    return Inputs(rows.dense[chosen], [rows.grams[place] for place in chosen.tolist()])


def left_out(
    rows: Inputs, labels: Labels, weights: Features, writers: Labels, asked: Sequence[str], shape: Shape
) -> tuple[Probabilities, dict[str, Head]]:
    """Probabilities ``(n, c)`` of each row by a head that saw no row of its writer, NaN for writers that are
    not asked about; and these heads, by the writer that each has not seen.
    """
    classes = sorted(set(labels.tolist()))
    heads: dict[str, Head] = {}
    found: Probabilities = np.full((labels.size, len(classes)), np.nan)
    for writer in asked:
        known, kept = np.flatnonzero(writers != writer), np.flatnonzero(writers == writer)
        head = heads[writer] = fit(some(rows, known), labels[known], weights[known], shape)
        given = head.probabilities(some(rows, kept))
        found[kept] = TINY
        for place, name in enumerate(head.classes):
            found[kept, classes.index(name)] = given[:, place]
    return found, heads


@dataclass(frozen=True, slots=True)
class Calibration:
    """Logits are multiplied by ``factor``, then ``shift`` of each class is added (Platt's scaling for several
    classes).
    """

    factor: float
    shift: Features

    def of(self, probabilities: Probabilities) -> Probabilities:
        return softmax(np.log(np.maximum(probabilities, TINY)) * self.factor + self.shift)

    def folded(self, head: Head) -> Head:
        return replace(
            head,
            dense=head.dense * self.factor,
            words=head.words * self.factor,
            bias=(head.bias * self.factor + self.shift).astype(np.float32),
        )


def calibration(probabilities: Probabilities, labels: Labels, classes: Sequence[str]) -> Calibration:
    """By rows of writers that the head was not trained on: the least cross-entropy."""
    wanted = np.array([classes.index(label) for label in labels.tolist()])
    logits = np.log(np.maximum(probabilities, TINY))

    def loss(given: NDArray[np.float64]) -> float:
        likely = softmax(logits * given[0] + given[1:])[np.arange(wanted.size), wanted]
        return float(-np.log(np.maximum(likely, TINY)).mean() + 1e-3 * (given[1:] ** 2).sum())

    found = minimize(
        loss,
        np.concatenate([[1.0], np.zeros(len(classes))]),
        method="L-BFGS-B",
        bounds=[(0.2, 5.0), *[(-2.0, 2.0)] * len(classes)],
    )
    return Calibration(float(found.x[0]), found.x[1:].astype(np.float32))


def least_probability(probability: NDArray[np.float64], right: NDArray[np.bool_], precision: float) -> float:
    """The least probability from which on so large a share is right; 1.01 (never) if there is none."""
    order = np.argsort(-probability, kind="stable")
    share = np.cumsum(right[order]) / np.arange(1, order.size + 1)
    enough = np.flatnonzero(share >= precision)
    return float(probability[order][enough[-1]]) if enough.size else 1.01
