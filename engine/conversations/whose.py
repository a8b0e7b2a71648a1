"""Parts of a message that are not what its writer says of themselves.

Quoted and forwarded texts, samples and test data, verses, parts that somebody plays, irony that is taken
back: they stand in the turn, and are found there, but nothing is taken from them for a fact, and no prompt
shows them as one. Known by marks, line ends and closed lists of wordings (``whose.txt``).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import timedelta

from engine.conversations import attributes as cue
from jiyi.protocol.conversations import Message
from jiyi.text.clauses import sentences, united
from jiyi.text.sections import unions
from jiyi.text.words import CJK_CHARACTER

#: Characters of a message that are looked at.
READ_CHARS = 4_000
#: A shorter quotation is a name, a title or a word that is meant otherwise.
QUOTED_WORDS, QUOTED_CHARS = 5, 9

_CUES = unions(__package__, "whose.txt")
_HANDED, _SAID, _SAMPLE, _SAMPLE_ITEMS, _IRONY, _PLAYS, _PLAY_ENDS, _OWN = (
    _CUES[name] for name in ("handed", "said", "sample", "items", "irony", "plays", "play_ends", "own")
)
_QUOTES = re.compile(
    r"“[^”]{1,2000}”|「[^」]{1,2000}」|『[^』]{1,2000}』|\"[^\"]{1,2000}\""
    r"|(?<![\w’'])['‘][^\n]{1,2000}?['’](?![\w])"
)
_WORD = re.compile(r"[\w'’-]+")
#: Messages of the user, and time, that a game goes on for at most, unless it is ended.
PLAYED_MESSAGES, PLAYED_TIME = 12, timedelta(hours=1)

Span = tuple[int, int]


def others_words(text: str) -> list[Span]:
    """The spans of a message that are somebody else's words, or nobody's, in order; they do not overlap."""
    read = text[:READ_CHARS]
    return united([*_quoted(read), *_handed(read), *_samples(read), *_ironic(read)])


def played_turns(messages: Sequence[Message]) -> set[int]:
    """Numbers of messages in which the user plays somebody, and of the answers to them."""
    turns: set[int] = set()
    remaining, began = 0, None
    for number, message in enumerate(messages):
        text = message.text[:READ_CHARS]
        if message.role == "user":
            too_late = began is not None and message.at is not None and message.at - began > PLAYED_TIME
            if remaining and (too_late or _PLAY_ENDS.search(text) or cue.ROLE_PLAY_END.search(text)):
                remaining = 0
            elif _PLAYS.search(text):
                remaining, began = PLAYED_MESSAGES, message.at
        if remaining:
            turns.add(number)
            remaining -= message.role == "user"
    return turns


def _quoted(text: str) -> list[Span]:
    """Quotations in which somebody speaks of themselves; what is said *to* the writer concerns them."""
    return [
        match.span()
        for match in _QUOTES.finditer(text)
        if _OWN.search(match.group())
        and _is_long(match.group())
        and _WORD.search(text[: match.start()] + text[match.end() :])
    ]


def _is_long(text: str) -> bool:
    chinese = len(CJK_CHARACTER.findall(text))
    return chinese >= QUOTED_CHARS or len(_WORD.findall(text)) - chinese >= QUOTED_WORDS


def _handed(text: str) -> list[Span]:
    """What follows "translate this:", "here's what Sam wrote:", to an empty line or the end."""
    spans = []
    for pattern in (_HANDED, _SAID):
        match = pattern.search(text)
        if match is not None:
            end = text.find("\n\n", match.end())
            end = len(text) if end < 0 or not text[match.end() : end].strip() else end
            handed = text[match.end() : end]
            if _is_long(handed) or _OWN.search(handed):
                spans.append((match.end(), end))
    return spans


def _samples(text: str) -> list[Span]:
    """Of a message that asks for made-up data, or says that it is some, the sentence with it."""
    spans = []
    for match in _SAMPLE.finditer(text):
        end = _sentence_end(text, match.start())
        items = _SAMPLE_ITEMS.search(text, match.end())
        begin = match.end() if items is None or items.start() > end + 2 else items.end()
        if items is not None and items.end() >= end:
            end = _sentence_end(text, items.end() + 1)
        if end > begin:
            spans.append((begin, end))
    return spans


def _sentence_end(text: str, place: int) -> int:
    return next((end for start, end in sentences(text) if start <= place < end), len(text))


def _ironic(text: str) -> list[Span]:
    """What stands before "just kidding", 反话."""
    match = _IRONY.search(text)
    if match is None or not text[: match.start()].strip():
        return []
    earlier = [start for start, _ in sentences(text) if start < match.start()]
    return [(earlier[0] if len(earlier) <= 2 else earlier[-1], match.start())]
