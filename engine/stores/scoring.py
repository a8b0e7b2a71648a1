"""How well items fit a question: their cosine, and how like the texts are word by word.

``0.7·cosine + 0.3·min(1, 0.4·Jaccard + 0.3·LCS + 0.2·keyword + 0.1·length)``, on :mod:`jiyi.text.tokens`, which know Chinese,
and a word that is rare among the candidates counts more. The original's tokens are what stands between white space, all alike.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from math import log

from rapidfuzz.distance import LCSseq

from jiyi.stores.config.types import Fidelity
from jiyi.text.tokens import tokens
from jiyi.text.words import normalise

#: Weights of cosine and likeness, and of the parts of likeness.
COSINE_WEIGHT, LIKENESS_WEIGHT = 0.7, 0.3
JACCARD, LCS, KEYWORD, LENGTH = 0.4, 0.3, 0.2, 0.1
#: Candidates that are scored, for each item asked for.
CANDIDATES = 3
#: Tokens of the question shorter than this are no keywords of the original's.
KEYWORD_CHARS = 2


@dataclass(frozen=True, slots=True)
class Likeness:
    """How like two texts are, each part between 0 and 1."""

    jaccard: float
    lcs: float
    keyword: float
    length: float

    @property
    def total(self) -> float:
        return min(1.0, JACCARD * self.jaccard + LCS * self.lcs + KEYWORD * self.keyword + LENGTH * self.length)

    @property
    def parts(self) -> dict[str, float]:
        return asdict(self)


def likenesses(question: str, texts: Sequence[str], fidelity: Fidelity = "jiyi") -> list[Likeness]:
    """How like each of the candidates' texts is to the question."""
    asked, asked_plain = _tokens(question, fidelity), _plain(question, fidelity)
    has = [_tokens(text, fidelity) for text in texts]
    rarity = _Rarity(has if fidelity == "jiyi" else ())
    keywords = asked if fidelity == "jiyi" else frozenset(one for one in asked if len(one) >= KEYWORD_CHARS)
    found = []
    for text, theirs in zip(texts, has, strict=True):
        plain = _plain(text, fidelity)
        found.append(
            Likeness(
                jaccard=rarity.share(asked & theirs, asked | theirs),
                lcs=LCSseq.normalized_similarity(asked_plain, plain) if asked_plain and plain else 0.0,
                keyword=rarity.share(keywords & theirs, keywords),
                length=_length_factor(len(asked_plain), len(plain)),
            )
        )
    return found


def combined(cosine: float, like: Likeness) -> float:
    """The score of an item with a vector."""
    return COSINE_WEIGHT * cosine + LIKENESS_WEIGHT * like.total


def without_vector(like: Likeness) -> float:
    """The score of an item that has no vector yet: the share of the question's words that it has stands for the cosine."""
    return COSINE_WEIGHT * like.keyword + LIKENESS_WEIGHT * like.total


class _Rarity:
    """What a word counts: the less, the more of the texts have it; without texts 1."""

    def __init__(self, texts: Sequence[Collection[str]]) -> None:
        self._texts = len(texts)
        self._with = Counter(word for words in texts for word in words)

    def share(self, part: Collection[str], whole: Collection[str]) -> float:
        total = sum(map(self._of, whole))
        return sum(map(self._of, part)) / total if total else 0.0

    def _of(self, word: str) -> float:
        return log((self._texts + 1) / (self._with[word] + 0.5)) if self._texts else 1.0


def _length_factor(asked_chars: int, chars: int) -> float:
    """1 for texts of half to twice the question's length, less beyond."""
    if not asked_chars or not chars:
        return 0.0
    ratio = chars / asked_chars
    if ratio < 0.5:
        return ratio / 0.5
    return 1.0 if ratio <= 2.0 else max(0.1, 2.0 / ratio)


def _tokens(text: str, fidelity: Fidelity) -> frozenset[str]:
    return frozenset(text.lower().split() if fidelity == "devall" else tokens(text))


def _plain(text: str, fidelity: Fidelity) -> str:
    return text.lower() if fidelity == "devall" else normalise(text)
