"""Ranking one agent's candidates for the focal texts of a request: pure, exact, in numpy (design §7)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from engine.retrieval import scoring
from engine.retrieval.scoring import Floats, Order, Scores
from jiyi.errors import ModelMismatch
from jiyi.protocol.wire.vectors import Float32
from jiyi.settings import Mode


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidates:
    """Columns over ``m`` memories of one agent, in any order. Times are epoch seconds."""

    node_count: NDArray[np.int64]
    is_thought: NDArray[np.bool_]
    last_accessed: Floats
    #: 0 where it is not known.
    poignancy: Floats
    #: ``(m, d)``; a row of zeros where there is no vector by the request's model. Only :func:`rank` looks at them.
    vectors: Float32 = field(default_factory=lambda: np.zeros((0, 0), dtype=np.float32))

    def __len__(self) -> int:
        return int(self.node_count.size)


@dataclass(frozen=True, kw_only=True, slots=True)
class Weights:
    """How to rank: an agent's settings with the request's on top."""

    mode: Mode
    recency: float
    relevance: float
    importance: float
    decay: float


@dataclass(frozen=True, slots=True)
class Ranked:
    """Positions of the best candidates, best first, among the ``kept`` ones, and the scores of all of those."""

    #: Positions in the candidate set of what passed ``min_similarity``; ``scores`` is over these.
    kept: Order
    #: Positions in ``kept``.
    best: Order
    scores: Scores


def rank(
    candidates: Candidates, query: Float32, weights: Weights, *, top_k: int, now: float, min_similarity: float | None = None
) -> Ranked:
    """The ``top_k`` best of ``candidates`` for one focal vector of shape ``(d,)``.

    Raises:
        ModelMismatch: the focal vector's size is not that of the candidates' vectors.
    """
    try:
        similarity = scoring.cosine(candidates.vectors, query)
    except ValueError as error:
        raise ModelMismatch(str(error)) from None
    kept: Order = np.arange(len(candidates))
    if min_similarity is not None:
        kept = np.flatnonzero(similarity >= min_similarity)
    return rank_by(candidates, similarity, kept, weights, top_k=top_k, now=now)


def rank_by(
    candidates: Candidates, relevance: Floats, kept: Order, weights: Weights, *, top_k: int, now: float, order: Order | None = None
) -> Ranked:
    """The ``top_k`` best of the ``kept`` candidates by a relevance of any kind, shape ``(m,)``.

    ``order`` has the positions of all candidates by last access, the least recent first, where that is known.
    """
    everyone = kept.size == len(candidates)
    last_accessed = candidates.last_accessed if everyone else candidates.last_accessed[kept]
    if order is not None and everyone:
        pass
    elif weights.mode == "stanford":
        order = scoring.access_order(last_accessed, candidates.is_thought[kept], candidates.node_count[kept])
    else:
        order = np.lexsort((candidates.node_count[kept], last_accessed))
    relevant = scoring.component(relevance if everyone else relevance[kept], weights.relevance * scoring.RELEVANCE_GAIN)
    recent = _recency(last_accessed, order, weights, now)
    important = candidates.poignancy if everyone else candidates.poignancy[kept]
    gains = scoring.RECENCY_GAIN, scoring.IMPORTANCE_GAIN
    if weights.mode != "stanford":
        gains = scoring.nudges(relevant.normalised, recent, important)
    scores = scoring.combine(
        scoring.component(recent, weights.recency * gains[0]), relevant, scoring.component(important, weights.importance * gains[1])
    )
    # On ties the original keeps its order, least recently accessed first; the other modes the newest first.
    ties = order if weights.mode == "stanford" else order[::-1]
    return Ranked(kept, scoring.best(scores.total, ties, top_k), scores)


def diverse(scores: Floats, vectors: Float32, top_k: int, diversity: float) -> Order:
    """Positions of ``top_k`` of the ``n`` best that say different things: maximal marginal relevance.

    Each next one has the highest ``(1 - diversity) · score - diversity · likeness``, with the scores stretched to
    [0, 1] and likeness the cosine with the most similar one taken already, at least 0 (Carbonell & Goldstein 1998).

    Args:
        scores: ``(n,)``, the best first.
        vectors: ``(n, d)``; a row of zeros is like nothing.
        top_k: how many.
        diversity: 0 (scores alone) … 1 (likeness alone).
    """
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit = vectors / np.maximum(lengths, scoring.MIN_NORM)
    worth = (1 - diversity) * scoring.normalise(scores)
    likeness = np.zeros(scores.size)
    left = np.ones(scores.size, dtype=bool)
    taken: list[int] = []
    for _ in range(min(top_k, scores.size)):
        best = int(np.argmax(np.where(left, worth - diversity * likeness, -np.inf)))
        taken.append(best)
        left[best] = False
        likeness = np.maximum(likeness, unit @ unit[best])
    return np.array(taken, dtype=np.intp)


def rank_in_turn(
    candidates: Candidates, queries: Sequence[Float32], weights: Weights, *, top_k: int, now: float, min_similarity: float | None = None
) -> list[Ranked]:
    """Several focal vectors. In ``stanford`` mode each sees what the ones before it touched, as the original does;
    otherwise all see the same state.
    """
    results = []
    for query in queries:
        ranked = rank(candidates, query, weights, top_k=top_k, now=now, min_similarity=min_similarity)
        results.append(ranked)
        if weights.mode == "stanford":
            touched = candidates.last_accessed.copy()
            touched[ranked.kept[ranked.best]] = now
            candidates = replace(candidates, last_accessed=touched)
    return results


def _recency(last_accessed: Floats, order: Order, weights: Weights, now: float) -> Floats:
    if weights.mode == "elapsed":
        return scoring.recency_by_time(last_accessed, now, weights.decay)
    return scoring.recency_by_rank(order, weights.decay, newest_highest=weights.mode == "recent")
