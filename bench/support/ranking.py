"""Figures of a ranked list, given what should be in it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet

#: The decimals that a few hundred questions support, and two more to see a change.
DECIMALS = 4

Figures = dict[str, float]


def recall_at(k: int, ranked: Sequence[str], evidence: AbstractSet[str]) -> float:
    """The share of the evidence among the first ``k``."""
    return len(evidence & set(ranked[:k])) / len(evidence)


def ndcg_at(k: int, ranked: Sequence[str], evidence: AbstractSet[str]) -> float:
    """Discounted gain of the first ``k``, each evidence counting 1, as a share of the best possible
    order's.
    """
    gain = sum(_discount(place) for place, key in enumerate(ranked[:k]) if key in evidence)
    return gain / sum(_discount(place) for place in range(min(k, len(evidence))))


def _discount(place: int) -> float:
    return 1 / math.log2(place + 2)


def figures(
    ranked: Sequence[str], evidence: AbstractSet[str], recalls: Iterable[int], ndcgs: Iterable[int] = ()
) -> Figures:
    """``{"recall@5": …, "ndcg@10": …}`` of one question."""
    return {f"recall@{k}": recall_at(k, ranked, evidence) for k in recalls} | {
        f"ndcg@{k}": ndcg_at(k, ranked, evidence) for k in ndcgs
    }


def mean(questions: Sequence[Mapping[str, float]]) -> Figures:
    """Each figure's mean over the questions."""
    return {
        name: round(sum(row[name] for row in questions) / len(questions), DECIMALS) for name in questions[0]
    }


def quantile(values: Sequence[float], share: float) -> float:
    """The least value that at least ``share`` of the values do not exceed."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]
