"""Ranking one agent's candidates by recency · relevance · importance (Park et al. 2023): pure, exact, in
numpy.

All arrays are float64 of shape ``(m,)`` over one candidate set, in one order. Scores of different requests
are not comparable: every component is stretched to [0, 1] over its own candidates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jiyi.errors import ModelMismatch
from jiyi.protocol.wire.vectors import Float32
from jiyi.settings import Mode

Floats = NDArray[np.float64]
Order = NDArray[np.intp]

#: The original's fixed gains: effective weight = setting × gain.
RECENCY_GAIN = 0.5
RELEVANCE_GAIN = 3.0
IMPORTANCE_GAIN = 2.0

#: In the modes of our own, standard deviations of relevance that lie between a memory of recency 1 and one of
#: 0, and between one of the greatest importance and one of none, with weights of 1: they decide between
#: memories that answer about as well, and bury none that answers.
RECENCY_REACH = 0.25
IMPORTANCE_REACH = 0.5
MOST_IMPORTANT = 10.0

#: Shorter vectors carry no direction worth comparing.
MIN_NORM = 1e-8

SECONDS_PER_HOUR = 3600.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Component:
    """One of the three: as measured, stretched to [0, 1], and its effective weight (setting × gain)."""

    raw: Floats
    normalised: Floats
    weight: float

    @property
    def contribution(self) -> Floats:
        return self.normalised * self.weight


@dataclass(frozen=True, kw_only=True, slots=True)
class Scores:
    recency: Component
    relevance: Component
    importance: Component
    total: Floats


def normalise(values: Floats) -> Floats:
    """Min–max to [0, 1]; all equal gives 0.5 each, as the original does. Empty stays empty."""
    if values.size == 0:
        return values
    low, high = values.min(), values.max()
    if low == high:
        return np.full_like(values, 0.5)
    return np.asarray((values - low) / (high - low), dtype=np.float64)


# The mean, the deviation and the length of a vector are numpy's to the last bit, without its look at what it
# was given. With numpy's own, relevance and ranking of 1,000 memories take a quarter longer.
def mean(values: Floats) -> Any:
    """As ``values.mean()``."""
    return np.add.reduce(values) / values.size


def deviation(apart: Floats) -> Any:
    """The standard deviation, as ``std()`` has it, of values given as what is between them and their mean."""
    return np.sqrt(np.add.reduce(apart * apart) / apart.size)


def quotient(products: NDArray[np.floating], scale: Floats) -> Floats:
    """``products / scale``; 0 where the scale says that there is nothing to compare."""
    if scale.size and scale.min() > MIN_NORM:  # as most often: a third of the time
        return np.asarray(products / scale, dtype=np.float64)
    quotients = np.zeros(scale.shape, dtype=np.float64)
    np.divide(products, scale, out=quotients, where=scale > MIN_NORM)
    return quotients


def length_of(vector: NDArray[np.floating]) -> float:
    """As ``numpy.linalg.norm``."""
    return float(np.sqrt(vector.dot(vector)))


def component(raw: Floats, weight: float) -> Component:
    return Component(raw=raw, normalised=normalise(raw), weight=weight)


def nudges(relevance: Floats, recency: Floats, importance: Floats) -> tuple[float, float]:
    """The gains of recency and importance (as measured) that keep to their reach beside a normalised
    relevance.

    So that little differences stay little, the gain is in proportion to what there is between least and
    greatest. Where all are equally relevant, the original's gains are as good as any.
    """
    # Rounded, because a sum depends on the order of its terms, and an answer must not depend on that of the
    # candidates.
    spread = round(float(deviation(relevance - mean(relevance))), 9) if relevance.size else 0.0
    if spread < MIN_NORM:
        return RECENCY_GAIN, IMPORTANCE_GAIN
    unit = spread * RELEVANCE_GAIN
    recent, important = float(recency.max() - recency.min()), float(importance.max() - importance.min())
    return unit * RECENCY_REACH * recent, unit * IMPORTANCE_REACH * important / MOST_IMPORTANT


def access_order(
    last_accessed: Floats, is_thought: NDArray[np.bool_], node_count: NDArray[np.int64]
) -> Order:
    """The original's order: least recently accessed first; ties events before thoughts, newest first."""
    return np.lexsort((-node_count, is_thought, last_accessed))


