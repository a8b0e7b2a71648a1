"""A learned judgement: multinomial logistic regression on dense features and n-grams of a text, calibrated;
its features and its file.

A text is read in lower case and full-width forms as half-width ones; numbers are one token each, so that no
head learns a price or a date by heart. The file of weights is refused with one sentence if it is broken or of
another model.
"""

from __future__ import annotations

import json
import math
import re
import zipfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jiyi.errors import HeadsError
from jiyi.text.words import CJK
from jiyi.text.words import normalise as normalised

#: A probability that nothing reaches.
NEVER = 1.01

Probabilities = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Inputs:
    """What a head reads, one row a judgement: ``dense`` is ``(n, d)``, and each row has its n-grams."""

    dense: Features
    grams: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Head:
    """Scaling and calibration are folded into the weights when it is trained.

    Attributes:
        classes: names of the ``c`` classes.
        dense: ``(d, c)``.
        words: ``(v, c)``, a row for each n-gram of the vocabulary.
        bias: ``(c,)``.
        vocabulary: n-gram → its row of ``words``.
        idf: ``(v,)``.
        thresholds: label → precision → the least probability from which on the label was right as often, of
            writers that the head was not trained on; in the order in which they were wanted, the first is the
            default.
    """

    classes: tuple[str, ...]
    dense: Features
    words: Features
    bias: Features
    vocabulary: Mapping[str, int]
    idf: Features
    thresholds: Mapping[str, Mapping[float, float]]

    def probabilities(self, rows: Inputs) -> Probabilities:
        """``(n, c)``; each row adds up to 1."""
        logits = (rows.dense @ self.dense + self.bias).astype(np.float64)
        for row, row_grams in enumerate(rows.grams):
            numbers, weights = values(row_grams, self.vocabulary, self.idf)
            logits[row] += weights @ self.words[numbers]
        return softmax(logits)

    def least(self, label: str, precision: float = 0.0) -> float:
        """From where on a label is right as often as ``precision`` (0: the default); above 1 if never."""
        thresholds = self.thresholds[label]
        if not precision:
            return next(iter(thresholds.values()))
        return min((least for reached, least in thresholds.items() if reached >= precision), default=NEVER)


def softmax(logits: Probabilities) -> Probabilities:
    shifted = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(shifted / shifted.sum(axis=1, keepdims=True), dtype=np.float64)


Features = NDArray[np.float32]
#: A text's n-grams: their numbers in a vocabulary, and their values.
Grams = tuple[NDArray[np.intp], Features]

#: Characters of a text that are read: a message says who wrote it at its beginning.
READ_CHARS = 2_000
#: Words of a language written with spaces, and characters of Chinese, that are looked at together.
LONGEST = 3

_TOKEN = re.compile(
    rf"(?P<latin>[a-z]+(?:'[a-z]+)?)|(?P<cjk>[{CJK}])|(?P<number>\d+(?:[.,:]\d+)*)|(?P<mark>[?!.,…\"“”~:;])"
)
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
    return normalised(text[:READ_CHARS]).replace("’", "'")


def is_readable(text: str) -> bool:
    """Whether a text has letters, mostly of English or Chinese: the heads say nothing about any other."""
    read = text[:READ_CHARS]
    letters = len(_LETTER.findall(read))
    return letters > 0 and len(_OTHER_LETTERS.findall(read)) < MOSTLY * letters


def grams(text: str) -> list[str]:
    """One to three words or characters in a row of one script; punctuation is a token itself."""
    result: list[str] = []
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
        result += [separator.join(run[start:]) for start in range(len(run))]
    return result


def values(text_grams: Iterable[str], vocabulary: Mapping[str, int], idf: Features) -> Grams:
    """The n-grams that the vocabulary knows, by ``(1 + ln tf) · idf``, of length 1."""
    counted = Counter(number for gram in text_grams if (number := vocabulary.get(gram)) is not None)
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


#: Goes up when the features change: weights of another version would read them wrongly.
VERSION = 1
#: What the embedder calls itself whose vectors the heads were trained on.
EMBEDDER = "multilingual-e5-small-q4"
#: Values of one layer's vector.
WIDTH = 384
FILE = files(__package__).joinpath("weights.npz")
_META, _CENTRE = "meta", "centre"
#: Arrays of a head, all float.
_ARRAYS = ("dense", "words", "bias", "idf")


@dataclass(frozen=True, slots=True)
class HeadWeights:
    """Heads by name, the mean vector ``(2 * WIDTH,)``; ``about``: version, embedder, command, figures."""

    heads: Mapping[str, Head]
    centre: Features
    about: Mapping[str, Any]


def save(path: Path, weights: HeadWeights) -> None:
    """The same bytes for the same weights."""
    heads = {
        name: {
            "classes": head.classes,
            "thresholds": {label: list(levels.items()) for label, levels in head.thresholds.items()},
            "vocabulary": list(head.vocabulary),
        }
        for name, head in weights.heads.items()
    }
    meta = {"version": VERSION, "embedder": EMBEDDER, **weights.about, "heads": heads}
    arrays: dict[str, Any] = {
        f"{name}.{part}": getattr(head, part).astype(np.float16)
        for name, head in weights.heads.items()
        for part in _ARRAYS
    }
    arrays[_CENTRE] = weights.centre.astype(np.float32)
    text = json.dumps(meta, ensure_ascii=False, sort_keys=True)
    arrays[_META] = np.frombuffer(text.encode(), dtype=np.uint8)
    with path.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **arrays)


def load(file: Traversable | Path = FILE) -> HeadWeights:
    """The weights of a file. Raises :class:`HeadsError` with one sentence."""
    try:
        with file.open("rb") as opened, np.load(opened, allow_pickle=False) as arrays:
            meta = json.loads(arrays[_META].tobytes())
            _check(meta, file)
            heads = {name: _head(name, head_meta, arrays) for name, head_meta in meta["heads"].items()}
            centre = _finite(arrays[_CENTRE]).reshape(2 * WIDTH)
    except HeadsError:
        raise
    except (OSError, ValueError, KeyError, TypeError, AttributeError, EOFError, zipfile.BadZipFile) as error:
        raise HeadsError(
            f"the heads' weights in {file} cannot be read ({type(error).__name__}): install jiyi again, or"
            " run python -m tools.train"
        ) from None
    return HeadWeights(heads, centre, {name: value for name, value in meta.items() if name != "heads"})


def _check(meta: Any, file: Traversable | Path) -> None:
    for name, expected in (("version", VERSION), ("embedder", EMBEDDER)):
        if meta[name] != expected:
            raise HeadsError(
                f"the heads' weights in {file} are of {name} {meta[name]!r}, and this is {expected!r}: run"
                " python -m tools.train"
            )


def _head(name: str, meta: Any, arrays: Mapping[str, Any]) -> Head:
    dense, words, bias, idf = (_finite(arrays[f"{name}.{part}"]) for part in _ARRAYS)
    classes = tuple(meta["classes"])
    vocabulary = {gram: number for number, gram in enumerate(meta["vocabulary"])}
    shapes = (dense.shape[1:], words.shape, idf.shape)
    if shapes != (bias.shape, (len(vocabulary), len(classes)), (len(vocabulary),)):
        raise ValueError(name)
    thresholds = {label: dict(levels) for label, levels in meta["thresholds"].items()}
    return Head(classes, dense, words, bias, vocabulary, idf, thresholds)


def _finite(values: Any) -> Features:
    array: Features = values.astype(np.float32)
    if not np.isfinite(array).all():
        raise ValueError("not finite")
    return array
