"""Orders to forget: "forget what I told you about my mondays", 把昨晚说的全删掉, and which sentences of earlier messages they are about.

An order is known by a list of wordings (``forgetting.txt``), or by the head of ``keeping``; what is meant by words and topics in common.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from engine.conversations.attributes import attribute_of, subject_words
from engine.text.statements import is_of, relations_in, topics_of
from jiyi.text.clauses import sentences
from jiyi.text.kept import READ_CHARS, asks_how
from jiyi.text.sections import unions
from jiyi.text.words import CJK, is_filler, telling

#: What names no thing, but the time at which it was said: "what I told you last night".
_LATELY = re.compile(
    r"\b(?:just now|last night|yesterday|a (?:minute|moment) ago|earlier today)\b|昨晚|昨天|刚才|刚刚|上次|上回", re.IGNORECASE
)
#: The message before: "what I just said", 刚说的那句.
_JUST_SAID = re.compile(
    r"\b(?:just (?:now|said|told|wrote|sent)|that last (?:one|bit|thing)|the last thing)\b|刚(?:才|刚)?[^，。]{0,2}(?:说|讲|发)|撤回",
    re.IGNORECASE,
)
#: That all that fits is meant.
_ALL = re.compile(r"\b(?:all|every\w*|anything|whatever|stuff|both|any|business)\b|所有|全|统统|通通|一切|都", re.IGNORECASE)
#: Between the clauses of an order, and between the things that it names.
_CLAUSES, _AND = re.compile(r"[,，;；]"), re.compile(r"、|\band\b|\bor\b|还有|以及|和", re.IGNORECASE)
#: That something is not meant: "the e-mail can stay".
_STAYS = re.compile(r"\b(?:stays?|keep|kept|remains?|leave|fine|still)\b|留|不用|不必|别动|照旧|保留|无所谓|没事", re.IGNORECASE)
_CUES = unions("engine.conversations", "forgetting.txt")
#: What every order has: most messages are told by it.
_HINT = re.compile(
    "forget|delete|erase|wipe|remove|scrub|drop|get rid|take out|take off|want|忘|删|清|抹|没讲|没说|没提|没有[讲说提]", re.IGNORECASE
)
_CHINESE = re.compile(f"[{CJK}]")
#: The clause of an order that says what is to happen.
_VERB = re.compile(
    r"\b(?:forget|un\w{0,3}(?:remember|know|learn)|delet\w*|eras\w*|wip\w*|remov\w*|scrub\w*|purg\w*|drop|bin|clear|strike|discard|chuck"
    r"|throw|lose|scratch|rid|take|gone|go|vanish|disappear)\b|忘|删|清|抹|擦|销毁|移除|[去划消拿倒撤]掉|作废|[划抹撤]了|撤回|没[有]?[讲说提听]",
    re.IGNORECASE,
)
#: By names of attributes what orders call them.
_ATTRIBUTES = {tuple(name.removeprefix("of ").split(", ")): cue for name, cue in _CUES.items() if name.startswith("of ")}
_FORGETS, _NO_ORDER, _ORDER_WORDS = _CUES["forgets"], _CUES["no_order"], _CUES["order_words"]


#: What many things have.
GENERIC = frozenset({"number", "address", "name", "code", "date", "day", "time", "detail", "号码", "地址", "名字", "时间", "信息"})
#: A sentence of an earlier message: the message's number, the first character and the one behind the last.
Fit = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Order:
    """An order to forget: the span of the sentence that gives it, and its words."""

    start: int
    end: int
    text: str

    @property
    def of_all(self) -> bool:
        """Whether all that fits is meant, and not the one thing."""
        return _ALL.search(self.text) is not None


def forgets(text: str) -> list[Order]:
    """The orders to forget in a message that are given in known wordings."""
    read = text[:READ_CHARS]
    if _HINT.search(read) is None or _NO_ORDER.search(read):
        return []
    orders = []
    for start, end in sentences(read):
        sentence = read[start:end]
        match = _FORGETS.search(sentence)
        if match is not None and not asks_how(sentence, match):
            orders.append(Order(start, end, sentence))
    return orders


def may_order(text: str) -> bool:
    """Whether a message can be an order to forget at all: not what is about reminders, or says not to forget."""
    return _NO_ORDER.search(text[:READ_CHARS]) is None


def to_forget(text: str, order: Order, earlier: Sequence[str]) -> list[list[Fit]]:
    """Which sentences of earlier messages an order is about, for each thing that it names; none where that is not clear.

    Args:
        text: the message with the order; empty if it stands for itself, and can only mean what it names.
        order: the order.
        earlier: the user's earlier messages, oldest first.
    """
    named, ordered, stays = _parts(order.text)
    staying = subject_words(stays) | subject_words(text[order.end :])
    spans = [
        (number, start, end)
        for number, message in enumerate(earlier)
        for start, end in sentences(message)
        if staying.isdisjoint(subject_words(message[start:end]))  # "the dinner stands"
    ]
    before = text[: order.start]
    last = [span for span in spans if text and span[0] == len(earlier) - 1]
    if not named and (_JUST_SAID.search(ordered) or not _words(_subject(before))):  # "forget that": what was said last
        return [last] if last and len(_CHINESE.findall(_subject(ordered))) <= 1 else []
    texts = [earlier[number][start:end] for number, start, end in spans]
    fitting = [[spans[place] for place in _fitting(about, texts, exact=bool(named))] for about in named or [before]]
    found = list(filter(None, fitting))  # by words and topics in common, never by similarity of vectors: erasing cannot be undone
    return found or ([last] if last and _LATELY.search(order.text) else [])


def _parts(order: str) -> tuple[list[str], str, str]:
    """What an order names ("my phone number and the hint"), its words up to the clause that says what is to happen, and what is to stay.

    What is named stands in that clause, or else before it.
    """
    clauses = _CLAUSES.split(order)
    stop = next((place for place, clause in enumerate(clauses) if _VERB.search(clause)), len(clauses) - 1)
    named: list[str] = []
    for clause in reversed(clauses[: stop + 1]):
        named = named or [thing for thing in _AND.split(clause) if _words(_subject(thing))]
    return named, " ".join(clauses[: stop + 1]), " ".join(filter(_STAYS.search, clauses[stop + 1 :]))


def _subject(order: str) -> str:
    """What an order is about: without the words of such orders."""
    return " ".join(_ORDER_WORDS.sub(" ", order).split())


def _fitting(about: str, texts: Sequence[str], *, exact: bool) -> list[int]:
    """The places of the sentences that say what is to be forgotten, or share the most words and topics with it.

    ``exact``: where that is named, half of its words have to be in the sentence, or of a topic of it, and not only what many things
    have: "my tax number" is no phone number.
    """
    attributes = next((names for names, cue in _ATTRIBUTES.items() if exact and cue.search(about)), ())
    whose = relations_in(about) or {"user"}
    said = [place for place, text in enumerate(texts) if attributes and _says(text, attributes, whose)]
    if said:
        return said
    words, topics = _words(_subject(about)), topics_of(about)
    scores = []
    for text in texts:
        common, shared = _shared(words, text), topics_of(text) & topics
        missing = [word for word in words - common if not any(is_of(word, topic) for topic in shared)]
        names = 2 * len(missing) < len(words) or (2 * len(missing) == len(words) and not common <= GENERIC)
        scores.append(len(common) + len(shared) if names or not exact else 0)
    best = max(scores, default=0)
    return [place for place, score in enumerate(scores) if best and score == best]


def _words(about: str) -> frozenset[str]:
    """The words of what is to be forgotten, and the relations of people in it."""
    words = {word for word in subject_words(about) if len(word) > 1} | relations_in(about)
    return frozenset(words or (word for word in telling(about) if word.isascii() and len(word) > 1 and not is_filler(word)))


def _shared(words: Collection[str], sentence: str) -> set[str]:
    """Which of the words a sentence has; a Chinese one also within another."""
    own = {*subject_words(sentence), *telling(sentence), *relations_in(sentence)}
    return {word for word in words if word in own or (not word.isascii() and word in sentence)}


def _says(text: str, attributes: Collection[str], whose: Collection[str]) -> bool:
    """Whether a sentence says one of these of one of these."""
    found = attribute_of(text)
    return found is not None and found.name in attributes and found.subject in whose
