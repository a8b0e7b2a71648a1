"""An inverted index in memory, BM25 over it (Robertson & Zaragoza 2009), and keywords to filter by.

Postings are kept in a few large arrays: an object for each would take ten times the memory.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, count, islice
from sys import getsizeof
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic_core import from_json

from engine.retrieval.ranking import Floats, Order
from jiyi.text.words import fillers, is_pair

Ints = NDArray[np.int32]

#: So many postings that came since, or such a share of all, stand beside the others, sorted among themselves,
#: before they are sorted in.
LATE, LATE_SHARE = 10_000, 1 / 32
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
        ends = self._size + np.cumsum(lengths, dtype=np.int64)
        self._starts.frombytes((ends - lengths).tobytes())
        self._lengths.frombytes(lengths.astype(np.int32, copy=False).tobytes())
        self._append(values)

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
        nothing: Ints = np.zeros(0, np.int32)
        #: By code, where each one's part begins, and, one more, where the last ends.
        self._rows, self._counts, self._starts = nothing, nothing, np.zeros(1, np.int64)
        #: (codes, rows, counts) of what came since; the first of them by code.
        self._late = [(nothing, nothing, nothing)]
        self.size = 0

    @property
    def nbytes(self) -> int:
        return 8 * self.size + 8 * (self._starts.size - 1)

    def extend(self, codes: Ints, rows: Ints, counts: Ints) -> None:
        """Add many at once; the rows ascend."""
        self._late.append((codes, rows, counts))
        self.size += codes.size

    def of(self, code: int) -> tuple[Ints, Ints]:
        if len(self._late) > 1:
            self._settle()
        start, end = self._starts[code : code + 2] if code + 1 < self._starts.size else (0, 0)
        codes, rows, counts = self._late[0]
        first, last = np.searchsorted(codes, (code, code + 1))
        if first == last:
            return self._rows[start:end], self._counts[start:end]
        rows = np.concatenate([self._rows[start:end], rows[first:last]])
        return rows, np.concatenate([self._counts[start:end], counts[first:last]])

    def _settle(self) -> None:
        codes, rows, counts = self._united(self._late)
        if codes.size <= max(LATE, LATE_SHARE * self._rows.size):
            order = np.argsort(codes, kind="stable")
            self._late = [(codes[order], rows[order], counts[order])]
            return
        before = np.repeat(np.arange(self._starts.size - 1, dtype=np.int32), np.diff(self._starts))
        codes, rows, counts = self._united([(before, self._rows, self._counts), (codes, rows, counts)])
        # Each code's rows still ascend. Code and place in one number: that is sorted many times as fast as
        # places by codes.
        order = np.sort(codes.astype(np.int64) * codes.size + np.arange(codes.size)) % codes.size
        self._rows, self._counts = rows[order], counts[order]
        self._starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.bincount(codes))])
        self._late = [(codes[:0], rows[:0], counts[:0])]

    @staticmethod
    def _united(parts: list[tuple[Ints, Ints, Ints]]) -> tuple[Ints, Ints, Ints]:
        codes, rows, counts = map(np.concatenate, zip(*parts, strict=True))
        return codes, rows, counts


class KeywordLists:
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
        self._unpack()
        self._lists.replace(position, [self._codes[keyword] for keyword in keywords])

    def __getitem__(self, position: int) -> frozenset[str]:
        self._unpack()
        names = list(self._codes)
        return frozenset(names[code] for code in self._lists[position].tolist())

    def having_any(self, keywords: Sequence[str]) -> NDArray[np.bool_]:
        """Whether each list has any of the keywords, in whatever case."""
        self._unpack()
        codes = [self._codes.get(keyword.lower(), -1) for keyword in keywords]
        return self._lists.having_any(np.array(codes, np.int32))

    def _unpack(self) -> None:
        packed, self._packed, self._packed_bytes = self._packed, [], 0
        for text in packed:
            lists = from_json(text)
            lengths = np.fromiter(map(len, lists), np.int32, len(lists))
            codes = map(self._codes.__getitem__, chain.from_iterable(lists))
            self._lists.extend(np.fromiter(codes, np.int32, int(lengths.sum())), lengths)


#: How soon further occurrences of a token in one text stop to matter.
K1 = 1.2
#: How much longer texts are discounted. Memories are short and of similar length, so less than for documents.
B = 0.5
#: Scores of single tokens are kept while nothing is added: so many in all, and for so many times the texts
#: there are.
KEPT, KEPT_TIMES = 50_000, 10

#: The rows that a token is in, its part of each one's score, and its rarity.
Scored = tuple[Ints, Floats, float]


class Statistics(Protocol):
    """What is known of a collection as a whole."""

    #: Number of texts, and of tokens in all of them.
    texts: int
    tokens: int

    def containing(self, tokens: Iterable[str]) -> Mapping[str, int]:
        """In how many texts each of the tokens occurs, at least of these."""
        ...


class Codes(defaultdict[str, int]):
    """Strings numbered as they are met."""

    def __init__(self) -> None:
        super().__init__(count().__next__)


class Lexicon:
    """Postings of texts that are added one after the other; each is known by its position. Not thread-safe.

    Document frequencies are exact: over all texts that count (:meth:`count_only`); or, where these are only
    some of a larger collection, as ``statistics`` has them.
    """

    def __init__(self, statistics: Statistics | None = None, texts: Iterable[str] = ()) -> None:
        self._statistics = statistics
        self._codes = Codes()
        self._tokens: list[str] = []
        #: Whether each token, by its code, is one of small talk.
        self._fillers = array("b")
        self._postings = Postings()
        #: The distinct tokens of each text in their order, to find texts like it.
        self._texts = Ragged()
        self._lengths = array("i")
        #: How many of them are telling: no greeting, no "ok".
        self._contents = array("i")
        #: The pairs of Chinese characters that a character stands in.
        self._pairs: dict[str, list[str]] = {}
        #: Which texts count, and how many; None for all.
        self._counted: NDArray[np.bool_] | None = None
        self._number: int | None = None
        self.extend(texts)

    def __len__(self) -> int:
        return len(self._lengths)

    @property
    def bytes_used(self) -> int:
        """About what it takes, with some for each token's string."""
        arrays = self._postings.nbytes + self._texts.nbytes + 8 * len(self._lengths)
        return arrays + 250 * len(self._tokens) + 12 * self._cache_size

    def extend(self, texts: Iterable[str]) -> None:
        """Append texts, each as its tokens with spaces between."""
        split = list(map(str.split, texts))
        lengths = np.fromiter(map(len, split), np.int32, len(split))
        all_codes = np.fromiter(
            map(self._codes.__getitem__, chain.from_iterable(split)), np.int32, int(lengths.sum())
        )
        self._learn()
        all_rows = np.repeat(np.arange(len(split)), lengths)
        first, counts = _first_of_each(all_rows * len(self._codes) + all_codes)
        codes, rows = all_codes[first], all_rows[first]
        self._texts.extend(codes, np.bincount(rows, minlength=len(split)).astype(np.int32))
        self._postings.extend(codes, (rows + len(self._lengths)).astype(np.int32), counts)
        telling = np.array(self._fillers, dtype=bool)[codes] == 0
        self._contents.frombytes(np.bincount(rows[telling], minlength=len(split)).astype(np.int32).tobytes())
        self._lengths.frombytes(lengths.tobytes())
        self._forget()

    def count_only(self, counted: NDArray[np.bool_] | None) -> None:
        """Which of the texts say how rare a token is, and how long texts are; None for all."""
        if self._counted is not None or counted is not None:
            self._counted, self._number = counted, None if counted is None else int(np.count_nonzero(counted))
            self._forget()

    def bm25(self, tokens: Iterable[str] | Mapping[str, float]) -> Floats:
        """The score of each text for the tokens of a question, shape ``(len(self),)``; 0 where none occurs.

        A question's repetitions do not count: they are how people talk, not what they look for. A mapping
        says what each token counts.
        """
        scores = np.zeros(len(self._lengths), dtype=np.float64)
        for token, (rows, values, _) in (self._scored(tokens) if self._lengths else {}).items():
            scores[rows] += tokens[token] * values if isinstance(tokens, Mapping) else values
        return scores

    def information(self, tokens: Iterable[str] | Mapping[str, float]) -> float:
        """The sum of the tokens' rarities: about the BM25 of a text of average length that says them all.

        A mapping says what each token counts.
        """
        weights = dict(tokens) if isinstance(tokens, Mapping) else dict.fromkeys(tokens, 1.0)
        scored = self._scored(weights)
        return sum(
            weight * (scored[token][2] if token in scored else self._rarity(0))
            for token, weight in weights.items()
        )

    def text(self, position: int) -> tuple[str, ...]:
        return tuple(map(self._tokens.__getitem__, self._texts[position].tolist()))

    def contents(self) -> Ints:
        """How many telling tokens each text has."""
        return np.array(self._contents, dtype=np.int32)

    def similarity(self, position: int) -> Floats:
        """BM25 of each text for the tokens of one of them."""
        return self.bm25(self.text(position))

    def _forget(self) -> None:
        """Of the tokens' scores, and how much a text's length counts."""
        self._cache: dict[str, Scored] = {}
        self._cache_size = 0
        self._discounts: Floats | None = None

    def _learn(self) -> None:
        """Note what has to be known of tokens that were met for the first time."""
        new = len(self._codes) - len(self._tokens)
        if not new:
            return
        latest = list(islice(reversed(self._codes), new))[::-1]
        self._tokens += latest
        self._fillers.extend(fillers(latest))
        if "".join(latest).isascii():
            return
        for token in latest:
            if not token.isascii() and is_pair(token):
                for character in dict.fromkeys(token):
                    self._pairs.setdefault(character, []).append(token)

    def _scored(self, tokens: Iterable[str]) -> dict[str, Scored]:
        """Each token that occurs, with its part of the scores. A single Chinese character occurs in pairs."""
        distinct = dict.fromkeys(tokens)
        if self._cache_size > max(KEPT, KEPT_TIMES * len(self._lengths)):
            self._forget()
        new = {
            token: where
            for token in distinct
            if token not in self._cache and (where := self._where(token)) is not None
        }
        containing = {} if self._statistics is None else self._statistics.containing(list(new))
        for token, (positions, counts) in new.items():
            among = positions if self._counted is None else np.flatnonzero(self._counted[positions])
            rarity = self._rarity(max(containing.get(token, 0), among.size))
            discount = self._length_discounts()[positions]
            self._cache[token] = positions, rarity * counts * (K1 + 1) / (counts + discount), rarity
            self._cache_size += positions.size
        return {token: self._cache[token] for token in distinct if token in self._cache}

    def _where(self, token: str) -> tuple[Ints, Floats] | None:
        parts = [
            self._postings.of(self._codes[part])
            for part in (token, *self._pairs.get(token, ()))
            if part in self._codes
        ]
        if not parts:
            return None
        if len(parts) == 1:
            return parts[0][0], parts[0][1].astype(np.float64)
        positions = np.unique(np.concatenate([rows for rows, _ in parts]))
        return positions, np.ones(positions.size)  # of two pairs that share it, it is the same one

    def _rarity(self, containing: int) -> float:
        texts = len(self._lengths) if self._number is None else self._number
        if self._statistics is not None:
            texts = max(self._statistics.texts, containing)
        return float(np.log1p((texts - containing + 0.5) / (containing + 0.5)))

    def _length_discounts(self) -> NDArray[np.float64]:
        if self._discounts is None:
            lengths = np.array(self._lengths, dtype=np.int32).astype(np.float64)
            statistics = self._statistics
            counted = lengths if self._counted is None else lengths[self._counted]
            average = counted.mean() if statistics is None else statistics.tokens / max(statistics.texts, 1)
            self._discounts = K1 * (1 - B + B * lengths / max(average, 1.0))
        return self._discounts


def _first_of_each(keys: NDArray[np.int64]) -> tuple[Order, Ints]:
    """Where each different key is first, in the order of their places, and how often it occurs."""
    _, first, counts = np.unique(keys, return_index=True, return_counts=True)
    order = np.argsort(first)
    return first[order], counts[order].astype(np.int32)
