"""By which words pain is told, and that something helped."""

from __future__ import annotations

from engine.conversations import cues as cue
from jiyi.protocol.growth.pain_types import Category, Severity
from jiyi.text.sections import union
from jiyi.text.tokens import telling

_CUES = "pains/cues.txt"
#: Characters of a sentence that are looked at.
READ_CHARS = 1_000

#: Characters of a word that says what something is about.
LEAST_CHARS = 2

ANNOYED = union("engine.growth", _CUES, "annoyed")
AGAIN = union("engine.growth", _CUES, "again")
CHEER = union("engine.growth", _CUES, "cheer")
UNREAL = union("engine.growth", _CUES, "unreal")
HELPED = union("engine.growth", _CUES, "helped")
NOT_HELPED = union("engine.growth", _CUES, "not_helped")
#: In the order in which they are tried: the first that is told decides.
_CATEGORIES: tuple[Category, ...] = ("slow", "tedious", "unclear", "fault", "wrong")


def hurts(sentence: str) -> bool:
    """Whether a sentence of the user tells of trouble that is: not imagined, not over, not a mere question."""
    said = CHEER.sub(" ", sentence[:READ_CHARS])
    if not (cue.TROUBLE.search(said) or ANNOYED.search(said)):
        return False
    if cue.IMAGINED.search(said) or UNREAL.search(said) or cue.SOLVED.search(said):
        return False
    return AGAIN.search(said) is not None or cue.QUESTION_MARK.search(said) is None


def helped(sentence: str) -> bool:
    """Whether a sentence of the user says that what was advised works."""
    said = sentence[:READ_CHARS]
    return HELPED.search(said) is not None and NOT_HELPED.search(said) is None


def category_of(sentence: str) -> Category:
    """What kind of trouble it is."""
    said = sentence[:READ_CHARS]
    return next((name for name in _CATEGORIES if union("engine.growth", _CUES, name).search(said)), "other")


def severity_of(sentence: str) -> Severity:
    """How grave it is, by its own words; medium where they say nothing."""
    said = sentence[:READ_CHARS]
    if union("engine.growth", _CUES, "grave").search(said):
        return "high"
    return "low" if union("engine.growth", _CUES, "mild").search(said) else "medium"


def topic_of(sentence: str) -> str:
    """The sentence without the words that only say that it hurts: two troubles are not alike for that."""
    bare = sentence[:READ_CHARS]
    for pattern in (cue.TROUBLE, ANNOYED, AGAIN):
        bare = pattern.sub(" ", bare)
    return bare if any(len(token) >= LEAST_CHARS for token in telling(bare)) else sentence