def recency_by_rank(order: Order, decay: float, *, newest_highest: bool) -> Floats:
    """``decay ** rank``, of an order with the least recently accessed first.

    ``newest_highest=False`` gives the original's ranks, 1 for the *least* recently accessed.
    """
    powers = _powers(decay, order.size.bit_length())[: order.size]  # decay ** rank, for the ranks from 1 on
    recency = np.empty(order.size, dtype=np.float64)
    recency[order] = powers[::-1] if newest_highest else powers
    return recency


# Powers are slow, and the same for every request: kept, for a few decays and up to the next power of two.
@lru_cache(maxsize=16)
def _powers(decay: float, bits: int) -> Floats:
    powers = np.asarray(decay ** np.arange(1, (1 << bits) + 1, dtype=np.float64), dtype=np.float64)
    powers.setflags(write=False)
    return powers


def recency_by_time(last_accessed: Floats, now: float, decay: float) -> Floats:
    """``decay ** hours`` since the last access; an access in the future counts as one just now."""
    hours = np.maximum(now - last_accessed, 0.0) / SECONDS_PER_HOUR
    return np.asarray(decay**hours, dtype=np.float64)


def cosine(matrix: NDArray[np.floating], query: NDArray[np.floating]) -> Floats:
    """Cosine of each row of ``(m, d)`` with ``(d,)`` in float64; 0 where a row or the query has no length.

    Raises:
        ValueError: the row length is not the query's.
    """
    if matrix.shape[1] != query.shape[0]:
        raise ValueError(
            f"vectors of {matrix.shape[1]} values cannot be compared with one of {query.shape[0]}"
        )
    rows = matrix.astype(np.float64, copy=False)
    focal = query.astype(np.float64, copy=False)
    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    length = np.linalg.norm(focal)
    similarity = np.zeros(rows.shape[0], dtype=np.float64)
    if length > MIN_NORM:
        np.divide(rows @ focal, lengths * length, out=similarity, where=lengths > MIN_NORM)
    return similarity


def best(scores: Floats, tie_order: Order, k: int) -> Order:
    """Positions of the ``k`` highest scores, best first; ties keep ``tie_order``."""
    if scores.size > 4 * k:  # sorting all to keep a few would cost more than everything else
        lowest = np.partition(scores, scores.size - k)[scores.size - k]
        tie_order = tie_order[(scores >= lowest)[tie_order]]
    ranked = tie_order[np.argsort(-scores[tie_order], kind="stable")]
    return ranked[:k]


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidates:
    """Columns over ``m`` memories of one agent, in any order. Times are epoch seconds."""

    node_count: NDArray[np.int64]
    is_thought: NDArray[np.bool_]
    last_accessed: Floats
    #: 0 where it is not known.
    poignancy: Floats
    #: ``(m, d)``; a row of zeros where there is no vector by the request's model. Only :func:`rank` looks at
    #: them.
    vectors: Float32 = field(default_factory=lambda: np.zeros((0, 0), dtype=np.float32))

    def __len__(self) -> int:
        return int(self.node_count.size)


@dataclass(frozen=True, kw_only=True, slots=True)
class RankingWeights:
    """How to rank: an agent's settings with the request's on top."""

    mode: Mode
    recency: float
    relevance: float
    importance: float
    decay: float


@dataclass(frozen=True, slots=True)
class RankedCandidates:
    """Positions of the best candidates, best first, among the ``retained`` ones, and the scores of those."""

    #: Positions in the candidate set of what passed ``min_similarity``; ``scores`` is over these.
    retained: Order
    #: Positions in ``retained``.
    best: Order
    scores: Scores


def rank(
    candidates: Candidates,
    query: Float32,
    weights: RankingWeights,
    *,
    top_k: int,
    now: float,
    min_similarity: float | None = None,
) -> RankedCandidates:
    """The ``top_k`` best of ``candidates`` for one focal vector of shape ``(d,)``.

    Raises:
        ModelMismatch: the focal vector's size is not that of the candidates' vectors.
    """
    try:
        similarity = cosine(candidates.vectors, query)
    except ValueError as error:
        raise ModelMismatch(str(error)) from None
    retained: Order = np.arange(len(candidates))
    if min_similarity is not None:
        retained = np.flatnonzero(similarity >= min_similarity)
    return rank_by(candidates, similarity, retained, weights, top_k=top_k, now=now)


