"""The word lists beside this module, and finding their phrases in a text.

A list has lines ``label: phrase, phrase``. English phrases are compared by the stems of their words, Chinese ones
as they stand; at each place the longest phrase counts, and what it covers counts for nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

from jiyi.text.tokens import stem
from jiyi.text.words import CJK, normalise

#: Marks around words.
TRIM = " \t\"'“”‘’「」『』()（）[]【】,，、。.!?！？:：;；…-–—*#"
_CJK_RUN = re.compile(rf"[{CJK}]+")
_WORD = re.compile(rf"[^\W\d_{CJK}]+(?:['’][^\W\d_{CJK}]+)?")
_POSSESSIVE = re.compile(r"['’]s\Z")


@dataclass(frozen=True, slots=True)
class PhraseMatch:
    """A phrase of a list in a text; ``start`` and ``end`` are places in the normalised text."""

    label: str
    phrase: str
    start: int
    end: int


class WordList:
    """Labelled phrases of one language."""

    def __init__(self, source: str) -> None:
        self._chinese: dict[str, str] = {}
        self._stemmed: dict[tuple[str, ...], str] = {}
        for line in source.splitlines():
            label, colon, phrases = line.partition(":")
            if line.startswith("#") or not colon:
                continue
            for phrase in map(str.strip, normalise(phrases).split(",")):
                if _CJK_RUN.search(phrase):
                    self._chinese[phrase] = label
                else:
                    self._stemmed[tuple(stem(word) for word in phrase.split())] = label
        longest_first = sorted(map(re.escape, self._chinese), key=len, reverse=True)
        self._pattern = re.compile("|".join(longest_first)) if longest_first else None
        self._longest = max(map(len, self._stemmed), default=0)

    def find(self, text: str) -> Iterator[PhraseMatch]:
        """The list's phrases in a normalised text."""
        if self._pattern is not None:
            for match in self._pattern.finditer(text):
                yield PhraseMatch(self._chinese[match.group()], match.group(), match.start(), match.end())
        if self._stemmed:
            yield from self._find_words(list(_WORD.finditer(text)))

    def _find_words(self, words: list[re.Match[str]]) -> Iterator[PhraseMatch]:
        stems = [stem(_POSSESSIVE.sub("", match.group()).replace("’", "'")) for match in words]
        place = 0
        while place < len(stems):
            for length in range(min(self._longest, len(stems) - place), 0, -1):
                label = self._stemmed.get(tuple(stems[place : place + length]))
                if label is not None:
                    last = words[place + length - 1]
                    yield PhraseMatch(label, " ".join(stems[place : place + length]), words[place].start(), last.end())
                    place += length
                    break
            else:
                place += 1


@lru_cache
def word_list(name: str) -> WordList:
    """The lists ``<name>.en.txt`` and ``<name>.zh.txt`` as one: many texts mix both languages."""
    return WordList("\n".join(read(f"{name}.{language}.txt") for language in ("en", "zh")))


def read(file: str) -> str:
    """A file that lies beside this module."""
    return files(__package__).joinpath(file).read_text(encoding="utf-8")


def one_line(text: str) -> str:
    """A text on one line, without characters that cannot be seen."""
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())


def quote(text: str, room: int) -> str:
    """A text on one line of at most ``room`` characters."""
    line = one_line(text)
    return line if len(line) <= room else f"{line[: room - 1].rstrip()}…"
