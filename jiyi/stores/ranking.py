"""Items of several stores in one order: a store's own score counts, and how new, long and on the subject an item is.

``w·store + (1 − w)·(0.7·max(0.1, 1 − hours/720)·length_factor + 0.3·overlap)``, w = 0.7; of a store without scores the second
term alone. The original's order is the second term alone for all, with words between white space.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from jiyi.protocol.stores.items import Hit
from jiyi.stores.config.types import Fidelity
from jiyi.text.tokens import tokens

#: What the store's own score counts.
STORE_WEIGHT = 0.7
#: What newness with length, and shared words, count.
NEWNESS, OVERLAP = 0.7, 0.3
#: Hours in which newness goes down to its floor: thirty days.
FADES_IN_HOURS, LEAST_NEWNESS = 720.0, 0.1
#: Texts shorter or longer than these, in characters, count less.
SHORT_TEXT, LONG_TEXT = 20, 200
SHORT_FACTOR, LONG_FACTOR = 0.5, 0.8


@dataclass(frozen=True, slots=True)
class Ranked:
    """An item found, with its store and its place among all."""

    store: str
    hit: Hit
    score: float


def rank(
    found: Mapping[str, Sequence[Hit]], query: str, now: datetime, *, weight: float = STORE_WEIGHT, fidelity: Fidelity = "jiyi"
) -> list[Ranked]:
    """All items, best first; equal ones in the order of their stores."""
    wanted = _words(query, fidelity)
    ranked = []
    for store, hits in found.items():
        scale = max([1.0, *(hit.score for hit in hits if hit.score is not None)])  # scores are to be comparable: 1 at most
        for hit in hits:
            own = _newness(hit, now) * _length_factor(hit.item.content_summary) * NEWNESS + OVERLAP * _overlap(wanted, hit, fidelity)
            scored = hit.score is not None and fidelity == "jiyi"
            score = weight * hit.score / scale + (1 - weight) * own if scored and hit.score is not None else own
            ranked.append(Ranked(store, hit, score))
    return sorted(ranked, key=lambda one: -one.score)


def _newness(hit: Hit, now: datetime) -> float:
    hours = max(0.0, (now.timestamp() - hit.item.timestamp) / 3_600)
    return max(LEAST_NEWNESS, 1 - hours / FADES_IN_HOURS)


def _length_factor(text: str) -> float:
    if len(text) < SHORT_TEXT:
        return SHORT_FACTOR
    return LONG_FACTOR if len(text) > LONG_TEXT else 1.0


def _overlap(wanted: frozenset[str], hit: Hit, fidelity: Fidelity) -> float:
    return len(wanted & _words(hit.item.content_summary, fidelity)) / len(wanted) if wanted else 0.0


def _words(text: str, fidelity: Fidelity) -> frozenset[str]:
    return frozenset(text.lower().split() if fidelity == "devall" else tokens(text))
