"""What comes before what in an answer beside the scores: the newer before the older, a thought behind its evidence.

Pure, over the few best memories of one answer, best first. The scores stay as they are; what was replaced is marked.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from heapq import heappop, heappush
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from engine.retrieval.scoring import MIN_NORM, Floats, Order
from engine.text.changes import PERHAPS, SAYS
from engine.text.topics import all_topics_of
from jiyi.text.tokens import telling

#: At least so many of the best are looked at, however few are asked for.
LOOKED_AT = 30
#: At most so many of the best are compared with each other: their likenesses are a square of numbers.
MOST_COMPARED = 1_000
#: A newer memory says an older one anew if its likeness to it (:func:`engine.retrieval.likeness.alike`) and its relevance to the
#: question, as a share of the older one's above the ordinary, add up to this: where it has words for something being no longer
#: as it was, where it may (了, went up to), and where it has none. Facts about one thing
#: that stand beside each other (where it is, when it is) are much alike too, and must not replace each other.
SAYS_SO, MAY_SAY_SO, SAYS_NOTHING = 0.8, 1.3, 1.7
#: And each of the two has to be at least so much.
LEAST_ALIKE, LEAST_RELEVANT = 0.25, 0.3
#: The ordinary is what the memories beyond those looked at have; as many as this are trusted as much as that nothing is ordinary.
ORDINARY_PRIOR = 5
#: In a text of more telling words, a word of change is about one thing of many.
MOST_WORDS = 30
#: Seconds: what is said within one conversation adds to each other rather than that it replaces the other.
APART = 1_800.0
#: From where a sentence begins, and no character of it is tried twice.
_QUESTION = re.compile(r"(?<![^.!?。！？\n])[^.!?。！？\n]*+[?？]")
#: What somebody says of how it was before.
_PAST = re.compile(r"\b(?:used to|when i still)\b[^.!?;]{0,200}|(?:以前|原来|从前)[^，。！？；]{0,60}", re.IGNORECASE)


@dataclass(frozen=True)
class Shown:
    """What is looked at of each memory. It is shown again and again: what its text says is worked out once."""

    node_id: UUID
    text: str
    created: float
    subject: str | None
    #: What a thought rests on.
    evidence: frozenset[UUID] = frozenset()
    #: What likeness and relevance have to add up to for it to replace an older one.
    needed: float = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "needed", needed(self.text))

    @cached_property
    def topics(self) -> frozenset[str]:
        """All topics that it has words of."""
        return all_topics_of(self.text)

    @cached_property
    def topics_now(self) -> frozenset[str]:
        """The same but for what it says of how it was before."""
        now = _PAST.sub("", self.text)
        return self.topics if now is self.text else all_topics_of(now)


def says_change(text: str) -> bool:
    """Whether a text has words for something being no longer as it was (now, moved, 改, 不再)."""
    return SAYS.search(text) is not None


def may_say_change(text: str) -> bool:
    """Whether a text has words of a change of state, which most often is none of the attribute that is asked for."""
    return PERHAPS.search(text) is not None


def needed(text: str) -> float:
    """What likeness and relevance have to add up to for a memory of this text to replace an older one."""
    if len(telling(text)) > MOST_WORDS:
        return SAYS_NOTHING
    stated = _QUESTION.sub("", text)  # who asks states nothing: "Anything new?"
    if stated is not text and not telling(stated):
        return math.inf
    return SAYS_SO if says_change(stated) else MAY_SAY_SO if may_say_change(stated) else SAYS_NOTHING


def above_ordinary(relevance: Floats, best: Order) -> Floats:
    """How much more relevant the best are than the ordinary memory; of few memories all are, as far as anybody can tell.

    Args:
        relevance: of all memories, 0 … 1.
        best: positions of those that are looked at.
    """
    return np.asarray(relevance[best] - ordinary(np.delete(relevance, best)), dtype=np.float64)


def ordinary(others: Floats) -> float:
    """The relevance of the ordinary memory, by those of ``others``; of few it is low, of none -1."""
    if not others.size:
        return -1.0
    return (others.size * _median(others) - ORDINARY_PRIOR) / (others.size + ORDINARY_PRIOR)


def _median(values: Floats) -> float:
    """As ``numpy.median``, which takes several times as long to look at what it was given."""
    half = values.size // 2
    parted = np.partition(values, half)
    return float(parted[half] if values.size % 2 else (parted[:half].max() + parted[half]) / 2)


def replaces(shown: Sequence[Shown], alike: Floats, relevance: Floats) -> NDArray[np.bool_]:
    """Which memory (row) replaces which (column), ``(k, k)``; arguments as in :func:`newer_first`."""
    enough = np.array([one.needed for one in shown])
    share = share_of(relevance)
    found = (alike >= LEAST_ALIKE) & (share >= LEAST_RELEVANT) & (alike + np.minimum(share, 1) >= enough[:, None])
    return np.asarray(found & told_later(shown), dtype=bool)


def oldest_first(shown: Sequence[Shown]) -> list[int]:
    """Positions in the order in which they were told."""
    found: list[int] = np.argsort(np.array([one.created for one in shown]), kind="stable").tolist()
    return found


def share_of(relevance: Floats) -> Floats:
    """The relevance of each (row) as a share of that of each (column), ``(k, k)``."""
    return np.asarray(relevance[:, None] / np.maximum(relevance, MIN_NORM), dtype=np.float64)


def told_later(shown: Sequence[Shown]) -> NDArray[np.bool_]:
    """Which memory (row) was told some time after which (column), of the same subject, ``(k, k)``. A thought is no news."""
    created = np.array([one.created for one in shown])
    codes: dict[str, int] = {}
    subjects = np.array([codes.setdefault(one.subject or "", len(codes)) for one in shown])
    told = np.array([not one.evidence for one in shown], dtype=bool)
    later = created[:, None] - created >= APART
    return np.asarray(later & (subjects[:, None] == subjects) & told[:, None] & told, dtype=bool)


def newer_first(shown: Sequence[Shown], alike: Floats, relevance: Floats) -> tuple[Order, dict[int, int]]:
    """Positions in their new order, and for each position that a newer one says anew the position of that one.

    A newer memory goes directly before the best of the older ones that it replaces. It replaces those of the same
    subject that are about the same, as far as vectors and words show it, were told some time before, and are not much
    more relevant.

    Args:
        shown: the memories, best first.
        alike: how much each is about the same as each, ``(k, k)``.
        relevance: theirs, see :func:`above_ordinary`, ``(k,)``.
    """
    return in_order(shown, replaces(shown, alike, relevance))


def in_order(shown: Sequence[Shown], found: NDArray[np.bool_]) -> tuple[Order, dict[int, int]]:
    """As :func:`newer_first`, where it is known which memory (row) replaces which (column)."""
    if not found.any():
        return np.arange(len(shown)), {}
    place: Floats = np.arange(len(shown), dtype=np.float64)
    by: dict[int, int] = {}
    for newer in oldest_first(shown):
        older = np.flatnonzero(found[newer])
        if older.size:
            place[newer] = min(place[newer], np.nextafter(place[older].min(), -np.inf))
            by.update(dict.fromkeys(older.tolist(), newer))
    return np.argsort(place, kind="stable"), by


def behind_evidence(shown: Sequence[Shown]) -> Order:
    """Positions in their new order: each thought behind all of its evidence that is there; without any, behind everything."""
    if not any(one.evidence for one in shown):
        return np.arange(len(shown))
    there = {one.node_id for one in shown}
    #: What each thought still waits for, and who waits for what.
    missing = {place: one.evidence & there for place, one in enumerate(shown) if one.evidence}
    waits_for = {place: len(evidence) for place, evidence in missing.items()}
    waiting: defaultdict[UUID, list[int]] = defaultdict(list)
    for place, evidence in missing.items():
        for node_id in evidence:
            waiting[node_id].append(place)
    order: list[int] = []
    done: set[int] = set()
    for place in range(len(shown)):
        if waits_for.get(place, 0) or (place in missing and not missing[place]) or place in done:
            continue
        ready = [place]
        while ready:  # the earliest of those whose evidence is before them
            now = heappop(ready)
            order.append(now)
            done.add(now)
            for late in waiting[shown[now].node_id]:
                waits_for[late] -= 1
                if not waits_for[late] and late < place:  # a later one has its turn
                    heappush(ready, late)
    return np.array([*order, *(place for place in range(len(shown)) if place not in done)], dtype=np.intp)
