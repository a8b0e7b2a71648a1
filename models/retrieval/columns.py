"""The columns of an agent's index: one numpy array a column, so that looking at one does not read the others.

Beside what is read there are columns worked out from it: vectors with their common direction taken away,
neighbours, and the order in which the memories were accessed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.retrieval.corpus import LANGUAGES, centre_of, language_sums, neighbours_of, project_on_centroid
from engine.retrieval.ranking import MIN_NORM, Floats
from jiyi.protocol.wire.vectors import MAX_LENGTH, Float32
from models.retrieval.index_rows import MemoryColumns

#: Rows that there is room for at first, and how much more there is when it is full.
FIRST_ROWS, GROWTH = 256, 1.5


class Columns:
    """``columns["name"]`` is a view of the rows in use, shape ``(size, …)``: valid until more are added."""

    def __init__(self, kinds: Mapping[str, Any], defaults: Mapping[str, float] | None = None) -> None:
        """``kinds``: name → dtype, or (dtype, width) for a column of rows. ``defaults``: of a new row, if not
        0.
        """
        self.size = 0
        self._defaults = dict(defaults or {})
        self._arrays: dict[str, NDArray[Any]] = {}
        for name, kind in kinds.items():
            dtype, *width = kind if isinstance(kind, tuple) else (kind,)
            self.add_column(name, dtype, *width)

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self._arrays[name][: self.size]

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self._arrays.values())

    def add_column(self, name: str, dtype: Any, *width: int) -> None:
        """A new column, or one of the same name with another width: filled with its default."""
        room = next((len(array) for array in self._arrays.values()), FIRST_ROWS)
        self._arrays[name] = self._filled(name, dtype, room, *width)

    def extend(self, count: int) -> NDArray[np.intp]:
        """``count`` more rows; returns their positions."""
        start, self.size = self.size, self.size + count
        room = len(next(iter(self._arrays.values())))
        if self.size > room:
            self.reserve(max(int(GROWTH * room), self.size), used=start)
        return np.arange(start, self.size)

    def reserve(self, room: int, used: int | None = None) -> None:
        """Make room for so many rows in all; ``used``: as many hold something."""
        used = self.size if used is None else used
        for name, array in self._arrays.items():
            if room > len(array):
                larger = self._filled(name, array.dtype, room, *array.shape[1:])
                larger[:used] = array[:used]
                self._arrays[name] = larger

    def _filled(self, name: str, dtype: Any, *shape: int) -> NDArray[Any]:
        default = self._defaults.get(name, 0)
        # Zeros take no memory until something is written over them.
        return np.full(shape, default, dtype=dtype) if default else np.zeros(shape, dtype=dtype)


Rows = NDArray[np.intp]
NO_ROWS: Rows = np.zeros(0, dtype=np.intp)


class AccessOrder:
    """Rows by last access, the least recent first, the older on ties."""

    def __init__(self) -> None:
        self._order: Rows = np.zeros(0, dtype=np.intp)
        #: Rows accessed, or new, since the order was worked out.
        self._moved: set[int] = set()

    def move(self, rows: Iterable[int]) -> None:
        """The rows are new, or were accessed."""
        self._moved.update(rows)

    def rows(self, last_accessed: Floats, node_count: NDArray[np.int64]) -> Rows:
        if self._moved:
            moved = np.fromiter(self._moved, np.intp, len(self._moved))
            order = self._with_the_moved_last(moved, last_accessed, node_count)
            if order is None:
                order = _sorted(np.arange(last_accessed.size), last_accessed, node_count)
            self._order = order
            self._moved.clear()
        return self._order

    def _with_the_moved_last(
        self, moved: Rows, last_accessed: Floats, node_count: NDArray[np.int64]
    ) -> Rows | None:
        """The order if the accesses are later than all others, as they usually are; else None."""
        stays = np.ones(last_accessed.size, dtype=bool)
        stays[moved] = False
        rest = self._order[stays[self._order]]
        if rest.size and last_accessed[rest[-1]] >= last_accessed[moved].min():
            return None
        return np.concatenate([rest, _sorted(moved, last_accessed, node_count)])


def _sorted(rows: Rows, last_accessed: Floats, node_count: NDArray[np.int64]) -> Rows:
    return rows[np.lexsort((node_count[rows], last_accessed[rows]))]


#: Steps in which the centre follows a growing memory: so it need not be recomputed for each row.
CENTRE_STEPS = 16


class Centre:
    """The mean direction of an index's vectors, and what else of all of them changes slowly."""

    def __init__(self) -> None:
        self.vector: Float32 = np.zeros(0, dtype=np.float32)
        #: What it is made of: sums of vectors and their numbers, by language.
        self.sums: Float32 = np.zeros((LANGUAGES, 0), dtype=np.float32)
        self.counts: NDArray[np.int64] = np.zeros(LANGUAGES, dtype=np.int64)
        #: Of how many rows it is the mean, and the last of them.
        self._made_of = (0, -1)

    def update(self, columns: Columns, changed: Rows) -> None:
        """Recompute it, in steps as the vectors grow, and project the changed rows on it."""
        has = np.flatnonzero((columns["length"] > MIN_NORM) & columns["counts"])
        step = max(1, 1 << max(int(has.size).bit_length() - CENTRE_STEPS.bit_length(), 0))
        trusted = has[: has.size - has.size % step]
        made_of = (trusted.size, int(trusted[-1]) if trusted.size else -1)
        # The first vectors, though none of them counts.
        grown = self.vector.size != columns["vector"].shape[1]
        if grown or made_of != self._made_of or (changed <= self._made_of[1]).any():
            self._made_of = made_of
            languages = columns["language"]
            self.sums = language_sums(columns["vector"], columns["length"], trusted, languages)
            self.counts = np.bincount(languages[trusted], minlength=LANGUAGES)
            self.vector = centre_of(self.sums, trusted.size)
            changed = np.arange(columns.size)
        vectors = columns["vector"] if changed.size == columns.size else columns["vector"][changed]
        dots, lengths = project_on_centroid(vectors, columns["length"][changed], self.vector)
        columns["centre_dot"][changed], columns["centred_length"][changed] = dots, lengths


