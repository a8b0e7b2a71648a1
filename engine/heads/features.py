"""What a head sees of a text beside its vector: the words it uses, and a few plain facts about its form.

Pure. A text is read in lower case and full-width forms as half-width ones; numbers are one token each, so that no head learns a
price or a date by heart.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from jiyi.text.words import CJK

Features = NDArray[np.float32]
#: A text's n-grams: their numbers in a vocabulary, and their values.
Grams = tuple[NDArray[np.intp], Features]

#: Characters of a text that are read: what a message says of its writer stands at its beginning, and the vector sees no more either.
READ_CHARS = 2_000
#: Words of a language written with spaces, and characters of Chinese, that are looked at together.
LONGEST = 3

_TOKEN = re.compile(rf"(?P<latin>[a-z]+(?:'[a-z]+)?)|(?P<cjk>[{CJK}])|(?P<number>\d+(?:[.,:]\d+)*)|(?P<mark>[?!.,…\"“”~:;])")
_SELF = re.compile(r"\b(?:i|i'm|im|i've|ive|i'd|i'll|my|mine|we|our|us|me)\b|[我咱俺]")
_SECOND = re.compile(r"\b(?:you|your|u|ur)\b|[你您]")
_THIRD = re.compile(r"\b(?:he|she|his|her|they|their|it|its)\b|[他她它]")
_QUOTED = re.compile(r"[\"“「『]")
_EMOJI = re.compile("[\U0001f300-\U0001faff☀-➿]")
#: Letters that are neither Latin nor Chinese: another language than the heads were trained on.
_OTHER_LETTERS = re.compile(rf"[^\W\d_a-zA-ZÀ-ɏ{CJK}]")
_LETTER = re.compile(r"[^\W\d_]")
#: Share of a text's letters from which on it is in another language.
MOSTLY = 0.5
#: What a length is at least, where it is divided by.
MIN_NORM = 1e-9
#: Bytes of UTF-8 that count as one in the feature of length, and the most that counts.
LENGTH_UNIT, LENGTH_MOST = 200.0, 2.0


def normalise(text: str) -> str:
    """Lower case, half-width, straight apostrophes, cut to :data:`READ_CHARS`."""
    return unicodedata.normalize("NFKC", text[:READ_CHARS]).lower().replace("’", "'")


def is_readable(text: str) -> bool:
    """Whether a text has letters, mostly of English or Chinese: the heads say nothing about any other."""
    read = text[:READ_CHARS]
    letters = len(_LETTER.findall(read))
    return letters > 0 and len(_OTHER_LETTERS.findall(read)) < MOSTLY * letters


def grams(text: str) -> list[str]:
    """One to three words or characters in a row; a run ends where the script changes, not at punctuation, which is a token itself."""
    found: list[str] = []
    run: list[str] = []
    kind = ""
    for match in _TOKEN.finditer(normalise(text)):
        is_chinese = match.lastgroup == "cjk"
        token = "0" if match.lastgroup == "number" else match.group()
        now = "cjk" if is_chinese else "latin"
        if now != kind:
            run, kind = [], now
        run = [*run[-LONGEST + 1 :], token]
        separator = "" if is_chinese else " "
        found += [separator.join(run[start:]) for start in range(len(run))]
    return found


def values(found: Iterable[str], vocabulary: Mapping[str, int], idf: Features) -> Grams:
    """The n-grams that the vocabulary knows, by ``(1 + ln tf) · idf``, of length 1."""
    counted = Counter(number for gram in found if (number := vocabulary.get(gram)) is not None)
    numbers = np.fromiter(counted, dtype=np.intp, count=len(counted))
    weighted = np.array([1 + math.log(count) for count in counted.values()], dtype=np.float32) * idf[numbers]
    return numbers, weighted / max(float(np.linalg.norm(weighted)), MIN_NORM)


def plain(text: str) -> list[float]:
    """Facts about a text's form, each between 0 and 2."""
    read = normalise(text)
    ends = read.rstrip()[-1:]
    return [
        float(ends == "?"),
        float("?" in read),
        float(ends == "!"),
        min(len(read.encode()) / LENGTH_UNIT, LENGTH_MOST),
        float(any(char.isdigit() for char in read)),
        float(_SELF.search(read) is not None),
        float(_SECOND.search(read) is not None),
        float(_THIRD.search(read) is not None),
        float(_QUOTED.search(read) is not None),
        float(_EMOJI.search(read) is not None),
        float(re.search(f"[{CJK}]", read) is not None),
    ]


def stacked(rows: Sequence[Sequence[float]]) -> Features:
    return np.asarray(rows, dtype=np.float32)
