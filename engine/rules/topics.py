"""What many statements are about.

A topic is a word, or two words that mostly stand together, which is in several statements but not in nearly
all of them. Topics are taken one after the other; statements that one has covered count less for the next.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from engine.rules.triples import VERBS, tagged_words, word_list
from engine.text.keywords import words_of
from jiyi.text.words import ENGLISH_STOP_WORDS, is_filler, normalise, stem

#: What a statement still counts for a further topic once one has covered it.
COVERED = 0.25
#: What is in one statement only connects nothing, and is a topic where nothing else is left.
ALONE = 0.3
#: Verbs, adverbs and words that go with anything make poor topics: "what is known about walks?"
NO_NOUN = 0.3
#: Two words are one phrase when they stand together in this share of the statements that have either.
TOGETHER = 0.6

_POSSESSIVE = re.compile(r"['’]s\Z")
#: Parts of speech of Chinese words that are no nouns: verbs, adverbs, adjectives, pronouns, numbers, times, …
_NO_NOUNS = ("v", "d", "a", "r", "m", "t", "z", "p", "c", "f")


@dataclass(frozen=True, slots=True)
class Topic:
    """What some statements share; ``members`` are their numbers."""

    name: str
    members: tuple[int, ...]


@dataclass(slots=True)
class _Words:
    """The words of all statements, under their stems."""

    statements: Sequence[str]
    #: The stems of each statement, in order.
    stems: list[list[str]] = field(default_factory=list)
    #: The numbers of the statements that have a word.
    members: defaultdict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    #: How a word is written, normalised.
    spelled: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))

    def __post_init__(self) -> None:
        for number, statement in enumerate(self.statements):
            words = [_POSSESSIVE.sub("", word) for word in words_of(statement)]
            self.stems.append([stem(word) for word in words])
            for key, word in zip(self.stems[-1], words, strict=True):
                self.spelled[key][word] += 1
            for key in dict.fromkeys(self.stems[-1]):
                self.members[key].append(number)

    def spelling(self, key: str) -> str:
        return self.spelled[key].most_common(1)[0][0]

    def phrase(self, key: str) -> tuple[str, set[str]]:
        """The word with the neighbour that it mostly stands beside, as they are written; and their stems."""
        numbers = self.members[key]
        neighbours: Counter[tuple[str, str]] = Counter()
        for number in numbers:
            pairs = dict.fromkeys(pairwise(self.stems[number]))  # in order: the first of equals counts
            neighbours.update(pair for pair in pairs if key in pair and pair[0] != pair[1])
        for pair, _ in neighbours.most_common(1):
            words = [self.spelling(part) for part in pair]
            joint = (" " if words[0].isascii() or words[1].isascii() else "").join(words)
            # Neighbours as keywords may have other words between them in the text.
            together = sum(joint in normalise(self.statements[number]) for number in numbers)
            if together >= 2 and together >= TOGETHER * max(len(self.members[part]) for part in pair):
                return self._as_written(joint, numbers), set(pair)
        return self._as_written(self.spelling(key), numbers), {key}

    def _as_written(self, phrase: str, numbers: list[int]) -> str:
        """With the capitals that it mostly has: Maria Lopez."""
        text = "\n".join(self.statements[number] for number in numbers)
        spellings = Counter(re.findall(re.escape(phrase), text, flags=re.IGNORECASE))
        return spellings.most_common(1)[0][0] if spellings else phrase


def topics(statements: Sequence[str], count: int, agent_id: str, *, least_members: int = 1) -> list[Topic]:
    """At most ``count`` topics of so many statements each, the most salient first; the agent is none."""
    words = _Words(statements)
    own = {stem(word) for word in words_of(agent_id)} | _surnames(agent_id, statements)
    candidates = {
        key: numbers
        for key, numbers in words.members.items()
        if len(numbers) >= least_members and key not in own and not key.isdigit()
    }
    # Function words, small talk and verbs are no topics, as long as there is anything else.
    fit = {key: numbers for key, numbers in candidates.items() if _is_topic(words.spelling(key))}
    candidates = fit or candidates
    fitness = {key: fitness_of(words.spelling(key)) for key in candidates}
    weights = [1.0] * len(statements)
    chosen: list[Topic] = []
    while candidates and len(chosen) < count:
        best = max(candidates, key=lambda key: fitness[key] * _salience(candidates[key], weights))
        numbers = candidates[best]
        name, used = words.phrase(best)
        for key in used:
            candidates.pop(key, None)
        for number in numbers:
            weights[number] *= COVERED
        chosen.append(Topic(name, tuple(numbers)))
    return chosen


def _salience(numbers: list[int], weights: list[float]) -> float:
    """How many statements have it, times how rare it is: what all have in common distinguishes nothing."""
    rarity = math.log((len(weights) + 1) / len(numbers))
    return sum(weights[number] for number in numbers) * rarity * (ALONE if len(numbers) == 1 else 1.0)


def _is_topic(word: str) -> bool:
    idle = len(word) == 1 or word in ENGLISH_STOP_WORDS or is_filler(stem(word))
    return not idle and fitness_of(word) == 1.0


def fitness_of(word: str) -> float:
    """1 for a word that can name a topic, ``NO_NOUN`` for verbs and other words that hardly can."""
    if any(cue.label == "dull" for cue in word_list("cues").find(word)):
        return NO_NOUN
    if word.isascii():
        no_noun = word in VERBS or word.endswith(("ing", "ly")) or (word.endswith("ed") and len(word) > 4)
    else:
        no_noun = any(tag.startswith(_NO_NOUNS) and tag != "vn" for _, tag in tagged_words(word))
    return NO_NOUN if no_noun else 1.0


def _surnames(agent_id: str, statements: Sequence[str]) -> set[str]:
    """Names that directly follow the agent's: they are the agent's too."""
    name = re.escape(agent_id.strip())
    names = re.findall(rf"\b{name} ([A-Z][\w'-]+)", "\n".join(statements)) if name else []
    return {stem(normalise(word)) for word in names}
