"""What a group's quarantine is about: clusters of entries that say similar things, for the people who promote.

Pure and deterministic: the same entries give the same clusters, in whatever order they come. Entries are alike by their
vectors where all have one, else by their words. Clusters are stars (Butina 1999): the entry with the most entries like it,
and these; then the same with what is left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from engine.retrieval.corpus import language_code
from engine.retrieval.ranking import MIN_NORM, Floats
from engine.text.keywords import keywords_ranked
from engine.text.likeness import ALIKE_BY_WORDS, MAX_READ, likeness_by_words
from jiyi.protocol.wire.vectors import Float32

#: Entries that one digest looks at, the newest: their likenesses are a square of numbers.
MAX_ENTRIES = 1_000
#: Clusters that one digest shows: a page that somebody reads.
MAX_CLUSTERS = 20
#: From here on two entries are alike by vectors without their language's common direction. Of 22 statements on three topics in two
#: languages, .3 joins six of ten pairs of one topic and none of two.
ALIKE_BY_VECTOR = 0.3
#: Entries as many as which a common direction is only half believed.
CENTRE_PRIOR = 1
MAX_KEYWORDS = 6
#: Decimals that are compared: the last ones depend on the order of additions.
ROUNDED = 6


@dataclass(frozen=True, slots=True)
class Entry:
    """A quarantined output that is not promoted yet."""

    entry_id: str
    text: str
    created_at: datetime
    session_id: str | None = None
    confidence: float | None = None
    vector: Float32 | None = None


@dataclass(frozen=True, slots=True)
class Cluster:
    """Entries that say similar things; the first is the one that the others are like."""

    entries: tuple[Entry, ...]
    keywords: tuple[str, ...]

    @property
    def sessions(self) -> int:
        """Sessions that said it: what several say is more than an echo."""
        return len({entry.session_id for entry in self.entries})

    @property
    def first(self) -> datetime:
        return min(entry.created_at for entry in self.entries)

    @property
    def last(self) -> datetime:
        return max(entry.created_at for entry in self.entries)


@dataclass(frozen=True, slots=True)
class Digest:
    """``older`` entries were too many to look at, ``left_out`` ones are in clusters beyond those shown."""

    clusters: tuple[Cluster, ...]
    older: int = 0
    left_out: int = 0


def digest(entries: Sequence[Entry], *, max_entries: int = MAX_ENTRIES, max_clusters: int = MAX_CLUSTERS) -> Digest:
    """The clusters of the newest entries: those that most sessions speak of first, then the larger, then the newer."""
    ordered = sorted({entry.entry_id: entry for entry in entries}.values(), key=lambda e: (e.created_at, e.entry_id), reverse=True)
    looked_at = ordered[:max_entries]
    clusters = [_cluster([looked_at[row] for row in rows]) for rows in _stars(*_likeness(looked_at))]
    clusters.sort(key=lambda cluster: (-cluster.sessions, -len(cluster.entries)))  # stable: the newer centre first
    shown = clusters[:max_clusters]
    left_out = len(looked_at) - sum(len(cluster.entries) for cluster in shown)
    return Digest(tuple(shown), len(ordered) - len(looked_at), left_out)


def _cluster(entries: list[Entry]) -> Cluster:
    words = keywords_ranked("\n".join(entry.text[:MAX_READ] for entry in entries))
    return Cluster(tuple(entries), tuple(words[:MAX_KEYWORDS]))


def _likeness(entries: Sequence[Entry]) -> tuple[Floats, float]:
    """How alike each two are, and from where on that counts."""
    vectors = [entry.vector for entry in entries if entry.vector is not None]
    if len(vectors) == len(entries) > 0 and len({vector.shape for vector in vectors}) == 1:
        made = _by_vector(np.stack(vectors), [language_code(entry.text) for entry in entries])
        if made is not None:
            return made, ALIKE_BY_VECTOR
    return likeness_by_words([entry.text for entry in entries]), ALIKE_BY_WORDS


def _by_vector(vectors: Float32, languages: Sequence[int]) -> Floats | None:
    """Cosines after each language's common direction is taken away: without that, all texts of a language are alike."""
    lengths = np.linalg.norm(vectors, axis=1)
    if not (lengths > MIN_NORM).all():
        return None
    rows = vectors.astype(np.float64) / lengths[:, None]
    for language in set(languages):
        mine = np.array(languages) == language
        count = int(mine.sum())
        rows[mine] -= rows[mine].mean(axis=0) * (count / (count + CENTRE_PRIOR))
    rows /= np.maximum(np.linalg.norm(rows, axis=1), MIN_NORM)[:, None]
    return np.asarray(rows @ rows.T)


def _stars(likeness: Floats, alike: float) -> list[list[int]]:
    """Rows of each cluster, its centre first, then by how like the centre they are."""
    near: NDArray[np.bool_] = likeness >= alike
    np.fill_diagonal(near, val=True)
    weights = np.where(near, likeness, 0.0)
    counts, strength = near.sum(axis=1), weights.sum(axis=1)
    free = np.ones(len(near), dtype=bool)
    found: list[list[int]] = []
    while free.any():
        # Of equals the one that is most like its neighbours, then the newest: the first row.
        best = free & (counts == counts[free].max())
        centre = int(np.argmax(np.where(best, np.round(strength, ROUNDED), -np.inf)))
        rows = [int(row) for row in np.flatnonzero(near[centre] & free) if row != centre]
        taken = [centre, *sorted(rows, key=lambda row: (-round(float(likeness[centre, row]), ROUNDED), row))]
        found.append(taken)
        free[taken] = False
        counts = counts - near[:, taken].sum(axis=1)
        strength = strength - weights[:, taken].sum(axis=1)
    return found
