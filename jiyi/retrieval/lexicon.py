"""An inverted index in memory, and BM25 over it (Robertson & Zaragoza 2009)."""

from __future__ import annotations

import sys
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from jiyi.retrieval.scoring import Floats

#: How soon further occurrences of a token in one text stop to matter.
K1 = 1.2
#: How much longer texts are discounted. Memories are short and of similar length, so less than for documents.
B = 0.5


class Statistics(Protocol):
    """What is known of a collection as a whole."""

    #: Number of texts, and of tokens in all of them.
    texts: int
    tokens: int

    def containing(self, tokens: Iterable[str]) -> Mapping[str, int]:
        """In how many texts each of the tokens occurs, at least of these."""
        ...


class Lexicon:
    """Postings of texts that are added one after the other; each is known by its position. Not thread-safe.

    Document frequencies are exact: over all texts that were added; or, where these are only some of a larger
    collection, as ``statistics`` has them.
    """

    def __init__(self, statistics: Statistics | None = None) -> None:
        self._statistics = statistics
        self._postings: dict[str, tuple[array[int], array[int]]] = {}
        self._lengths = array("i")
        #: The distinct tokens of each text, to find texts like it.
        self._texts: list[tuple[str, ...]] = []
        self._total = 0
        self._size = 0
        self._discounts: NDArray[np.float64] | None = None

    def __len__(self) -> int:
        return len(self._lengths)

    @property
    def bytes_used(self) -> int:
        """About what it takes: 16 bytes a posting, and some for each token."""
        return 16 * self._size + 250 * len(self._postings) + 80 * len(self._lengths)

    def add(self, tokens: Sequence[str]) -> None:
        """Append a text."""
        position = len(self._lengths)
        counted = Counter(tokens)
        for token, count in counted.items():
            rows, counts = self._postings.setdefault(sys.intern(token), (array("i"), array("i")))
            rows.append(position)
            counts.append(count)
        self._lengths.append(len(tokens))
        self._texts.append(tuple(counted))
        self._total += len(tokens)
        self._size += len(counted)
        self._discounts = None

    def bm25(self, tokens: Iterable[str]) -> Floats:
        """The score of each text for the tokens of a question, shape ``(len(self),)``; 0 where none occurs.

        A question's repetitions do not count: they are how people talk, not what they look for.
        """
        scores = np.zeros(len(self._lengths), dtype=np.float64)
        if not self._lengths:
            return scores
        discount = self._length_discounts()
        known = [token for token in dict.fromkeys(tokens) if token in self._postings]
        containing = {} if self._statistics is None else self._statistics.containing(known)
        for token in known:
            found = self._postings[token]
            positions = np.frombuffer(found[0], dtype=np.int32)
            counts = np.frombuffer(found[1], dtype=np.int32).astype(np.float64)
            rarity = self._rarity(max(containing.get(token, 0), len(positions)))
            scores[positions] += rarity * counts * (K1 + 1) / (counts + discount[positions])
        return scores

    def likeness(self, position: int) -> Floats:
        """BM25 of each text for the tokens of one of them."""
        return self.bm25(self._texts[position])

    def _rarity(self, containing: int) -> float:
        texts = len(self._lengths) if self._statistics is None else max(self._statistics.texts, containing)
        return float(np.log1p((texts - containing + 0.5) / (containing + 0.5)))

    def _length_discounts(self) -> NDArray[np.float64]:
        if self._discounts is None:
            lengths = np.frombuffer(self._lengths, dtype=np.int32).astype(np.float64)
            known = self._statistics
            average = self._total / len(self._lengths) if known is None else known.tokens / max(known.texts, 1)
            self._discounts = K1 * (1 - B + B * lengths / max(average, 1.0))
        return self._discounts