def store_vectors(columns: Columns, positions: Rows, rows: MemoryColumns, dimensions: int) -> None:
    """Store the rows' vectors of ``dimensions`` values; one of another size counts as none."""
    if not columns["vector"].shape[1] and dimensions and (rows.numbers["dimensions"] == dimensions).any():
        columns.add_column("vector", np.float32, dimensions)
    fits, vectors = rows.vectors(columns["vector"].shape[1])
    columns["has_vector"][positions] = fits
    if fits.all() and (np.diff(positions) == 1).all():  # new rows, as they come: nothing is copied twice
        saved_vectors = columns["vector"][positions[0] : positions[-1] + 1]
        saved_vectors[:] = vectors
    else:
        columns["vector"][positions[~fits]] = 0  # it may have had one by this model before
        columns["vector"][positions[fits]] = vectors
        saved_vectors = columns["vector"][positions]
    lengths = np.sqrt(np.einsum("ij,ij->i", saved_vectors, saved_vectors, dtype=np.float64))
    # Stored before such were refused: they would make every score infinite.
    if lengths.size and not lengths.max() <= MAX_LENGTH:
        far = positions[~(lengths <= MAX_LENGTH)]
        columns["vector"][far], columns["has_vector"][far] = 0, False
        lengths[~(lengths <= MAX_LENGTH)] = 0
    columns["length"][positions] = lengths


def update_neighbours(columns: Columns, sessions: NDArray[np.int32], contents: NDArray[np.int32]) -> None:
    """Find the neighbours of each row of these sessions; ``contents``: telling words of each row of all."""
    rows = np.flatnonzero(np.isin(columns["session"], sessions))
    near, shares = neighbours_of(
        columns["session"][rows], columns["created"][rows], columns["node_count"][rows], contents[rows]
    )
    columns["near"][rows] = np.where(near >= 0, rows[near], -1)
    columns["share"][rows] = shares
