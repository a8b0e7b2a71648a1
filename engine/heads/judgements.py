"""The judgements that are learned, and what each of them reads.

``facts``, ``kinds``, ``attributes`` read a message and what was said before it; ``satisfaction`` the messages of an exchange, the
newest last; ``requests`` one message; ``changes`` an older and a newer statement. Texts in another language than English and
Chinese, and texts without a letter, are not judged.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from engine.heads.model import MIN_NORM, WIDTH, Features, Rows, Weights, grams, is_readable, normalise, plain, stacked
from jiyi.text.words import CJK

#: ``(n, 2 * WIDTH)`` for ``n`` texts: vectors of the last layer and of the one in between (``LocalEmbedder.layers``).
Embed = Callable[[Sequence[str]], Features]
#: Vectors by text.
Vectors = Mapping[str, Features]
#: Two texts that are judged together: what was said before and the message, or an older statement and a newer one.
Pair = tuple[str, str]

FACTS, KINDS, ATTRIBUTES, SATISFACTION, REQUESTS, CHANGES = "facts", "kinds", "attributes", "satisfaction", "requests", "changes"
#: Labels of ``facts``.
LASTING, PASSING = "lasting", "passing"
#: Labels of ``changes`` by which the older statement holds no longer.
RETIRING = ("replaces", "ends")
#: Name of the threshold of a head whose labels are all acted on alike.
ANY = "any"
#: Texts that are embedded by one call.
TOGETHER = 64

_NUMBER = re.compile(r"\d+")
_CHINESE = re.compile(f"[{CJK}]")
#: Shared n-grams beyond this number say no more.
MOST_SHARED = 10
#: Letters of a Latin n-gram that say what a text is about.
TELLING_LETTERS = 4


@dataclass(frozen=True, slots=True)
class Judged:
    """The likeliest label, its probability, and those of all labels."""

    label: str
    probability: float
    probabilities: Mapping[str, float]


class Heads:
    """Judges texts. Thread-safe, if ``embed`` is.

    ``change_precision`` is how often it should be right that a statement takes back an older one; 0: as the head was trained for.
    """

    def __init__(self, weights: Weights, embed: Embed, change_precision: float = 0.0) -> None:
        self._weights, self._embed = weights, embed
        self.change_precision = change_precision

    def with_weights(self, weights: Weights) -> Heads:
        """Others that judge vectors of the same embedder."""
        return Heads(weights, self._embed, self.change_precision)

    def facts(self, texts: Sequence[Pair]) -> list[Judged | None]:
        """Whether each message (what was said before it, its text) is worth knowing later: ``lasting`` or ``passing``."""
        return self._in_context(FACTS, texts)

    def kinds(self, texts: Sequence[Pair]) -> list[Judged | None]:
        """Of lasting messages: ``preference``, ``knowledge`` or ``experience``."""
        return self._in_context(KINDS, texts)

    def attributes(self, texts: Sequence[Pair]) -> list[Judged | None]:
        """Of lasting messages: what it is about, such as ``home`` or ``allergy``."""
        return self._in_context(ATTRIBUTES, texts)

    def satisfaction(self, exchanges: Sequence[Sequence[str]]) -> list[Judged | None]:
        """``positive``, ``negative`` or ``neutral``, by the newest message of each exchange; the one before it helps."""
        return self._in_context(SATISFACTION, [(texts[-2] if len(texts) > 1 else "", texts[-1]) for texts in exchanges])

    def requests(self, texts: Sequence[str]) -> list[Judged | None]:
        """What each message asks of the agent's appointments: ``new``, ``cancel``, ``move``, ``list`` or ``none``."""
        return self._in_context(REQUESTS, [("", text) for text in texts])

    def changes(self, pairs: Sequence[Pair]) -> list[Judged | None]:
        """What each newer statement does to the older: ``replaces``, ``ends``, ``adds``, ``repeats`` or ``unrelated``."""
        return self._judge(CHANGES, pairs, [is_readable(older) and is_readable(newer) for older, newer in pairs], compared)

    def likeness(self, text: str, others: Sequence[str]) -> list[float]:
        """How alike the meaning of a text is to that of each of others: the cosine of centred vectors, -1 to 1."""
        vectors = self._vectors([(text, other) for other in others])
        nothing = np.zeros(2 * WIDTH, dtype=np.float32)
        mine = vectors.get(text, nothing)[:WIDTH]
        return [float(vectors.get(other, nothing)[:WIDTH] @ mine) for other in others]

    def least(self, name: str, label: str, precision: float = 0.0) -> float:
        """The least probability at which acting on a label is right as often as this; by default as often as it was trained for."""
        return self._weights.heads[name].least(label, precision)

    def _in_context(self, name: str, texts: Sequence[Pair]) -> list[Judged | None]:
        return self._judge(name, texts, [is_readable(text) for _, text in texts], in_context)

    def _judge(
        self, name: str, pairs: Sequence[Pair], readable: Sequence[bool], read: Callable[[Sequence[Pair], Vectors], Rows]
    ) -> list[Judged | None]:
        result: list[Judged | None] = [None] * len(pairs)
        places = [place for place, is_one in enumerate(readable) if is_one]
        if places:
            chosen = [pairs[place] for place in places]
            head = self._weights.heads[name]
            for place, row in zip(places, head.probabilities(read(chosen, self._vectors(chosen))), strict=True):
                best = int(row.argmax())
                result[place] = Judged(head.classes[best], float(row[best]), dict(zip(head.classes, row.tolist(), strict=True)))
        return result

    def _vectors(self, pairs: Sequence[Pair]) -> dict[str, Features]:
        texts = list(dict.fromkeys(text for pair in pairs for text in pair if text.strip()))
        vectors: dict[str, Features] = {}
        for start in range(0, len(texts), TOGETHER):
            part = texts[start : start + TOGETHER]
            vectors.update(zip(part, centred(self._embed(part), self._weights.centre), strict=True))
        return vectors


