"""Keywords of memories, to filter by: they are taken apart when the first question asks for them, which most never do."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from sys import getsizeof

import numpy as np
from numpy.typing import NDArray
from pydantic_core import from_json

from engine.retrieval.lexicon import Codes
from engine.retrieval.postings import Ragged


class Keywords:
    """Lists of keywords in lower case, each known by its position. Not thread-safe."""

    def __init__(self) -> None:
        self._lists, self._codes = Ragged(), Codes()
        #: What came since they were looked at last, and its bytes.
        self._packed: list[str] = []
        self._packed_bytes = 0

    @property
    def nbytes(self) -> int:
        return self._lists.nbytes + self._packed_bytes

    def extend(self, packed: Iterable[str]) -> None:
        """Append lists: each text is a JSON list of some."""
        for text in packed:
            self._packed.append(text)
            self._packed_bytes += getsizeof(text)

    def replace(self, position: int, keywords: Iterable[str]) -> None:
        """Give a position other keywords."""
        self._unpack()
        self._lists.replace(position, [self._codes[keyword] for keyword in keywords])

    def __getitem__(self, position: int) -> frozenset[str]:
        self._unpack()
        names = list(self._codes)
        return frozenset(names[code] for code in self._lists[position].tolist())

    def having_any(self, keywords: Sequence[str]) -> NDArray[np.bool_]:
        """Whether each list has any of the keywords, in whatever case."""
        self._unpack()
        wanted = [self._codes.get(keyword.lower(), -1) for keyword in keywords]
        return self._lists.having_any(np.array(wanted, np.int32))

    def _unpack(self) -> None:
        packed, self._packed, self._packed_bytes = self._packed, [], 0
        for text in packed:
            lists = from_json(text)
            lengths = np.fromiter(map(len, lists), np.int32, len(lists))
            codes = map(self._codes.__getitem__, chain.from_iterable(lists))
            self._lists.extend(np.fromiter(codes, np.int32, int(lengths.sum())), lengths)
