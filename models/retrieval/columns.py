"""Columns that grow together: one numpy array a column, so that looking at one does not read the others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Rows that there is room for at first; doubled when full.
FIRST_ROWS = 256


class Columns:
    """``columns["name"]`` is a view of the rows in use, shape ``(size, …)``: valid until more are added."""

    def __init__(self, kinds: Mapping[str, Any], defaults: Mapping[str, float] | None = None) -> None:
        """``kinds``: name → dtype, or (dtype, width) for a column of rows. ``defaults``: what a new row holds, if not 0."""
        self.size = 0
        self._defaults = dict(defaults or {})
        self._arrays: dict[str, NDArray[Any]] = {}
        for name, kind in kinds.items():
            dtype, *width = kind if isinstance(kind, tuple) else (kind,)
            self.add_column(name, dtype, *width)

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self._arrays[name][: self.size]

    @property
    def names(self) -> list[str]:
        return list(self._arrays)

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self._arrays.values())

    def add_column(self, name: str, dtype: Any, *width: int) -> None:
        """A new column, or one of the same name with another width: filled with its default."""
        room = next((len(array) for array in self._arrays.values()), FIRST_ROWS)
        self._arrays[name] = np.full((room, *width), self._defaults.get(name, 0), dtype=dtype)

    def extend(self, count: int) -> NDArray[np.intp]:
        """``count`` more rows; returns their positions."""
        start, self.size = self.size, self.size + count
        for name, array in self._arrays.items():
            room = len(array)
            if self.size > room:
                larger = np.full((max(2 * room, self.size), *array.shape[1:]), self._defaults.get(name, 0), dtype=array.dtype)
                larger[:start] = array[:start]
                self._arrays[name] = larger
        return np.arange(start, self.size)
