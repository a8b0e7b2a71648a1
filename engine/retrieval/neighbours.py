"""What was said right before and after a memory, and how far a conversation keeps to its subject (design §7)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from engine.retrieval.scoring import MIN_NORM, Floats
from jiyi.protocol.wire.vectors import Float32

#: Share of a neighbour's score, by how far away it is in the session.
NEIGHBOUR_SHARES = (0.6, 0.3)
#: Before and after, at each distance.
NEIGHBOURS = 2 * len(NEIGHBOUR_SHARES)
#: Seconds after which a neighbour counts e times less: a conversation goes on, a diary does not.
NEIGHBOUR_FADES = 900.0
#: Session of what is in none: it has no neighbours.
NO_SESSION = -1
#: Seconds: what is told without a session is one conversation with what was told in the same hour of the clock; and the code of the
#: first such hour, below any other's. Rare are the neighbours on both sides of the full hour, and a write concerns one hour only.
HOUR, FIRST_HOUR, HOURS = 3_600.0, -10, 1 << 24
#: Likeness of turns that follow each other, beyond that of any two: below the first neighbours lend nothing, as in a chat about
#: this and that (measured: .07 and .12), from the second on everything, as where people talk about something (.16 to .31).
FLOW = (0.1, 0.18)
#: Pairs of turns as many as which a conversation is taken to keep to its subject, and as many as are looked at.
FLOW_PRIOR, FLOW_PAIRS = 10, 500
#: Telling words from which on a turn is a full neighbour; one with fewer gains and gives in proportion.
FULL_CONTENT = 4


def content(telling: Sequence[int] | NDArray[np.int32]) -> Floats:
    """What texts with so many telling words say, 0 (nothing: a greeting, "haha nice") … 1."""
    return np.minimum(np.asarray(telling, dtype=np.float64) / FULL_CONTENT, 1.0)


def with_hours(sessions: NDArray[np.int32], created: Floats) -> NDArray[np.int32]:
    """The sessions of what was told, below 0 none: that of its hour for what was told without one."""
    hours = FIRST_HOUR - np.mod(np.floor(created / HOUR), HOURS)
    return np.where(sessions >= 0, sessions, hours).astype(np.int32)


def neighbours_of(
    sessions: NDArray[np.int32], created: Floats, node_count: NDArray[np.int64], contents: NDArray[np.int32]
) -> tuple[NDArray[np.int32], Floats]:
    """For each row, which rows of the same session are close, and the share of their scores.

    Returns two arrays of shape ``(n, NEIGHBOURS)``: for each distance the row before and the row after, -1 where
    there is none; and their shares, faded by the time between and by how little either says, 0 where there is none.
    ``contents`` are the numbers of telling words.
    """
    says = content(contents)
    order = np.lexsort((node_count, created, sessions))
    ordered = sessions[order]
    near = np.full((sessions.size, NEIGHBOURS), -1, np.int32)
    shares = np.zeros((sessions.size, NEIGHBOURS))
    for distance, share in enumerate(NEIGHBOUR_SHARES, start=1):
        same = (ordered[distance:] == ordered[:-distance]) & (ordered[distance:] != NO_SESSION)
        first, second = order[:-distance][same], order[distance:][same]
        faded = share * np.exp(-np.abs(created[second] - created[first]) / NEIGHBOUR_FADES) * says[first] * says[second]
        near[second, 2 * distance - 2], near[first, 2 * distance - 1] = first, second
        shares[second, 2 * distance - 2], shares[first, 2 * distance - 1] = faded, faded
    return near, shares


def flow_of(
    vectors: Float32, lengths: Floats, sums: Float32, counts: NDArray[np.int64], near: NDArray[np.int32], shares: Floats, created: Floats
) -> float:
    """How far turns keep to the subject of those before, 0 … 1: by how much more alike they are than any two memories.

    A neighbour says what a turn is about where people talk about something; who says now this and now that has a
    stranger for a neighbour.
    """
    rows = np.flatnonzero((shares[:, 1] > 0) & (lengths > MIN_NORM) & (lengths[near[:, 1]] > MIN_NORM))
    total = int(counts.sum())
    if not rows.size or total <= 1:
        return 1.0
    if rows.size > FLOW_PAIRS:  # some of all times, whenever they arrived
        rows = rows[np.argsort(created[rows], kind="stable")][:: -(-rows.size // FLOW_PAIRS)]
    after, weights = near[rows, 1], shares[rows, 1]
    cosine = np.einsum("ij,ij->i", vectors[rows], vectors[after]) / (lengths[rows] * lengths[after])
    whole = sums.sum(axis=0, dtype=np.float64)
    common = min((float(whole @ whole) - total) / (total * (total - 1)), 1 - MIN_NORM)  # of any two, not of one with itself
    alike = (float(weights @ (cosine - common)) / (1 - common) + FLOW_PRIOR * FLOW[1]) / (float(weights.sum()) + FLOW_PRIOR)
    return float(np.clip((alike - FLOW[0]) / (FLOW[1] - FLOW[0]), 0, 1))
