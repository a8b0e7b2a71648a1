"""In which order an agent's memories were accessed, kept as accesses come."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from engine.retrieval.scoring import Floats

Rows = NDArray[np.intp]


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
        """All rows in their order."""
        if self._moved:
            moved = np.fromiter(self._moved, np.intp, len(self._moved))
            order = self._with_the_moved_last(moved, last_accessed, node_count)
            self._order = _sorted(np.arange(last_accessed.size), last_accessed, node_count) if order is None else order
            self._moved.clear()
        return self._order

    def _with_the_moved_last(self, moved: Rows, last_accessed: Floats, node_count: NDArray[np.int64]) -> Rows | None:
        """The order after accesses later than all others, which is what accesses are; None if some were not."""
        stays = np.ones(last_accessed.size, dtype=bool)
        stays[moved] = False
        rest = self._order[stays[self._order]]
        if rest.size and last_accessed[rest[-1]] >= last_accessed[moved].min():
            return None
        return np.concatenate([rest, _sorted(moved, last_accessed, node_count)])


def _sorted(rows: Rows, last_accessed: Floats, node_count: NDArray[np.int64]) -> Rows:
    return rows[np.lexsort((node_count[rows], last_accessed[rows]))]
