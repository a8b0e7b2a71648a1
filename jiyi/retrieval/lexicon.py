"""An inverted index in memory, and BM25 over it (Robertson & Zaragoza 2009)."""

from __future__ import annotations

import sys
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from jiyi.retrieval.scoring import Floats
from jiyi.text.tokens import is_filler, is_pair

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
        #: How many of them are telling: no greeting, no "ok".
        self._contents = array("i")
        #: The pairs of Chinese characters that a character stands in.
        self._pairs: dict[str, list[str]] = {}
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
            if token not in self._postings and is_pair(token):
                for character in dict.fromkeys(token):
                    self._pairs.setdefault(character, []).append(token)
            rows, counts = self._postings.setdefault(sys.intern(token), (array("i"), array("i")))
            rows.append(position)
            counts.append(count)
        self._lengths.append(len(tokens))
        self._texts.append(tuple(counted))
        self._contents.append(sum(not is_filler(token) for token in counted))
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
        for _, (positions, counts), rarity in self._found(tokens):
            scores[positions] += rarity * counts * (K1 + 1) / (counts + discount[positions])
        return scores

    def information(self, tokens: Iterable[str]) -> float:
        """The sum of the tokens' rarities: about the BM25 of a text of average length that says them all."""
        asked = list(dict.fromkeys(tokens))
        known = {token: rarity for token, _, rarity in self._found(asked)}
        return sum(known[token] if token in known else self._rarity(0) for token in asked)

    def text(self, position: int) -> tuple[str, ...]:
        """The distinct tokens of one of the texts."""
        return self._texts[position]

    def contents(self) -> NDArray[np.int32]:
        """How many telling tokens each text has."""
        return np.array(self._contents, dtype=np.int32)

    def likeness(self, position: int) -> Floats:
        """BM25 of each text for the tokens of one of them."""
        return self.bm25(self._texts[position])

    def _found(self, tokens: Iterable[str]) -> Iterator[tuple[str, tuple[NDArray[np.int32], Floats], float]]:
        """Each token that occurs, with where and how often, and its rarity. A single Chinese character occurs in pairs."""
        postings = {token: found for token in dict.fromkeys(tokens) if (found := self._where(token)) is not None}
        containing = {} if self._statistics is None else self._statistics.containing(list(postings))
        for token, (positions, counts) in postings.items():
            yield token, (positions, counts), self._rarity(max(containing.get(token, 0), len(positions)))

    def _where(self, token: str) -> tuple[NDArray[np.int32], Floats] | None:
        """The texts that a token is in, and how often."""
        parts = [self._postings[part] for part in (token, *self._pairs.get(token, ())) if part in self._postings]
        if not parts:
            return None
        if len(parts) == 1:
            return np.frombuffer(parts[0][0], dtype=np.int32), np.frombuffer(parts[0][1], dtype=np.int32).astype(np.float64)
        positions = np.unique(np.concatenate([np.frombuffer(rows, dtype=np.int32) for rows, _ in parts]))
        return positions, np.ones(positions.size)  # of two pairs that share it, it is the same one

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
