"""What somebody asks not to have kept: "don't save this", 别存.

What such a message says stays out of the memory, but for what it marks as to be kept ("what you can save: …"). Told by a closed list of
wordings (``kept.txt``): a wish that is not understood has to be told again, and one that is imagined would lose what was said.
"""

from __future__ import annotations

import re

from jiyi.text.clauses import sentences
from jiyi.text.sections import unions
from jiyi.text.words import Language, language_of

#: Stands in a turn for what is not kept of it.
NOT_KEPT: dict[Language, str] = {"en": "[not kept, as asked]", "zh": "［按要求不保存］"}
#: Characters of a message that are looked at for an order.
READ_CHARS = 4_000
#: In a message of more characters only the first and the last so many say what is to become of it.
MOST_CHARS, EDGE_CHARS = 1_000, 200

_CUES = unions("jiyi.text", "kept.txt")
_PRIVATE, _AGREES, _KEEPS = (_CUES[name] for name in ("private", "agrees", "keeps"))
_ASKS_HOW = re.compile(
    r"\b(?:how (?:do|can|to)|why do|did you|do you)\b[^.!?]{0,30}\Z|(?:怎么|如何|为什么|有没有)[^。！？]{0,12}\Z", re.IGNORECASE
)


def to_keep(text: str, *, assistant: bool = False) -> str:
    """The message without what is asked not to be kept.

    That is all of it but for sentences after one that says what may be kept. An assistant that says it will not keep something
    (``assistant``) has just repeated it.
    """
    read = text
    # Within a document such words are for its own readers; what is asked of us stands before or behind it.
    asked = text if len(text) <= MOST_CHARS else f"{text[:EDGE_CHARS]}\n{text[-EDGE_CHARS:]}"
    asks = (_AGREES if assistant else _PRIVATE).search(asked)
    if asks is None or asks_how(asked, asks):
        return text
    kept: list[str] = []
    keeps, left_out = False, False
    for begin, end in sentences(read):
        start, sentence = begin, read[begin:end]
        if (_AGREES if assistant else _PRIVATE).search(sentence) and not _KEEPS.search(sentence):
            keeps = False
        marked = _KEEPS.search(sentence)
        if marked is not None:
            keeps = True
            start = begin + marked.start()
        if keeps:
            kept.append(read[start:end] + _mark_after(read, end))
        else:
            left_out = True
    if not left_out:
        return text
    return " ".join([NOT_KEPT[language_of(text)], *(part.strip() for part in kept)])


def asks_how(text: str, match: re.Match[str]) -> bool:
    """Whether words stand in a question about something else ("how do I forget my ex?", 怎么才能忘掉他)."""
    return _ASKS_HOW.search(text[: match.start()]) is not None


def _mark_after(text: str, place: int) -> str:
    mark = text[place : place + 1]
    return mark if mark in ".!?。！？；;" else ""
