"""Orders to forget ("forget what I told you about my mondays", 把昨晚说的全删掉), and what they mean.

An order is known by a list of wordings (``forgetting.txt``), or by the head of ``keeping``; what is meant by
words and topics in common.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter

from engine.conversations.attributes import attribute_of, subject_words
from engine.text.statements import is_of, relations_in, topics_of
from jiyi.text.clauses import clauses, sentences
from jiyi.text.kept import READ_CHARS, asks_how
from jiyi.text.sections import first, unions
from jiyi.text.words import CJK_CHARACTER, is_filler, telling

#: Between the clauses of an order, and between the things that it names.
_CLAUSES, _AND = re.compile(r"[,，;；]"), re.compile(r"、|\band\b|\bor\b|还有|以及|和", re.IGNORECASE)
#: What every order in a known wording has: most messages are done with by it.
_HINT = re.compile(
    "forget|delete|erase|wipe|remove|scrub|drop|get rid|take out|take"
    " off|want|忘|删|清|抹|没讲|没说|没提|没有[讲说提]",
    re.IGNORECASE,
)
_CUES = unions(__package__, "forgetting.txt")
#: By the name of an attribute what orders call it.
_ATTRIBUTES = unions(__package__, "forgetting.txt", "of ")
#: What many things have.
GENERIC = frozenset("number address name code date day time detail 号码 地址 名字 时间 信息".split())
#: Whose attribute it is that an order names without saying whose.
USER = "user"
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
        return _CUES["all"].search(self.text) is not None


def forgets(text: str) -> list[Order]:
    """The orders to forget in a message that are given in known wordings."""
    read = text[:READ_CHARS]
    if _HINT.search(read) is None or _CUES["no_order"].search(read):
        return []
    orders = []
    for start, end in sentences(read):
        sentence = read[start:end]
        match = _CUES["forgets"].search(sentence)
        if match is not None and not asks_how(sentence, match):
            orders.append(Order(start, end, sentence))
    return orders


def may_order(text: str) -> bool:
    """Whether a message can be an order to forget: not what is about reminders, or says not to forget."""
    return _CUES["no_order"].search(text[:READ_CHARS]) is None


def says_what_to_do(sentence: str) -> bool:
    """Whether a sentence has a word for what is to happen, such as "erased" or 抹掉."""
    return _CUES["verb"].search(sentence) is not None


def to_forget(text: str, order: Order, earlier: Sequence[str]) -> list[list[Fit]]:
    """Which sentences of earlier messages (oldest first) an order means, for each thing that it names.

    None where that is not clear. ``text`` is the message with the order; empty if the order can only mean
    what it names.
    """
    things, ordered, stays = _parts(order.text)
    if not things:  # "That about the rent was wrong of me. Please delete it."
        before = sentences(text[: order.start])[-1:]
        things = [thing for start, end in before for thing in _parts(text[start:end])[0]]
    staying = subject_words(stays) | subject_words(text[order.end :])
    spans = [
        (number, start, end)
        for number, message in enumerate(earlier)
        for start, end in sentences(message)
        if staying.isdisjoint(subject_words(message[start:end]))  # "the dinner stands"
    ]
    texts = [earlier[number][start:end] for number, start, end in spans]
    # By words and topics in common, never by similarity of vectors: erasing cannot be undone.
    matches = [
        [part for place in places for part in _narrowed(thing, spans[place], earlier)]
        for thing in things
        if (places := _fitting(thing, texts))
    ]
    last = [span for span in spans if text and span[0] == len(earlier) - 1]
    # "Forget that": what was said last.
    says_that = not things and len(CJK_CHARACTER.findall(_subject(ordered))) <= 1
    return matches or ([last] if last and (says_that or _CUES["lately"].search(order.text)) else [])


def _narrowed(thing: str, fit: Fit, earlier: Sequence[str]) -> list[Fit]:
    """The sentence without clauses that say something else of their own: another attribute, in other words.

    "I'm allergic to peanuts, and I work at the harbour": who forgets the allergy keeps the work. What no
    attribute names goes with the rest of its sentence.
    """
    number, start, end = fit
    parts = [part for part in clauses(earlier[number]) if start <= part.start and part.end <= end]
    words, topics = _words(_subject(thing)), topics_of(thing)
    attributes = [attribute_of(part.text) or attribute_of(part.said) for part in parts]
    means = [bool(_shared(words, part.said) or topics & topics_of(part.said)) for part in parts]
    erased = {one.name for one, is_meant in zip(attributes, means, strict=True) if one and is_meant}
    stays = [
        one is not None and one.name not in erased and not is_meant
        for one, is_meant in zip(attributes, means, strict=True)
    ]
    if not any(means) or not any(stays):
        return [fit]
    runs = groupby(zip(parts, stays, strict=True), key=itemgetter(1))
    gone = [[part for part, _ in run] for is_kept, run in runs if not is_kept]
    return [(number, run[0].start, run[-1].end) for run in gone]


def _parts(order: str) -> tuple[list[str], str, str]:
    """What an order names, its words up to the clause that says what is to happen, and what is to stay.

    What is named stands in that clause, or else before it.
    """
    clauses = _CLAUSES.split(order)
    verb = next((place for place, clause in enumerate(clauses) if says_what_to_do(clause)), None)
    upto = clauses if verb is None else clauses[: verb + 1]
    things: list[str] = []
    for clause in upto if verb is None else [clauses[verb], *upto]:
        things = things or [thing for thing in _AND.split(clause) if _words(_subject(thing))]
    return things, " ".join(upto), " ".join(filter(_CUES["stays"].search, clauses[len(upto) :]))


def _subject(order: str) -> str:
    """What an order is about: without the words of such orders."""
    return " ".join(_CUES["order_words"].sub(" ", order).split())


def _fitting(thing: str, texts: Sequence[str]) -> list[int]:
    """Places of the sentences that say what is to be forgotten, or share most words and topics with it.

    Half of its words have to be in the sentence, or of a topic of it, and not only what many things have: "my
    tax number" is no phone number.
    """
    attribute, whose = first(_ATTRIBUTES, thing), relations_in(thing) or {USER}
    matches = [place for place, text in enumerate(texts) if attribute and _says(text, attribute, whose)]
    if matches:
        return matches
    words, topics = _words(_subject(thing)), topics_of(thing)
    scores = []
    for text in texts:
        common, shared = _shared(words, text), topics_of(text) & topics
        missing = [word for word in words - common if not any(is_of(word, topic) for topic in shared)]
        fits = 2 * len(missing) < len(words) or (2 * len(missing) == len(words) and not common <= GENERIC)
        scores.append(len(common) + len(shared) if fits else 0)
    best = max(scores, default=0)
    return [place for place, score in enumerate(scores) if best and score == best]


def _words(about: str) -> frozenset[str]:
    """The words of what is to be forgotten, and the relations of people in it."""
    words = {word for word in subject_words(about) if len(word) > 1} | relations_in(about)
    others = (word for word in telling(about) if word.isascii() and len(word) > 1 and not is_filler(word))
    return frozenset(words or others)


def _shared(words: Collection[str], sentence: str) -> set[str]:
    """Which of the words a sentence has; a Chinese one also within another."""
    own = {*subject_words(sentence), *telling(sentence), *relations_in(sentence)}
    return {word for word in words if word in own or (not word.isascii() and word in sentence)}


def _says(text: str, attribute: str, whose: Collection[str]) -> bool:
    """Whether a sentence says this of one of these."""
    text_attribute = attribute_of(text)
    return text_attribute is not None and text_attribute.name == attribute and text_attribute.subject in whose
