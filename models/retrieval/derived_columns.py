"""Columns of an index that are worked out from what is read: vectors with their common direction taken away, and neighbours."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from engine.retrieval.corpus import centre_of, project_on_centroid
from engine.retrieval.likeness import LANGUAGES, language_sums
from engine.retrieval.neighbours import flow_of, neighbours_of
from engine.retrieval.scoring import MIN_NORM
from jiyi.protocol.wire.vectors import MAX_LENGTH, Float32
from models.retrieval.access_order import Rows
from models.retrieval.columns import Columns
from models.retrieval.index_rows import IndexRows

#: Steps in which the centre follows a growing memory: so it need not be worked out anew for each row.
CENTRE_STEPS = 16


class Centre:
    """The mean direction of an index's vectors, and what else of all of them changes slowly."""

    def __init__(self) -> None:
        self.vector: Float32 = np.zeros(0, dtype=np.float32)
        #: What it is made of: sums of vectors and their numbers, by language.
        self.sums: Float32 = np.zeros((LANGUAGES, 0), dtype=np.float32)
        self.counts: NDArray[np.int64] = np.zeros(LANGUAGES, dtype=np.int64)
        #: How far turns keep to the subject of those before (:func:`engine.retrieval.neighbours.flow_of`).
        self.flow = 0.0
        #: Of how many rows it is the mean, and the last of them.
        self._made_of = (0, -1)
        self._flow_is_old = True

    def update(self, columns: Columns, changed: Rows) -> None:
        """Recompute it, in steps as the vectors grow, and project the changed rows on it."""
        has = np.flatnonzero(columns["length"] > MIN_NORM)
        step = max(1, 1 << max(int(has.size).bit_length() - CENTRE_STEPS.bit_length(), 0))
        trusted = has[: has.size - has.size % step]
        made_of = (trusted.size, int(trusted[-1]) if trusted.size else -1)
        if made_of != self._made_of or (changed <= self._made_of[1]).any():
            self._made_of = made_of
            languages = columns["language"]
            self.sums = language_sums(columns["vector"], columns["length"], trusted, languages)
            self.counts = np.bincount(languages[trusted], minlength=LANGUAGES)
            self.vector = centre_of(self.sums, trusted.size)
            self._flow_is_old = True
            changed = np.arange(columns.size)
        vectors = columns["vector"] if changed.size == columns.size else columns["vector"][changed]
        dots, lengths = project_on_centroid(vectors, columns["length"][changed], self.vector)
        columns["centre_dot"][changed], columns["centred_length"][changed] = dots, lengths

    def update_flow(self, columns: Columns) -> None:
        """Once the neighbours are known; in the same steps."""
        if self._flow_is_old:
            of_rows = [columns[name] for name in ("near", "share", "created")]
            self.flow = flow_of(columns["vector"], columns["length"], self.sums, self.counts, *of_rows)
            self._flow_is_old = False


def store_vectors(columns: Columns, positions: Rows, rows: IndexRows, dimensions: int) -> None:
    """Store the rows' vectors of ``dimensions`` values; one of another size counts as none."""
    if not columns["vector"].shape[1] and dimensions and (rows.numbers["dimensions"] == dimensions).any():
        columns.add_column("vector", np.float32, dimensions)
    fits, vectors = rows.vectors(columns["vector"].shape[1])
    columns["has_vector"][positions] = fits
    if fits.all() and (np.diff(positions) == 1).all():  # new rows, as they come: nothing is copied twice
        stored = columns["vector"][positions[0] : positions[-1] + 1]
        stored[:] = vectors
    else:
        columns["vector"][positions[~fits]] = 0  # it may have had one by this model before
        columns["vector"][positions[fits]] = vectors
        stored = columns["vector"][positions]
    lengths = np.sqrt(np.einsum("ij,ij->i", stored, stored, dtype=np.float64))
    if lengths.size and not lengths.max() <= MAX_LENGTH:  # stored before such were refused: they would make every score infinite
        far = positions[~(lengths <= MAX_LENGTH)]
        columns["vector"][far], columns["has_vector"][far] = 0, False
        lengths[~(lengths <= MAX_LENGTH)] = 0
    columns["length"][positions] = lengths


def update_neighbours(columns: Columns, sessions: NDArray[np.int32], contents: NDArray[np.int32]) -> None:
    """Find the neighbours of each row of these sessions; ``contents``: how many telling words each row of all has."""
    rows = np.flatnonzero(np.isin(columns["session"], sessions))
    near, shares = neighbours_of(columns["session"][rows], columns["created"][rows], columns["node_count"][rows], contents[rows])
    columns["near"][rows] = np.where(near >= 0, rows[near], -1)
    columns["share"][rows] = shares
