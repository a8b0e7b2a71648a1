"""Columns that grow together: one numpy array a column, so that looking at one does not read the others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Rows that there is room for at first, and how much more there is when it is full.
FIRST_ROWS, GROWTH = 256, 1.5


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
        self._arrays[name] = self._filled(name, dtype, room, *width)

    def reserve(self, rows: int) -> None:
        """Make room for so many rows in all, so that it need not be made step by step."""
        self._make_room(rows)

    def extend(self, count: int) -> NDArray[np.intp]:
        """``count`` more rows; returns their positions."""
        start, self.size = self.size, self.size + count
        room = len(next(iter(self._arrays.values())))
        if self.size > room:
            self._make_room(max(int(GROWTH * room), self.size), used=start)
        return np.arange(start, self.size)

    def _make_room(self, room: int, used: int | None = None) -> None:
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
