"""How poignant a memory is, from its words: what weighs most in it decides.

=====  ==============================================================
1 – 2  small talk; routine: sleeping, brushing teeth, meals, coffee, tidying up
3 – 4  ordinary; 4 with people, learning, numbers, or as a thought
5 – 6  plans, preferences, decisions, money, trouble, feelings; 6 what somebody would be hurt by if it were forgotten:
       diet, health, fears, family, where they live, promises (allergies weigh 7)
7 – 8  accidents, illness, jobs lost and won, moving, secrets
9 – 10 deaths, births, weddings, divorces
=====  ==============================================================

A strong word that is denied weighs less, emphasis adds one; so does a second and third strong word.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

from engine.providers.questions import Poignancy
from jiyi.text.words import CJK, beginning, is_filler, normalise, stem, telling

#: "haha nice", 嗯嗯: nobody will ask for it.
SMALL_TALK = 1
ORDINARY = 3
#: From here on a word outweighs the routine that it stands in: "breakfast" does not make a wedding less.
STRONG = 5
#: As many different words of this weight add one to the strongest.
GRAVE, GRAVE_COUNT = 6, 3
#: What a denial takes away: "nobody was hurt" still matters more than breakfast.
DENIED = 2
#: A denial counts when it ends at most so many characters before the word.
REACH_CHINESE, REACH_ENGLISH = 2, 16
MOST, LEAST = 10, 1

_SENTENCE_END = re.compile(r"[.!?;,。！？；，]")


@dataclass(frozen=True, slots=True)
class Reading:
    """A poignancy, with what made it."""

    poignancy: int
    reasons: list[str]


def weigh(question: Poignancy) -> Reading:
    """The poignancy of a text, and why."""
    text = beginning(question.text)
    cues = list(word_list("cues").find(text))
    if says_nothing(text, [cue for cue in cues if cue.label == "small_talk"]):
        return Reading(SMALL_TALK, ["small talk"])
    denials = sorted(cue.end for cue in cues if cue.label == "negation")
    weighed: dict[str, int] = {}
    for word in word_list("weights").find(text):
        if word.label != "0":
            level = int(word.label)
            if level >= STRONG and _denied(text, word, denials):
                level = max(ORDINARY, level - DENIED)
            weighed[word.phrase] = max(level, weighed.get(word.phrase, 0))
    level = _level(weighed, detailed=any(char.isdigit() for char in text), thought=question.kind == "thought")
    reasons = [f"{phrase}: {weight}" for phrase, weight in sorted(weighed.items(), key=lambda item: -item[1])]
    if level >= STRONG:
        if "!" in text or any(cue.label == "emphasis" for cue in cues):
            level += 1
            reasons.append("emphasis: +1")
        if sum(weight >= GRAVE for weight in weighed.values()) >= GRAVE_COUNT:
            level += 1
            reasons.append("several strong words: +1")
    return Reading(max(LEAST, min(MOST, level)), reasons)


def says_nothing(text: str, small_talk: list[PhraseMatch]) -> bool:
    """Whether a text is small talk only: greetings, thanks and the like, and nothing that tells."""
    rest = list(text)
    for phrase in small_talk:
        rest[phrase.start : phrase.end] = " " * (phrase.end - phrase.start)
    return all(is_filler(token) for token in telling("".join(rest)))


def _level(weighed: dict[str, int], *, detailed: bool, thought: bool) -> int:
    heaviest, lightest = max(weighed.values(), default=ORDINARY), min(weighed.values(), default=ORDINARY)
    if heaviest >= STRONG:
        return heaviest
    if lightest < ORDINARY:  # routine, unless something else is there too
        return lightest if heaviest < ORDINARY else ORDINARY
    return ORDINARY + 1 if heaviest > ORDINARY or detailed or thought else ORDINARY


def _denied(text: str, word: PhraseMatch, denials: list[int]) -> bool:
    """``denials``: where they end, in order."""
    reach = REACH_ENGLISH if text[word.start].isascii() else REACH_CHINESE
    near = denials[bisect_left(denials, word.start - reach) : bisect_right(denials, word.start)]
    return any(not _SENTENCE_END.search(text, end, word.start) for end in near)


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
