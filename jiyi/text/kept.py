"""What somebody asks not to have kept: "don't save this", 别存.

Known by a closed list of wordings (``kept.txt``), in clients too. A request in other words is found later
(``engine.conversations.standing``).
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

#: Where in a message: the first character, and the one behind the last.
Span = tuple[int, int]

_CUES = unions(__package__, "kept.txt")
_PRIVATE, _AGREES, _KEEPS, _YET = (_CUES[name] for name in ("private", "agrees", "keeps", "yet"))
_ASKS_HOW = re.compile(
    r"\b(?:how (?:do|can|to)|why do|did you|do you)\b[^.!?]{0,30}\Z|(?:怎么|如何|为什么|有没有)[^。"
    r"！？]{0,12}\Z",
    re.IGNORECASE,
)


def to_keep(text: str, *, assistant: bool = False) -> str:
    """The message without what the user asks not to keep: all but sentences that say what may be.

    An ``assistant`` that says it will not keep something has just repeated it.
    """
    # Within a document such words are for its own readers; the request to us stands before or behind it.
    edges = text if len(text) <= MOST_CHARS else f"{text[:EDGE_CHARS]}\n{text[-EDGE_CHARS:]}"
    pattern = _AGREES if assistant else _PRIVATE
    asks = pattern.search(edges)
    if asks is None or asks_how(edges, asks):
        return text
    spans = may_be_kept(text, pattern)
    if sum(end - start for start, end in spans) == sum(end - start for start, end in sentences(text)):
        return text
    return " ".join(
        [NOT_KEPT[language_of(text)], *(text[start:end] + _mark_after(text, end) for start, end in spans)]
    )


def may_be_kept(text: str, pattern: re.Pattern[str] = _PRIVATE) -> list[Span]:
    """What may be kept of a message that asks not to be: up to a "but not", or the next ``pattern``."""
    spans: list[Span] = []
    keeps = False
    for begin, end in sentences(text):
        start, sentence = begin, text[begin:end]
        marked = _KEEPS.search(sentence)
        if marked is not None:
            keeps, start = True, begin + marked.start()
        elif pattern.search(sentence):
            keeps = False
        if not keeps:
            continue
        yet = _YET.search(text, start, end)
        keeps = yet is None
        spans.append((start, end if yet is None else yet.start()))
    return spans


def asks_how(text: str, match: re.Match[str]) -> bool:
    """Whether words stand in a question about something else ("how do I forget my ex?", 怎么才能忘掉他)."""
    return _ASKS_HOW.search(text[: match.start()]) is not None


def _mark_after(text: str, place: int) -> str:
    mark = text[place : place + 1]
    return mark if mark in ".!?。！？；;" else ""
