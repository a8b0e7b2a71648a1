"""Which rows each code is in, and how often, in a few large arrays: an object for each would take ten times the memory."""

from __future__ import annotations

from array import array
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int32]

#: So many postings that came since, or such a share of all, are looked up in short lists before they are sorted in: to sort all
#: takes a tenth of a microsecond for each, to put one into its list half of one.
LATE, LATE_SHARE = 1_000, 0.125
#: How much more room than needed is made when an array is full.
GROWTH = 1.5


class Ragged:
    """Rows of whole numbers, each of its own length, in one array."""

    def __init__(self) -> None:
        self._values: Ints = np.zeros(0, np.int32)
        self._size = 0
        self._starts, self._lengths = array("q"), array("i")

    def __len__(self) -> int:
        return len(self._lengths)

    def __getitem__(self, row: int) -> Ints:
        start = self._starts[row]
        return self._values[start : start + self._lengths[row]]

    @property
    def nbytes(self) -> int:
        return self._values.nbytes + 12 * len(self._lengths)

    def extend(self, values: Ints, lengths: Ints) -> None:
        """Append rows, given one after the other."""
        ends = self._size + np.cumsum(lengths, dtype=np.int64)
        self._starts.frombytes((ends - lengths).tobytes())
        self._lengths.frombytes(lengths.astype(np.int32, copy=False).tobytes())
        self._append(values)

    def add(self, values: Iterable[int]) -> None:
        """Append one row."""
        self.replace(len(self._lengths), values)

    def replace(self, row: int, values: Iterable[int]) -> None:
        """Give a row other values; it may be the one behind the last."""
        new = np.fromiter(values, np.int32)
        if row == len(self._lengths):
            self._starts.append(self._size)
            self._lengths.append(new.size)
        else:
            self._starts[row], self._lengths[row] = self._size, new.size
        self._append(new)

    def having_any(self, codes: Ints) -> NDArray[np.bool_]:
        """Whether each row has any of the codes."""
        hits = np.zeros(self._size + 1, np.int64)
        np.cumsum(np.isin(self._values[: self._size], codes), out=hits[1:])
        starts, lengths = np.array(self._starts), np.array(self._lengths)
        return np.asarray(hits[starts + lengths] > hits[starts])

    def _append(self, values: Ints) -> None:
        end = self._size + values.size
        if end > self._values.size:
            larger = np.zeros(int(end * GROWTH), np.int32)
            larger[: self._size] = self._values[: self._size]
            self._values = larger
        self._values[self._size : end] = values
        self._size = end


class Postings:
    """Code → rows, ascending, and how often it is in each. Rows are only added, each behind all others."""

    def __init__(self) -> None:
        self._rows: Ints = np.zeros(0, np.int32)
        self._counts: Ints = np.zeros(0, np.int32)
        #: Where each code's part of them begins, and, one more, where the last ends.
        self._starts = np.zeros(1, np.int64)
        #: By code, those of rows that came since; and (codes, rows, counts) of rows that came at once, after them.
        self._late: dict[int, tuple[array[int], array[int]]] = {}
        self._late_size = 0
        self._parts: list[tuple[Ints, Ints, Ints]] = []
        self.size = 0

    @property
    def nbytes(self) -> int:
        return 8 * self.size + 8 * (self._starts.size - 1) + 200 * len(self._late)

    def add(self, row: int, codes: Iterable[int], counts: Iterable[int]) -> None:
        self._settle()
        for code, count in zip(codes, counts, strict=True):
            self._add_late(code, row, count)
            self.size += 1
        if self._late_size > self._late_limit():
            self._sort_in()

    def extend(self, codes: Ints, rows: Ints, counts: Ints) -> None:
        """Add many at once; the rows ascend."""
        self._parts.append((codes, rows, counts))
        self.size += codes.size

    def of(self, code: int) -> tuple[Ints, Ints]:
        """The rows that have the code, and how often."""
        self._settle()
        if code + 1 < self._starts.size:
            start, end = self._starts[code], self._starts[code + 1]
            rows, counts = self._rows[start:end], self._counts[start:end]
        else:
            rows, counts = self._rows[:0], self._counts[:0]
        late = self._late.get(code)
        if late is None:
            return rows, counts
        return np.concatenate([rows, np.array(late[0], np.int32)]), np.concatenate([counts, np.array(late[1], np.int32)])

    def _late_limit(self) -> float:
        return max(LATE, LATE_SHARE * self._rows.size)

    def _settle(self) -> None:
        """Before a look: what came at once goes to where it can be found."""
        if not self._parts:
            return
        if self._late_size + sum(codes.size for codes, _, _ in self._parts) > self._late_limit():
            self._sort_in()
            return
        for part in self._parts:
            for code, row, count in zip(*(column.tolist() for column in part), strict=True):
                self._add_late(code, row, count)
        self._parts = []

    def _add_late(self, code: int, row: int, count: int) -> None:
        rows, counts = self._late.setdefault(code, (array("i"), array("i")))
        rows.append(row)
        counts.append(count)
        self._late_size += 1

    def _sort_in(self) -> None:
        before = np.repeat(np.arange(self._starts.size - 1, dtype=np.int32), np.diff(self._starts))
        parts = [(before, self._rows, self._counts), *self._late_as_part(), *self._parts]
        self._late, self._late_size, self._parts = {}, 0, []
        codes, rows, counts = (np.concatenate([part[place] for part in parts]) for place in range(3))
        # Each code's rows still ascend. Code and place in one number: that is sorted many times as fast as places by codes.
        order = np.sort(codes.astype(np.int64) * codes.size + np.arange(codes.size)) % max(codes.size, 1)
        self._rows, self._counts = rows[order], counts[order]
        self._starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.bincount(codes))])

    def _late_as_part(self) -> list[tuple[Ints, Ints, Ints]]:
        if not self._late:
            return []
        lengths = [len(rows) for rows, _ in self._late.values()]
        codes = np.repeat(np.fromiter(self._late, np.int32, len(lengths)), lengths)
        rows, counts = (np.concatenate([np.array(late[place], np.int32) for late in self._late.values()]) for place in (0, 1))
        return [(codes, rows, counts)]
