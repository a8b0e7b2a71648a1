"""What comes before what in an answer beside the scores: the newer before the older, a thought behind its evidence.

Pure, over the few best memories of one answer, best first. The scores stay as they are; what was replaced is marked.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from uuid import UUID

import numpy as np

from jiyi.retrieval.scoring import Floats, Order

#: At least so many of the best are looked at, however few are asked for.
LOOKED_AT = 30
#: At most so many of the best are compared with each other: their likenesses are a square of numbers.
MOST_COMPARED = 1_000
#: Centred cosine from which on two memories are about the same thing: where the newer one says that something has changed,
#: and where it does not say so. Facts about one thing that stand beside each other (where it is, when it is) are much alike
#: too, and must not replace each other.
ALIKE_IF_CHANGED, ALIKE = 0.5, 0.9
#: The newer one also has to be so relevant to the question, as a share of the older one's relevance above the ordinary.
RELEVANT_IF_CHANGED, RELEVANT = 0.4, 0.6
#: Seconds: what is said within one conversation adds to each other rather than that it replaces the other.
APART = 1_800.0

#: Words by which people say that something is no longer as it was. Alternatives of fixed words: linear in the text.
_CHANGED = re.compile(
    r"现在|改[成为到了在去期用]|更改|[又更]换|换[成了到个去]|搬|不再|不用再|已经|又[不没改回停裂]|停了|取消|推迟|提前到|退休|离职|辞[职了掉]|"
    r"卖了|交给|其实|新[的家]|涨到|降到|回到|变成|原来|以后只|从今|戒[了掉烟酒]|分手|开始|拿到"
    r"|\b(?:now|no longer|any ?more|instead|change[sd]?|changing|mov(?:ed|es|ing)|switch(?:ed|es|ing)?|quit|stopped|gave up|"
    r"sold|new|again|turns out|turned out|actually|pushed|postponed|cancell?ed|used to|from now on|from here on|these days|"
    r"finished|start(?:ed|s|ing)?|became|left|replaced|updated|caved|since)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Shown:
    """What is looked at of each memory."""

    node_id: UUID
    text: str
    created: float
    subject: str | None
    #: What a thought rests on.
    evidence: frozenset[UUID] = frozenset()
    #: Whether the text says that something is no longer as it was: looked for once, where a memory is shown again and again.
    changed: bool = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "changed", says_change(self.text))


def says_change(text: str) -> bool:
    """Whether a text has words for something being no longer as it was (now, moved, 改, 不再)."""
    return _CHANGED.search(text) is not None


def newer_first(shown: Sequence[Shown], alike: Floats, relevance: Floats) -> tuple[Order, dict[int, int]]:
    """Positions in their new order, and for each position that a newer one says anew the position of that one.

    A newer memory goes directly before the best of the older ones that it replaces. It replaces those of the same
    subject that are about the same, as far as vectors show it, were told some time before, and are not much more relevant.

    Args:
        shown: the memories, best first.
        alike: centred cosine of each with each, ``(k, k)``; see :meth:`jiyi.relevance.Corpus.alike`.
        relevance: theirs, above the median of the memories that are not among these, ``(k,)``.
    """
    created = np.array([one.created for one in shown])
    subjects = np.array([one.subject or "" for one in shown])
    changed = np.array([one.changed for one in shown], dtype=bool)
    told = np.array([not one.evidence for one in shown], dtype=bool)  # a thought is no news
    replaces = alike >= np.where(changed, ALIKE_IF_CHANGED, ALIKE)[:, None]
    replaces &= relevance[:, None] >= np.where(changed, RELEVANT_IF_CHANGED, RELEVANT)[:, None] * relevance[None, :]
    replaces &= created[:, None] - created[None, :] >= APART
    replaces &= (subjects[:, None] == subjects[None, :]) & told[:, None] & told[None, :]
    place: Floats = np.arange(len(shown), dtype=np.float64)
    by: dict[int, int] = {}
    for newer in np.argsort(created, kind="stable").tolist():
        older = np.flatnonzero(replaces[newer])
        if older.size:
            place[newer] = min(place[newer], np.nextafter(place[older].min(), -np.inf))
            by.update(dict.fromkeys(older.tolist(), newer))
    return np.argsort(place, kind="stable"), by


def behind_evidence(shown: Sequence[Shown]) -> Order:
    """Positions in their new order: each thought behind all of its evidence that is there; without any, behind everything."""
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