def rank_by(
    candidates: Candidates,
    relevance: Floats,
    retained: Order,
    weights: RankingWeights,
    *,
    top_k: int,
    now: float,
    order: Order | None = None,
) -> RankedCandidates:
    """The ``top_k`` best of the ``retained`` candidates by a relevance of any kind, shape ``(m,)``.

    ``order`` has the positions of all candidates, the least recently accessed first, where that is known.
    """
    everyone = retained.size == len(candidates)
    last_accessed = candidates.last_accessed if everyone else candidates.last_accessed[retained]
    if order is not None and everyone:
        pass
    elif weights.mode == "stanford":
        order = access_order(last_accessed, candidates.is_thought[retained], candidates.node_count[retained])
    else:
        order = np.lexsort((candidates.node_count[retained], last_accessed))
    relevant = component(relevance if everyone else relevance[retained], weights.relevance * RELEVANCE_GAIN)
    if weights.mode == "elapsed":
        recent = recency_by_time(last_accessed, now, weights.decay)
    else:
        recent = recency_by_rank(order, weights.decay, newest_highest=weights.mode == "recent")
    important = candidates.poignancy if everyone else candidates.poignancy[retained]
    gains = RECENCY_GAIN, IMPORTANCE_GAIN
    if weights.mode != "stanford":
        gains = nudges(relevant.normalised, recent, important)
    recency = component(recent, weights.recency * gains[0])
    importance = component(important, weights.importance * gains[1])
    total = recency.contribution + relevant.contribution + importance.contribution  # in the original's order
    scores = Scores(recency=recency, relevance=relevant, importance=importance, total=total)
    # On ties the original keeps its order, least recently accessed first; the other modes the newest first.
    ties = order if weights.mode == "stanford" else order[::-1]
    return RankedCandidates(retained, best(scores.total, ties, top_k), scores)


def diverse(scores: Floats, vectors: Float32, top_k: int, diversity: float) -> Order:
    """Positions of ``top_k`` of the ``n`` best that say different things: maximal marginal relevance.

    Each next one has the highest ``(1 - diversity) · score - diversity · similarity``, with the scores
    stretched to [0, 1] and similarity the cosine with the most similar one taken already, at least 0
    (Carbonell & Goldstein 1998).

    Args:
        scores: ``(n,)``, the best first.
        vectors: ``(n, d)``; a row of zeros is like nothing.
        top_k: how many.
        diversity: 0 (scores alone) … 1 (similarity alone).
    """
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit = vectors / np.maximum(lengths, MIN_NORM)
    worth = (1 - diversity) * normalise(scores)
    similarity = np.zeros(scores.size)
    remaining = np.ones(scores.size, dtype=bool)
    picks: list[int] = []
    for _ in range(min(top_k, scores.size)):
        best = int(np.argmax(np.where(remaining, worth - diversity * similarity, -np.inf)))
        picks.append(best)
        remaining[best] = False
        similarity = np.maximum(similarity, unit @ unit[best])
    return np.array(picks, dtype=np.intp)


def only_likely(
    ranked: RankedCandidates, probability: Mapping[int, float], rows: Order, least: float | None
) -> RankedCandidates:
    """Without those that are less likely to answer than ``least``.

    Args:
        ranked: the ranking of the candidates.
        probability: of the rows of the best ones; empty where it is not known.
        rows: of the candidates, ``(m,)``.
        least: 0 … 1.
    """
    if not least or not probability:
        return ranked
    return replace(
        ranked,
        best=ranked.best[[probability[row] >= least for row in rows[ranked.retained[ranked.best]].tolist()]],
    )


def only_diverse(
    ranked: RankedCandidates, vectors: Float32, rows: Order, top_k: int, diversity: float
) -> RankedCandidates:
    """The ``top_k`` of the best that say different things, see :func:`diverse`; ``rows`` are the
    candidates'.
    """
    best = ranked.best
    return replace(
        ranked,
        best=best[diverse(ranked.scores.total[best], vectors[rows[ranked.retained[best]]], top_k, diversity)],
    )


def rank_in_turn(
    candidates: Candidates,
    queries: Sequence[Float32],
    weights: RankingWeights,
    *,
    top_k: int,
    now: float,
    min_similarity: float | None = None,
) -> list[RankedCandidates]:
    """Several focal vectors; in ``stanford`` mode each sees what the ones before it touched, as the original
    does.
    """
    results = []
    for query in queries:
        ranked = rank(candidates, query, weights, top_k=top_k, now=now, min_similarity=min_similarity)
        results.append(ranked)
        if weights.mode == "stanford":
            touched = candidates.last_accessed.copy()
            touched[ranked.retained[ranked.best]] = now
            candidates = replace(candidates, last_accessed=touched)
    return results
