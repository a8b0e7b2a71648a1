"""Orders to forget: "forget what I told you about my mondays", 把昨晚说的全删掉, and which sentences of earlier messages they are about.

Told by a closed list of wordings (``forgetting.txt``); what is meant is told by words and topics in common.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from engine.conversations.attributes import subject_words
from engine.text.statements import is_of, topics_of
from jiyi.text.clauses import sentences
from jiyi.text.kept import READ_CHARS, asks_how
from jiyi.text.sections import unions
from jiyi.text.words import is_filler, telling

#: What names no thing, but the time at which it was said: "what I told you last night".
_LATELY = re.compile(
    r"\b(?:just now|last night|yesterday|a (?:minute|moment) ago|earlier today)\b|昨晚|昨天|刚才|刚刚|上次|上回", re.IGNORECASE
)
_CUES = unions("engine.conversations", "forgetting.txt")
#: What every order has: most messages are told by it.
_HINT = re.compile(
    "forget|delete|erase|wipe|remove|scrub|drop|get rid|take out|take off|want|忘|删|清|抹|没讲|没说|没提|没有[讲说提]", re.IGNORECASE
)
_FORGETS, _NO_ORDER = _CUES["forgets"], _CUES["no_order"]


@dataclass(frozen=True, slots=True)
class Order:
    """An order to forget: the span of the sentence that gives it, and what it says of what is to be forgotten (may be empty)."""

    start: int
    end: int
    about: str


def forgets(text: str) -> list[Order]:
    """The orders to forget in a message."""
    read = text[:READ_CHARS]
    if _HINT.search(read) is None or _NO_ORDER.search(read):
        return []
    orders = []
    for start, end in sentences(read):
        sentence = read[start:end]
        match = _FORGETS.search(sentence)
        if match is None or asks_how(sentence, match):
            continue
        groups = {name: value for name, value in match.groupdict().items() if value}
        about = next(iter(groups.values()), "")
        orders.append(Order(start, end, about.strip(" ,，、的:：")))
    return orders


#: Places in what is to be forgotten that name nothing.
_NOTHING = re.compile(
    r"\W{0,9}(?:that|this|it|everything|all(?: of (?:it|that))?|what|i|said|told|you|about|the|thing|on|any|record|not|mine|to|tell"
    r"|[我你跟和对的说讲过那些事刚才上次昨晚前面之前半夜都全部]{1,20})\W{0,9}",
    re.IGNORECASE,
)


def to_forget(text: str, order: Order, earlier: Sequence[str]) -> list[tuple[int, int, int]]:
    """Which sentences of earlier messages an order is about: ``(number of the message, start, end)``; none where that is not clear.

    Args:
        text: the message with the order; empty if it stands for itself, and can only mean what it names.
        order: the order.
        earlier: the user's earlier messages, oldest first.
    """
    staying = subject_words(text[order.end :])
    spans = [
        (number, start, end)
        for number, message in enumerate(earlier)
        for start, end in sentences(message)
        if staying.isdisjoint(subject_words(message[start:end]))  # "the dinner stands"
    ]
    if not spans:
        return []
    named = re.split(r"[,，;；]", order.about, maxsplit=1)[0]
    about = named if _names(named) else text[: order.start]
    if not _names(about):  # "forget that": what was said last
        return [span for span in spans if text and span[0] == len(earlier) - 1]
    words, topics = {word for word in telling(about) if not is_filler(word)}, topics_of(about)
    texts = [earlier[number][start:end] for number, start, end in spans]
    scores = [_score(words, topics, other, exact=about == named) for other in texts]
    best = max(scores)
    if best:  # by words and topics in common, never by similarity of vectors: erasing cannot be undone
        return [span for span, score in zip(spans, scores, strict=True) if score == best]
    return [span for span in spans if text and span[0] == len(earlier) - 1] if _LATELY.search(order.about) else []


def _score(words: Collection[str], topics: Collection[str], sentence: str, *, exact: bool) -> int:
    """How many words and topics a sentence shares with what is to be forgotten.

    ``exact``: where that is named, most of its words have to be in the sentence, or of a topic of it: "my tax number" is no phone number.
    """
    common, shared = set(words) & set(telling(sentence)), topics_of(sentence) & set(topics)
    missing = [word for word in set(words) - common if not any(is_of(word, topic) for topic in shared)]
    return 0 if exact and 2 * len(missing) >= len(words) else len(common) + len(shared)


def _names(about: str) -> bool:
    return any(not is_filler(word) for word in telling(_NOTHING.sub(" ", about)))
