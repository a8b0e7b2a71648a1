"""Whether a user is content, from their last words, in Chinese and English (ZC-88, ZC-89, K-35).

A message is read clause by clause: the longest word counts, a negation turns it round, questions, conditions and requests
say nothing, and what follows "but", or is so "now", counts more than what was before.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from jiyi.growth.patterns import union
from jiyi.text.words import normalise

#: Messages of the user that are looked at, the newest first.
LAST_MESSAGES = 3
#: Characters of a message that are read: who is content says so at once.
READ_CHARS = 2_000
#: Characters before a word in which a negation is looked for.
NEGATION_CHARS = 40


class Satisfaction(StrEnum):
    POSITIVE = "positive"
    NEGATIVE = "negative"
    NEUTRAL = "neutral"


@dataclass(frozen=True, slots=True)
class _Word:
    start: int
    end: int
    verdict: Satisfaction


_POSITIVE, _NEGATIVE, _NONE = (union("satisfaction/words.txt", name) for name in ("positive", "negative", "none"))
_WORDS = ((_NONE, Satisfaction.NEUTRAL), (_NEGATIVE, Satisfaction.NEGATIVE), (_POSITIVE, Satisfaction.POSITIVE))


def _cue(name: str) -> re.Pattern[str]:
    return union("satisfaction/cues.txt", name)


_NEGATION, _ASKED_NOT_TO, _OPEN, _REQUEST = (_cue(name) for name in ("negation", "asked_not_to", "open", "request"))
_QUESTION, _WHY, _TAG, _BY_THE_WAY = (_cue(name) for name in ("question", "why", "tag", "by_the_way"))
_MAIN, _CONTRAST, _ASIDE, _ELSEWHERE, _REPORTED = (_cue(name) for name in ("main", "contrast", "aside", "elsewhere", "reported"))
_SENTENCE = re.compile(r"[^。.!！?？;；\n]+[。.!！?？;；\n]?")
_CLAUSE = re.compile(r"[,，、:：~～…—]+|(?=但是|但(?!愿)|不过|可是|可惜|然而)|\b(?=but\b|however\b|although\b|though\b)|\bthan\b.{0,200}")


def satisfaction(messages: Sequence[str]) -> Satisfaction | None:
    """How content the user is who said this, oldest first; None if nothing was said.

    Of the last three messages the newest with a verdict decides; thanks alone are none.
    """
    if not messages:
        return None
    verdicts = (verdict_of(message) for message in reversed(messages[-LAST_MESSAGES:]))
    return next((verdict for verdict in verdicts if verdict is not None), Satisfaction.NEUTRAL)


def verdict_of(message: str) -> Satisfaction | None:
    """What one message says of what was done; None if nothing."""
    text = normalise(message[:READ_CHARS]).replace("’", "'").replace("`", "'")
    found = [said for sentence in _SENTENCE.findall(text) for said in _of_sentence(sentence)]
    for weight in (2, 1, 0):
        of_weight = [verdict for verdict, its in found if its == weight]
        if of_weight:
            return of_weight[-1]
    return None


def _of_sentence(sentence: str) -> Iterator[tuple[Satisfaction, int]]:
    """The verdict of each clause that has one, and how much it counts: 2, 1, or 0."""
    asks = _QUESTION.search(sentence) is not None and _TAG.search(sentence) is None
    complains = _WHY.search(sentence) is not None
    clauses = [clause for clause in _CLAUSE.split(sentence) if clause]
    for place, clause in enumerate(clauses):
        if _OPEN.search(clause) or _ELSEWHERE.search(clause) or (place + 1 < len(clauses) and _BY_THE_WAY.search(clause)):
            continue
        verdict = _of_clause(clause)
        if verdict is None or (_REQUEST if verdict is Satisfaction.POSITIVE else _REPORTED).search(clause):
            continue
        if (asks or complains) and place == len(clauses) - 1 and not (complains and verdict is Satisfaction.NEGATIVE):
            continue
        main = _MAIN.search(clause) or _CONTRAST.search(clause)
        yield verdict, 2 if main else 0 if _ASIDE.search(clause) else 1


def _of_clause(clause: str) -> Satisfaction | None:
    """The last word's verdict, turned round by what stands before it."""
    verdict, since = None, 0
    for word in _words(clause):
        before = clause[max(since, word.start - NEGATION_CHARS) : word.start]
        if word.verdict is Satisfaction.NEUTRAL or _ASKED_NOT_TO.search(before):
            continue
        verdict = _turned(word.verdict) if _NEGATION.search(before) else word.verdict
        since = word.end
    return verdict


def _words(clause: str) -> list[_Word]:
    """Words with a verdict, from left to right; of those that overlap the longest."""
    found = [_Word(*match.span(), verdict) for pattern, verdict in _WORDS for match in pattern.finditer(clause)]
    kept: list[_Word] = []
    for word in sorted(found, key=lambda word: (word.start, word.start - word.end)):
        if kept and word.start < kept[-1].end:
            if word.end - word.start > kept[-1].end - kept[-1].start:
                kept[-1] = word
        else:
            kept.append(word)
    return kept


def _turned(verdict: Satisfaction) -> Satisfaction:
    return Satisfaction.NEGATIVE if verdict is Satisfaction.POSITIVE else Satisfaction.POSITIVE
