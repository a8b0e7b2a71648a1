"""What a new message ends of what was said before.

Structure decides what may end what; how sure is learned. A part of an earlier message ends

- where the newer one names it and says that it is over ("Osk brought the wrench back", 木耳肉丝…撤掉);
- where both give the same single-valued attribute of a person another value ("I live in Lisbon" after Porto);
- where the newer one corrects it by its words ("sorry, 241") with another value of the same kind.

What is said of other people ends nothing, nor does what is only similar. The head of endings judges the pairs
that pass: by the similarity of the two, what the heads of changes and facts say of them, and how much else
was said in the same words. Health of somebody ends only by what names that very thing.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from difflib import SequenceMatcher
from functools import cached_property
from itertools import chain, islice, pairwise

from engine.conversations import attributes as cue
from engine.conversations.attributes import Attribute, attribute_of, subject_words, with_pronoun
from engine.conversations.whose import Span, others_words
from engine.heads.judgements import ENDED, ENDINGS, LASTING, LIKELY, Heads, is_vital, retiring
from engine.text.keywords import segmented
from engine.text.statements import CHANGE, OVER, people_in, relations_in
from jiyi.text.clauses import Clause, clauses, sentences
from jiyi.text.remembering import remembered
from jiyi.text.sections import unions
from jiyi.text.words import CJK

#: Least probability, by the head of changes, that a message took the place of an earlier one.
TOOK_ITS_PLACE = 0.3
#: The same, that it is over, of a part that shares only somebody's name with the newer one.
PERSON_IS_OVER = 0.6
#: The same, that it is taken back, of a part whose single-valued attribute gets another value.
REPLACED = 0.2
#: Messages back that a correction without a name may be of.
CORRECTED_BACK = 2
#: Characters from which on a part, a sentence and a message are long.
LONG_PART, LONG_SENTENCE, LONG_MESSAGE = 80, 160, 300
#: Texts whose parts are kept: a session's messages are compared again and again.
TEXTS_KEPT = 1024
#: Parts of a message that may end something: one with more is a text. Earlier parts it is compared with.
NEWER_PARTS, EARLIER_PARTS = 20, 1_000
#: Pairs that are judged, of the latest messages; a message has some three, and a judgement takes 10 kB.
MOST_PAIRS = 400
#: Share of common letters (2 * common / all) from which on a name is respelled: Halloran, Hanlon have .71.
RESPELLED = 0.6
#: People take back one thing at a time, and what follows from it.
MOST_ENDED = 3

_CUES = unions(__package__, "endings.txt")
_CORRECTION, _STARRED, _RESUMES, _BESIDE, _CHANGES, _NEGATIVE, _GONE = (
    _CUES[name] for name in ("correction", "starred", "resumes", "beside", "changes", "negative", "gone")
)
_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*|[〇零一二两三四五六七八九十百千万]{2,}|(?<=第)[一二三四五六七八九十]")
#: A name in the middle of a sentence, or that a correction begins with.
_NAMES = re.compile(r"(?:(?<=[\w,;:*] )|(?<=\*)|(?<=['’]s ))[A-Z][a-z]{3,30}\b")
#: What is over is named with all its words: "No more piano lessons with Osk", 再也不上瑜伽课了.
_NO_MORE = re.compile(r"\W{0,9}no more\b|\W{0,9}我?再也不", re.IGNORECASE)
#: A part that only says what it was not.
_NOT_IT = re.compile(r"\W{0,9}(?:and |but )?not\b|\W{0,9}(?:而?不是|不叫|并非)", re.IGNORECASE)
#: A name that a sentence begins with: a word with a capital before a verb or an 's.
_FIRST_NAME = re.compile(
    r"\W{0,9}(?:(?:and|but|so) )?"
    r"(?!(?:The|This|That|My|We|It|He|She|They|There|What|Who|Not|Then|Now|Today|Sorry|Oops"
    r"|[A-Z]\w+(?:ly|ed|ing))\b)"
    r"([A-Z][a-z]+)(?=['’]s\b|"
    r" (?:is|has|was|had|can|will|would|does|did|got|went|took|said|told|\w+ed|\w+s)\b)"
)
#: The same in Chinese: 小李, 老王, 张姐, 陈老师.
_FIRST_CHINESE_NAME = re.compile(
    rf"\W{{0,9}}(?:但是?|不过|那)?([小老阿][{CJK}]|[{CJK}](?:姐|哥|总|叔|姨|爷|婶|师傅|老师|医生|经理|主任|教练))"
)
_OWN = re.compile(r"\b(?:i|i'm|im|i've|i'd|my|we|our)\b|[我咱俺]", re.IGNORECASE)
#: Names that are no people's: "in Porto", "from New York".
_PLACES = re.compile(r"\b(?:in|into|to|from|at|near|around) ((?:[A-Z][\w'’-]{1,40} ?){1,3})")
#: What a clause begins with: "even the boss", 连老板.
_HEAD = re.compile(
    rf"\W{{0,9}}(?:(?:and|but|so|even|the)\s{{1,9}}){{0,2}}(?:[a-z'’-]+|[连那就]?[{CJK}]{{1,3}})",
    re.IGNORECASE,
)
#: Characters within which a sentence that is of its writer says so.
OWN_WITHIN = 12


@dataclass(frozen=True, slots=True)
class TimedMessage:
    """A message of the user."""

    text: str
    at: datetime | None = None
    session: str | None = None


@dataclass(frozen=True, slots=True)
class Ended:
    """Part ``span`` of message number ``old``, ended by ``by`` of the newer one.

    ``corrected``: it never was so; not ``sure``: it only may have ended.
    """

    old: int
    span: Span
    by: Span
    probability: float
    corrected: bool = False
    sure: bool = True


#: How one part may end another.
WAYS = ("named", "named person", "contrary", "replaced", "value", "corrected", "resumed")
#: A probability is kept this far from 0 and 1 in logarithms.
LEAST_CHANCE = 0.01


@dataclass(frozen=True)
class MessagePart:
    """A part of a message, and what structure reads of it; ``context`` is the sentence that it stands in."""

    clause: Clause
    context: str

    @cached_property
    def words(self) -> frozenset[str]:
        return subject_words(self.clause.text)

    @cached_property
    def attribute(self) -> Attribute | None:
        """What it says of whom; without its pronoun of who speaks, unless the sentence names somebody."""
        attribute = attribute_of(self.clause.said)
        places = {name for names in _PLACES.findall(self.context) for name in names.split()}
        if attribute is not None or self.clause.lead or self.relations or self.people - places:
            return attribute
        own = with_pronoun(self.clause.text, self.context)
        return own and own[1]

    @cached_property
    def numbers(self) -> list[str]:
        return _NUMBER.findall(self.clause.text)

    @cached_property
    def relations(self) -> frozenset[str]:
        return frozenset(relations_in(self.context))

    @cached_property
    def people(self) -> frozenset[str]:
        return frozenset(people_in(self.context))

    @cached_property
    def first_name(self) -> str:
        """The name that it, or its sentence, begins with."""
        return _first_name(self.clause.text) or _first_name(self.context)

    @cached_property
    def headed(self) -> bool:
        """Whether the part itself begins with somebody else ("even the boss", 连老板都换手机了)."""
        head = _HEAD.match(self.clause.text)
        return bool(_first_name(self.clause.text)) or (head is not None and bool(relations_in(head[0])))

    @cached_property
    def things(self) -> frozenset[str]:
        """Words that are no names or relations of people."""
        words = [word for run in segmented(self.context) for word in run]
        beside = {name for relation, name in pairwise(words) if relations_in(relation)}  # 邻居伊娃
        of_people = " ".join([*self.people, *beside]).lower()
        return frozenset(word for word in self.words if word not in of_people and not relations_in(word))

    @cached_property
    def denied(self) -> str:
        """What it says it is not, of "not 241", 不叫小军."""
        match = _NOT_IT.match(self.clause.text)
        return self.clause.text[match.end() :].strip(" .。!！").lower() if match else ""

    @property
    def span(self) -> Span:
        return self.clause.start, self.clause.end

    @property
    def readings(self) -> list[str]:
        """The part alone, and within its sentence."""
        return list(dict.fromkeys([self.clause.said, self.context]))


@dataclass(frozen=True, slots=True)
class _Pair:
    old: int
    part: MessagePart
    newer: MessagePart
    how: str


@remembered(TEXTS_KEPT)
def live_parts(text: str) -> tuple[MessagePart, ...]:
    """The parts of a message that state something of its writer's own: no question, nobody else's words."""
    foreign, spans = others_words(text), sentences(text)
    questions = [span for span in spans if _is_question(text, span)]
    return tuple(
        MessagePart(clause, text[slice(*spans[clause.sentence])])
        for clause in clauses(text)
        if not any(start < clause.end and clause.start < end for start, end in (*foreign, *questions))
        and not cue.IMAGINED.search(clause.text)
    )


def _is_question(text: str, span: Span) -> bool:
    start, end = span
    return cue.QUESTION_MARK.search(text[start : end + 2].strip()[:-1] + text[end : end + 1]) is not None


@dataclass(frozen=True, slots=True)
class EndingCandidate:
    """A part that a newer message may end, and what the head of endings reads of it (:data:`FEATURES`)."""

    old: int
    span: Span
    by: Span
    corrected: bool
    vital: bool
    #: By its form alone: a replaced value, an illness denied in its own words, "not 241", "no more …".
    certain: bool
    features: tuple[float, ...]


def find_endings(older: Sequence[TimedMessage], newer: TimedMessage, heads: Heads | None) -> list[Ended]:
    """The parts of earlier messages, oldest first, that the newer one ends, the surest first.

    None without ``heads``; what is vital ends only where that is sure.
    """
    possible = candidates(older, newer, heads) if heads is not None else []
    if not possible or heads is None:
        return []
    sure, likely = heads.least(ENDINGS, ENDED), heads.least(ENDINGS, LIKELY)
    endings: dict[tuple[int, Span], Ended] = {}
    for one, judged in zip(possible, heads.endings([one.features for one in possible]), strict=True):
        chance = 1.0 if one.certain else judged
        previous = endings.get((one.old, one.span))
        enough = chance >= (sure if one.vital else min(sure, likely))
        if enough and (previous is None or previous.probability < chance):
            is_sure = chance >= sure
            endings[one.old, one.span] = Ended(one.old, one.span, one.by, chance, one.corrected, is_sure)
    return sorted(endings.values(), key=lambda one: (-one.probability, -one.old))[:MOST_ENDED]


def candidates(older: Sequence[TimedMessage], newer: TimedMessage, heads: Heads) -> list[EndingCandidate]:
    """The parts of earlier messages that structure lets a newer message end."""
    new_parts = live_parts(newer.text)[:NEWER_PARTS]
    if not new_parts:
        return []
    possible = chain(_possible(older, newer, new_parts), _resumed(older, new_parts, heads))
    pairs = _of_slips(list(islice(possible, MOST_PAIRS)))
    if not pairs:
        return []
    texts = [(pair.part.clause.said, text) for pair in pairs for text in pair.newer.readings]
    judged = iter(heads.changes(texts))
    lasting = _lasting(heads, dict.fromkeys(pair.part.context for pair in pairs))
    word_counts = Counter(word for message in older for word in subject_words(message.text))
    of_message = (
        float(OVER.search(newer.text.lower()) is not None),
        float(_corrects(newer.text)),
        min(1.0, len(newer.text) / LONG_MESSAGE),
    )
    starred = _STARRED.search(newer.text) is not None
    result = []
    for pair in pairs:
        answers = [one for one in (next(judged) for _ in pair.newer.readings) if one is not None]
        part, newer_part = pair.part, pair.newer
        shared = part.words & newer_part.words
        takes_back = max(map(retiring, answers), default=0.0)
        over = max((one.probabilities["ends"] for one in answers), default=0.0)
        stays = pair.how == "named person" and over < PERSON_IS_OVER
        if stays or (pair.how == "replaced" and takes_back < REPLACED):
            continue
        features = (
            *(float(pair.how == kind) for kind in WAYS),
            _logit(takes_back),
            lasting[part.context],
            math.log1p(min((word_counts[word] for word in shared), default=0)),
            float(bool(part.clause.lead)),
            min(1.0, len(part.clause.text) / LONG_PART),
            min(1.0, len(newer_part.context) / LONG_SENTENCE),
            math.log(len(pairs)),
            math.log1p(len(older) - pair.old),
            *(
                float(cue.search(newer_part.context.lower()) is not None)
                for cue in (OVER, CHANGE, _CHANGES, _NEGATIVE)
            ),
            *of_message,
            len(shared) / max(1, len(part.words)),
            _logit(over),
            *(
                float(cue.search(newer_part.clause.text.lower()) is not None)
                for cue in (OVER, CHANGE, _CHANGES, _NEGATIVE, _GONE)
            ),
        )
        # Of "*23" nobody knows what there are 23 of: what it corrects is still shown, as no longer so.
        common = subject_words(newer_part.context) & subject_words(part.context)
        is_named = bool(common) or _respelled(part, newer_part)
        corrected, vital = is_named and pair.how in ("corrected", "value"), is_vital(part.context)
        whole = part.words <= newer_part.words
        denied = pair.how == "contrary" and vital and whole and is_vital(newer_part.context)
        slipped = bool(newer_part.denied) or (starred and bool(_is_turned(part, newer_part) or shared))
        said_not = pair.how == "value" and slipped
        no_more = _NO_MORE.match(newer_part.clause.text) is not None
        gone = pair.how in ("named", "contrary") and whole and no_more
        certain = denied or said_not or pair.how == "replaced" or (gone and not vital)
        result.append(
            EndingCandidate(pair.old, part.span, newer_part.span, corrected, vital, certain, features)
        )
    return result


#: What the head of endings reads of a candidate, in its order; as many names as there are features.
FEATURES = (
    *WAYS,
    *("takes back", "the older one lasts", "messages with the rarest common word", "item of a list"),
    *("length of the part", "length of the newer sentence", "candidates", "messages between"),
    *("the sentence says that something is over", "that something is new", "has a word of change"),
    *("is negative", "the message says that something is over", "corrects something"),
    *("length of the message", "share of the older one's words", "ends it"),
    *("the part says that something is over", "that something is new", "has a word of change"),
    *("is negative", "says that something is gone"),
)


def _lasting(heads: Heads, contexts: Collection[str]) -> dict[str, float]:
    """How likely each sentence is worth knowing later, in logits."""
    judged = heads.facts([("", text) for text in contexts])
    return {
        text: _logit(0.0 if one is None else one.probabilities[LASTING])
        for text, one in zip(contexts, judged, strict=True)
    }


def _logit(probability: float) -> float:
    chance = min(max(probability, LEAST_CHANCE), 1 - LEAST_CHANCE)
    return math.log(chance / (1 - chance))


def _corrects(text: str) -> bool:
    """Whether a message corrects something, by its words or by the sign of chats."""
    return _CORRECTION.search(text) is not None or _STARRED.search(text) is not None


def _possible(
    older: Sequence[TimedMessage], newer: TimedMessage, new_parts: Sequence[MessagePart]
) -> Iterator[_Pair]:
    """The pairs of parts that structure lets through, those of the latest messages first."""
    corrects = _corrects(newer.text)
    for number, part in islice(_latest_parts(older), EARLIER_PARTS):
        last = len(older) - number <= CORRECTED_BACK
        just_said = last and older[number].session == newer.session
        for new_part in new_parts:
            how = _may_end(part, new_part, corrects=corrects, last=last, just_said=just_said)
            if how:
                yield _Pair(number, part, new_part, how)


def _of_slips(pairs: Sequence[_Pair]) -> list[_Pair]:
    """Without numbers that were right: of "17th May, 32 people" "*23" corrects only the second."""
    slips = {
        (pair.old, pair.newer.span)
        for pair in pairs
        if pair.how == "value" and _is_turned(pair.part, pair.newer)
    }
    right = (pair.how == "value" and (pair.old, pair.newer.span) in slips for pair in pairs)
    return [
        pair
        for pair, may_be_right in zip(pairs, right, strict=True)
        if not may_be_right or _is_turned(pair.part, pair.newer)
    ]


def _latest_parts(messages: Sequence[TimedMessage]) -> Iterator[tuple[int, MessagePart]]:
    """The number of the message and the part, those of the latest message first."""
    return (
        (number, part)
        for number in reversed(range(len(messages)))
        for part in live_parts(messages[number].text)
    )


def _resumed(
    older: Sequence[TimedMessage], new_parts: Sequence[MessagePart], heads: Heads
) -> Iterator[_Pair]:
    """Of a message that takes up again what was before: what had taken its place.

    That is a message in between which ended something earlier, by the head of changes.
    """
    resuming = [part for part in new_parts if _RESUMES.search(part.clause.text)]
    if not resuming or len(older) < 2:
        return
    numbered = list(enumerate(older))[1:]
    between = [(number, message) for number, message in numbered if _CHANGES.search(message.text)]
    pairs = [
        (" ".join(earlier.text.split()), " ".join(message.text.split()))
        for number, message in between
        for earlier in older[:number]
    ]
    judged = iter(heads.changes(pairs))
    for number, message in between:
        chances = [next(judged) for _ in older[:number]]
        if any(one is not None and retiring(one) >= TOOK_ITS_PLACE for one in chances):
            yield from (
                _Pair(number, part, new_part, "resumed")
                for part in live_parts(message.text)
                for new_part in resuming
            )


def _may_end(part: MessagePart, newer: MessagePart, *, corrects: bool, last: bool, just_said: bool) -> str:
    """In which way one part may end another; empty if it may not.

    ``corrects``: the newer message corrects something by its words; ``last``: the older message is one of the
    last before it; ``just_said``: of the same session, too.
    """
    if _of_others(part, newer):
        return ""
    shared = part.words & newer.words
    if corrects and _other_value(part.numbers, newer.numbers):
        common_words = shared or subject_words(part.context) & subject_words(newer.context)
        return "value" if common_words or just_said else ""
    denied = newer.denied and (shared or newer.denied in part.clause.text.lower())
    if corrects and (denied or _respelled(part, newer)):
        return "value"
    numbers = (_NUMBER.findall(one.context) for one in (part, newer))
    if corrects and last and shared and not _other_value(*numbers):
        return "corrected"
    if _same_attribute(part, newer) and not is_vital(part.clause.said):
        return "replaced"
    return _by_words(part, newer, shared)


def _by_words(part: MessagePart, newer: MessagePart, shared: frozenset[str]) -> str:
    """How the newer part ends the older by the words that both have; empty if it does not."""
    new_text = newer.clause.text
    if not shared or _beside(new_text, shared) or _RESUMES.search(new_text):
        return ""
    if _is_negative(part.clause.said) != _is_negative(new_text):
        return "contrary"
    return "named" if part.words <= newer.words or shared & part.things & newer.things else "named person"


def only_ends(text: str) -> bool:
    """Whether a text is a sentence each part of which says that something is gone, or is not: it gives
    nothing in its place.
    """
    if len(text) > LONG_SENTENCE or len(sentences(text)) != 1 or _GONE.search(text) is None:
        return False
    return all(_GONE.search(part.text) or _NEGATIVE.search(part.text) for part in clauses(text))


def _of_others(part: MessagePart, newer: MessagePart) -> bool:
    """Whether two parts are of different people: of other relations, or with other first names."""
    if part.relations and newer.relations:
        return part.relations.isdisjoint(newer.relations)
    if part.first_name and newer.first_name:
        return part.first_name != newer.first_name
    if not newer.relations and not newer.first_name:
        return False
    if not newer.headed and _OWN.search(newer.context[:OWN_WITHIN]):
        return False
    # A statement about somebody else ends one about the writer only if the older one names that person.
    is_named = bool(newer.first_name) and newer.first_name.lower() in part.context.lower()
    return not is_named and not newer.relations & part.relations and _OWN.search(part.context) is not None


def _first_name(text: str) -> str:
    match = _FIRST_NAME.match(text) or _FIRST_CHINESE_NAME.match(text)
    return match[1] if match else ""


def _is_negative(text: str) -> bool:
    """Whether a part says that something is not, or is not liked, eaten, borne."""
    return len(_NEGATIVE.findall(text)) % 2 == 1


def _beside(text: str, shared: frozenset[str]) -> bool:
    """Whether the shared words only say where something else is ("the chemist next door to the surgery")."""
    match = _BESIDE.search(text)
    return match is not None and not subject_words(text[: match.start()]) & shared


def _same_attribute(part: MessagePart, newer: MessagePart) -> bool:
    mine, theirs = part.attribute, newer.attribute
    return (
        mine is not None
        and theirs is not None
        and mine.single_valued
        and theirs.single_valued
        and (mine.name, mine.subject) == (theirs.name, theirs.subject)
        and not subject_words(newer.clause.said) <= subject_words(part.clause.said)
    )


def _other_value(mine: Sequence[str], theirs: Sequence[str]) -> bool:
    """Whether both have a number or a time, and not the same: 214 and 241, 三千二 and 三千八."""
    return set(mine).isdisjoint(theirs) and any(
        _same_notation(one, other) for one in mine for other in theirs
    )


def _is_turned(part: MessagePart, newer: MessagePart) -> bool:
    """Whether a number is one of the other part with its digits in another order."""
    return any(
        one != other and sorted(one) == sorted(other) for one in part.numbers for other in newer.numbers
    )


def _respelled(part: MessagePart, newer: MessagePart) -> bool:
    """Whether the newer part writes a name of the older one in another way: Halloran and Hanlon."""
    old_names, new_names = (_NAMES.findall(one.clause.text) for one in (part, newer))
    return not set(old_names) & set(new_names) and any(
        SequenceMatcher(None, one.lower(), other.lower(), autojunk=False).ratio() >= RESPELLED
        for one in old_names
        for other in new_names
    )


def _same_notation(one: str, other: str) -> bool:
    """Whether two numbers are written the same way: digits, a clock, Chinese."""
    kind = [re.sub(r"\d", "0", number) if number[0].isdigit() else "字" for number in (one, other)]
    return kind[0] == kind[1] or (
        kind[0].strip("0") == kind[1].strip("0") == "" and abs(len(one) - len(other)) <= 1
    )
