"""What a new message ends of what was said before.

Structure decides what may end what; how sure is learned. A part of an earlier message ends

- where the newer one names it and says that it is over ("Osk brought the wrench back", 木耳肉丝…撤掉);
- where both say the same single-valued thing of the same person, with another value ("I live in Lisbon" after "I live in Porto");
- where the newer one corrects it: by its own words ("sorry, 241"), and with another value of the same kind.

News about other people in the same words ends nothing, nor does what is only similar. The head of changes judges the pairs that pass,
and never makes one. Health of somebody ends only by what names that very thing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from engine.conversations import attributes as cue
from engine.conversations.attributes import attribute_of, subject_words
from engine.conversations.whose import Span, others_words
from engine.heads.judgements import RETIRING, Heads, Judged, is_vital
from engine.text.statements import people_in, relations_in
from jiyi.text.clauses import Clause, clauses, sentences
from jiyi.text.sections import unions

#: Least probability that a part which is named is over, and that another value of one attribute has taken its place.
NAMED_ENDS, REPLACED = 0.3, 0.2
#: The same of a part with which the newer one has no more in common than somebody's name; of one that says the contrary.
NAMED_PERSON_ENDS, CONTRARY = 0.6, 0.15
#: Least probability that what corrects by its words is about the same, where it names nothing of it.
CORRECTS = 0.3
#: Least probability that a message took the place of an earlier one, and that what takes the earlier one up again ends it.
TOOK_ITS_PLACE, RESUMED = 0.3, 0.2
#: Messages back that a correction without a name may be of.
CORRECTED_BACK = 2
#: People take back one thing at a time, and what follows from it.
MOST_ENDED = 3

_CUES = unions("engine.conversations", "endings.txt")
_CORRECTION, _RESUMES, _BESIDE, _CHANGES, _NEGATIVE = (_CUES[name] for name in ("correction", "resumes", "beside", "changes", "negative"))
_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*|[〇零一二两三四五六七八九十百千万]{2,}|(?<=第)[一二三四五六七八九十]")
#: A part that only says what it was not.
_NOT_IT = re.compile(r"\W{0,9}(?:and |but )?not\b|\W{0,9}(?:而?不是|不叫|并非)", re.IGNORECASE)
#: A name that a sentence begins with: a word with a capital before a verb or an 's.
_FIRST_NAME = re.compile(
    r"\W{0,9}(?:(?:and|but|so) )?"
    r"(?!(?:The|This|That|My|We|It|He|She|They|There|What|Who|Not|Then|Now|Today|Sorry|Oops|[A-Z]\w+(?:ly|ed|ing))\b)"
    r"([A-Z][a-z]+)(?=['’]s\b| (?:is|has|was|had|can|will|would|does|did|got|went|took|said|told|\w+ed|\w+s)\b)"
)
_OWN = re.compile(r"\W{0,9}(?:i|i'm|im|i've|i'd|my|we|our)\b|\W{0,9}[我咱俺]", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Said:
    """A message of the user."""

    text: str
    at: datetime | None = None
    session: str | None = None


@dataclass(frozen=True, slots=True)
class Ended:
    """Part ``span`` of message number ``old``, ended by ``by`` of the newer one; ``corrected``: it never was so."""

    old: int
    span: Span
    by: Span
    probability: float
    corrected: bool = False


#: By the way in which one part may end another.
_LEAST = {
    "named": NAMED_ENDS,
    "named person": NAMED_PERSON_ENDS,
    "contrary": CONTRARY,
    "replaced": REPLACED,
    "corrected": CORRECTS,
    "value": 0.0,
    "resumed": RESUMED,
}


@dataclass(frozen=True, slots=True)
class _Pair:
    old: int
    part: Clause
    newer: Clause
    how: str


def live_parts(text: str) -> list[Clause]:
    """The parts of a message that state something of its writer's own: no question, nobody else's words."""
    foreign = others_words(text)
    asked = [
        span for span in sentences(text) if cue.QUESTION_MARK.search(text[span[0] : span[1] + 2].strip()[:-1] + text[span[1] : span[1] + 1])
    ]
    return [
        part
        for part in clauses(text)
        if not any(start < part.end and part.start < end for start, end in (*foreign, *asked)) and not cue.IMAGINED.search(part.text)
    ]


def ended(older: Sequence[Said], newer: Said, heads: Heads | None) -> list[Ended]:
    """The parts of earlier messages, oldest first, that the newer message ends, the surest first; without ``heads`` none."""
    new_parts = live_parts(newer.text)
    if not new_parts or heads is None:
        return []
    pairs = [*_possible(older, newer, new_parts), *_resumed(older, new_parts, heads)]
    readings = [_readings(newer.text, pair.newer) for pair in pairs]
    judged = iter(heads.changes([(pair.part.said, text) for pair, texts in zip(pairs, readings, strict=True) for text in texts]))
    found: dict[tuple[int, Span], Ended] = {}
    for pair, texts in zip(pairs, readings, strict=True):
        chance = _chance(pair, [next(judged) for _ in texts])
        span = pair.part.start, pair.part.end
        known = found.get((pair.old, span))
        if chance >= _LEAST[pair.how] and (known is None or known.probability < chance):
            corrected = pair.how in ("corrected", "value")
            found[pair.old, span] = Ended(pair.old, span, (pair.newer.start, pair.newer.end), chance, corrected)
    return sorted(found.values(), key=lambda one: (-one.probability, -one.old))[:MOST_ENDED]


def _possible(older: Sequence[Said], newer: Said, new_parts: Sequence[Clause]) -> Iterator[_Pair]:
    """The pairs of parts that structure lets through."""
    corrects = _CORRECTION.search(newer.text) is not None
    for number, message in enumerate(older):
        last = len(older) - number <= CORRECTED_BACK
        for part in live_parts(message.text):
            for new_part in new_parts:
                how = _may_end((message, part), (newer, new_part), corrects=corrects, last=last)
                if how:
                    yield _Pair(number, part, new_part, how)


def _chance(pair: _Pair, judged: Iterable[Judged | None]) -> float:
    """How likely the newer part ends the older: of one that is named, that it is over; else, that it holds no longer."""
    labels = ("ends",) if pair.how in ("named", "named person") else RETIRING
    return max((sum(one.probabilities[label] for label in labels) for one in judged if one is not None), default=0.0)


def _resumed(older: Sequence[Said], new_parts: Sequence[Clause], heads: Heads) -> list[_Pair]:
    """Of a message that takes up again what was before: what had taken its place.

    That is what a message in between says, if it ended something of an earlier one by the head of changes.
    """
    resuming = [part for part in new_parts if _RESUMES.search(part.text)]
    if not resuming or len(older) < 2:
        return []
    between = [(number, message) for number, message in enumerate(older) if number and _CHANGES.search(message.text)]
    pairs = [(" ".join(earlier.text.split()), " ".join(message.text.split())) for number, message in between for earlier in older[:number]]
    judged = iter(heads.changes(pairs))
    found: list[_Pair] = []
    for number, message in between:
        chances = [next(judged) for _ in older[:number]]
        if any(one is not None and sum(one.probabilities[label] for label in RETIRING) >= TOOK_ITS_PLACE for one in chances):
            found += [_Pair(number, part, new_part, "resumed") for part in live_parts(message.text) for new_part in resuming]
    return found


def _readings(text: str, part: Clause) -> list[str]:
    """A part by itself and within its sentence."""
    return list(dict.fromkeys([part.said, _sentence(text, part)]))


def _may_end(older: tuple[Said, Clause], newer: tuple[Said, Clause], *, corrects: bool, last: bool) -> str:
    """Whether, and in which way, structure lets one part end another; empty if not.

    ``corrects``: the newer message corrects something by its words; ``last``: the older one is one of the last before it.
    """
    (message, part), (new_message, new_part) = older, newer
    context, new_context = _sentence(message.text, part), _sentence(new_message.text, new_part)
    mine, theirs = subject_words(part.text), subject_words(new_part.text)
    shared = mine & theirs
    if _of_others(context, new_context):
        shared = frozenset()
    elif corrects and _other_value(part.text, new_part.text):
        named = shared or subject_words(context) & subject_words(new_context)
        return "value" if named or (last and message.session == new_message.session) else ""
    elif corrects and last and shared and not _other_value(context, new_context):
        return "value" if _NOT_IT.match(new_part.text) else "corrected"
    elif _same_attribute(part.said, new_part.said) and not is_vital(context):
        return "replaced"
    if not shared or _beside(new_part.text, shared) or _RESUMES.search(new_part.text):
        return ""
    if _is_negative(part.said) != _is_negative(new_part.text):
        return "contrary"
    names = people_in(context) | people_in(new_context)
    return "named" if mine <= theirs or any(not _is_name(word, names) for word in shared) else "named person"


def _of_others(context: str, new_context: str) -> bool:
    """Whether two sentences are of different people: of other relations, or begin with other names."""
    relations, new_relations = relations_in(context), relations_in(new_context)
    if relations and new_relations:
        return relations.isdisjoint(new_relations)
    first, new_first = _FIRST_NAME.match(context), _FIRST_NAME.match(new_context)
    if first is not None and new_first is not None:
        return first[1] != new_first[1]
    if (new_relations or new_first is not None) and _OWN.match(
        new_context
    ) is None:  # news of somebody else ends what was said of the writer only if that names them
        names = {new_first[1].lower()} if new_first is not None else set()
        return not any(name in context.lower() for name in names) and not new_relations & relations and _OWN.match(context) is not None
    return False


def _is_negative(text: str) -> bool:
    """Whether a part says that something is not, or is not liked, eaten, borne."""
    return len(_NEGATIVE.findall(text)) % 2 == 1


def _sentence(text: str, part: Clause) -> str:
    start, end = sentences(text)[part.sentence]
    return text[start:end]


def _beside(text: str, shared: frozenset[str]) -> bool:
    """Whether what is shared only says where something else is ("the chemist next door to the surgery")."""
    match = _BESIDE.search(text)
    return match is not None and not subject_words(text[: match.start()]) & shared


def _same_attribute(older: str, newer: str) -> bool:
    mine, theirs = attribute_of(older), attribute_of(newer)
    return (
        mine is not None
        and theirs is not None
        and mine.single_valued
        and theirs.single_valued
        and (mine.name, mine.subject) == (theirs.name, theirs.subject)
        and not subject_words(newer) <= subject_words(older)
    )


def _other_value(older: str, newer: str) -> bool:
    """Whether both have a number or a time, and not the same: 214 and 241, 三千二 and 三千八."""
    mine, theirs = _NUMBER.findall(older), _NUMBER.findall(newer)
    return bool(mine) and bool(theirs) and set(mine).isdisjoint(theirs) and any(_alike(one, other) for one in mine for other in theirs)


def _alike(one: str, other: str) -> bool:
    """Whether two numbers are written alike: digits, a clock, Chinese."""
    kind = [re.sub(r"\d", "0", number) if number[0].isdigit() else "字" for number in (one, other)]
    return kind[0] == kind[1] or (kind[0].strip("0") == kind[1].strip("0") == "" and abs(len(one) - len(other)) <= 1)


def _is_name(word: str, people: Iterable[str]) -> bool:
    return any(word in person.lower() for person in people)
