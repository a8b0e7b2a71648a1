"""Which pain points are the same: alike by the words that say what hurts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from engine.growth.pains.words import topic_of
from engine.tiers.digest import ALIKE_BY_WORDS, likeness_by_words


def most_alike(summary: str, known: Sequence[str]) -> int | None:
    """The number of the known one that says the same, the most alike; None if none is alike (``engine.tiers.digest``)."""
    if not known:
        return None
    likeness = likeness_by_words([topic_of(text) for text in (summary, *known)])[0, 1:]
    best = int(np.argmax(likeness))
    return best if likeness[best] >= ALIKE_BY_WORDS else None