def centred(vectors: Features, centre: Features) -> Features:
    """``(n, 2 * WIDTH)`` vectors less the mean of all texts, each half of length 1 again: the model's vectors are crowded into a corner."""
    halves = (vectors - centre).reshape(len(vectors), -1, WIDTH)
    unit: Features = (halves / np.maximum(np.linalg.norm(halves, axis=2, keepdims=True), MIN_NORM)).reshape(len(vectors), -1)
    return unit.astype(np.float32)


def in_context(texts: Sequence[Pair], vectors: Vectors) -> Rows:
    """A message after what was said before it: both vectors (zeros for nothing), the form of the message, its words."""
    nothing = np.zeros(2 * WIDTH, dtype=np.float32)
    dense = np.hstack(
        [
            np.array([vectors[text] for _, text in texts]),
            np.array([vectors.get(before, nothing) for before, _ in texts]),
            stacked([[*plain(text), float(bool(before)), float(before.rstrip()[-1:] in ("?", "？"))] for before, text in texts]),
        ]
    )
    return Rows(dense, [grams(text) for _, text in texts])


def compared(pairs: Sequence[Pair], vectors: Vectors) -> Rows:
    """An older and a newer statement: vectors of the last layer, how they differ, what they share, the words of the newer one.

    Of the last layer alone, because that is the one that is stored with every memory.
    """
    older = np.array([vectors[older_text][:WIDTH] for older_text, _ in pairs])
    newer = np.array([vectors[newer_text][:WIDTH] for _, newer_text in pairs])
    cosine = (older * newer).sum(axis=1, keepdims=True)
    form = stacked([[*shared(older_text, newer_text), *plain(newer_text), *plain(older_text)] for older_text, newer_text in pairs])
    return Rows(
        np.hstack([older, newer, np.abs(older - newer), older * newer, cosine, cosine**2, form]),
        [grams(newer_text) for _, newer_text in pairs],
    )


def shared(older: str, newer: str) -> list[float]:
    """What two texts have in common, in words and numbers."""
    mine, theirs = _telling(older), _telling(newer)
    common = len(mine & theirs)
    numbers, others = set(_NUMBER.findall(normalise(older))), set(_NUMBER.findall(normalise(newer)))
    return [
        common / (1 + len(mine)),
        common / (1 + len(theirs)),
        min(common, MOST_SHARED) / MOST_SHARED,
        float(bool(numbers & others)),
        float(bool(numbers) and bool(others) and not numbers & others),
        float((_CHINESE.search(older) is None) != (_CHINESE.search(newer) is None)),
    ]


def _telling(text: str) -> set[str]:
    return {gram for gram in grams(text) if len(gram) >= TELLING_LETTERS or not gram.isascii()}
