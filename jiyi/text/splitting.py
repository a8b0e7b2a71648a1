"""Long texts in pieces that can each be embedded and read by themselves.

A piece ends at the coarsest end in the second half of its room: a paragraph's, a line's, a sentence's, a
clause's, a word's; only a text without any is cut between characters. Each piece begins with the end of the
one before. Lengths are characters.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from jiyi.text.words import CJK

#: Characters of a piece, and of what it repeats of the one before.
SIZE, OVERLAP = 500, 50
#: Smaller pieces say nothing, larger ones are longer than embedding models read.
LEAST_SIZE, MOST_SIZE = 20, 20_000
#: Characters that are looked at to keep a letter together with its accents, or a flag with its halves.
LONGEST_CLUSTER = 16

#: What a piece may end with, coarsest first: the end of each match is a place to end.
LEVELS = tuple(
    re.compile(pattern)
    for pattern in (
        r"(?=\n[^\S\n]{0,10}\n)",
        r"(?=\n)",
        # Latin marks end a sentence only before white space: 3.5, a.b@example.org and /find?c=d go on.
        # A run of marks is looked at once, from its beginning, however long it is.
        rf"[。！？；…]+[”’」』）]*|(?<![.!?;])[.!?;]++[”’)\"']*+(?=\s)|(?<![!?;])[!?;]++(?=[{CJK}])",
        r"[，、：]|[,:](?=\s)",
        rf"(?=\s)|(?<=[{CJK}])(?=[^\W{CJK}])|(?<=[^\W{CJK}])(?=[{CJK}])",
    )
)
#: Characters after a piece that show whether something ends with it.
LOOK_AHEAD = 12
#: Where a repeated end may begin: at a sentence or finer; a whole paragraph is rarely so short.
_SENTENCE = 2
_NO_SPACE = re.compile(r"\S")
_JOINERS = frozenset("\u200d\ufe0e\ufe0f")


@dataclass(frozen=True, slots=True)
class TextPiece:
    """``text`` is the original's ``[start:end]``, without white space around it."""

    text: str
    start: int
    end: int


def split(text: str, size: int = SIZE, overlap: int = OVERLAP) -> list[TextPiece]:
    """The pieces of a text, in order; none of a blank one.

    Each has at most ``size`` characters, repeats at most ``overlap`` of the one before, and says something
    new.

    Raises:
        ValueError: ``size`` is out of bounds, or ``overlap`` is not below half of it.
    """
    if not LEAST_SIZE <= size <= MOST_SIZE:
        raise ValueError(f"size: {size:,} is not between {LEAST_SIZE} and {MOST_SIZE:,} characters")
    if not 0 <= overlap < size // 2:
        raise ValueError(f"overlap: {overlap:,} is not between 0 and half of the size, {size // 2:,}")
    pieces: list[TextPiece] = []
    covered = 0
    for start, end in _windows(text, size, overlap):
        part = text[start:end]
        first = start + len(part) - len(part.lstrip())
        last = start + len(part.rstrip())
        if last > max(first, covered):  # else it is white space, or only what was said before
            pieces.append(TextPiece(text[first:last], first, last))
            covered = last
    return pieces


def sentences(text: str) -> list[str]:
    """The sentences of a text, in order, without white space around them."""
    ends = sorted({match.end() for level in LEVELS[: _SENTENCE + 1] for match in level.finditer(text)})
    parts = (text[start:end].strip() for start, end in pairwise([0, *ends, len(text)]))
    return [part for part in parts if part]


def _windows(text: str, size: int, overlap: int) -> Iterator[tuple[int, int]]:
    start, last = _after_space(text, 0), len(text.rstrip())
    while start < last:
        end = _end(text, start, size, last)
        yield start, end
        if end == last:
            return
        start = _start(text, end, overlap)


def _end(text: str, start: int, size: int, last: int) -> int:
    """Where the piece from ``start`` ends: never in its first half."""
    most, least = start + size, start + size // 2
    if most >= last:
        return last
    for level in LEVELS:
        ends = [
            match.end()
            for match in level.finditer(text, start, most + LOOK_AHEAD)
            if least <= match.end() <= most
        ]
        if ends:
            return ends[-1]
    return _between_letters(text, most, least)


def _start(text: str, end: int, overlap: int) -> int:
    """Where the next piece begins: as far before ``end`` as the overlap allows, at the start of something."""
    least = end - overlap
    for level in LEVELS[_SENTENCE:] if overlap else ():
        matches = level.finditer(text, max(least - 1, 0), end + LOOK_AHEAD)
        starts = [place for match in matches if least <= (place := _after_space(text, match.end())) < end]
        if starts:
            return starts[0]
    return _after_space(text, end if _joined(text, least) else least)


def _after_space(text: str, place: int) -> int:
    space = _NO_SPACE.search(text, place)
    return space.start() if space else len(text)


def _between_letters(text: str, place: int, least: int) -> int:
    """``place``, or a little before it where it would part what is one letter to a reader."""
    for earlier in range(place, max(least, place - LONGEST_CLUSTER) - 1, -1):
        if not _joined(text, earlier):
            return earlier
    return place


def _joined(text: str, place: int) -> bool:
    """Whether the characters before and after a place are one letter."""
    if not 0 < place < len(text):
        return False
    before, after = text[place - 1], text[place]
    return (
        after in _JOINERS
        or before == "\u200d"
        or unicodedata.combining(after) != 0
        or "\U0001f3fb" <= after <= "\U0001f3ff"
        or (before, after) == ("\r", "\n")
    )
