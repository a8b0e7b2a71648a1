"""A message in the parts that can each be so, or no longer be so, by themselves.

"I'm allergic to peanuts and shellfish, and Leo can't have dairy." has three. Parts are spans of the text, so
that whatever is left of it can be shown in the speaker's own words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby, pairwise

from jiyi.text.remembering import remembered
from jiyi.text.words import CJK, CJK_CHARACTER

#: Characters of a message that are read, and parts of them, at most.
READ_CHARS, MOST_PARTS = 20_000, 300
#: Messages of which the sentences are remembered: each part asks for its own.
SENTENCES_REMEMBERED = 16
#: Words of an English item, and characters of a Chinese one, of a list at most.
ITEM_WORDS, ITEM_CHARS = 3, 8
#: Characters before a list that say what it is of, at most.
LEAD_CHARS = 80

_SENTENCE_END = re.compile(
    rf"[。！？；!?;…]+[”’」』）)]*|\n+"
    r"|(?<![.\d])(?<!\b[Nn]o)(?<!\b[MD]r)(?<!\bMs)(?<!\bMrs)(?<!\bSt)(?<!\bvs)(?<!\b[eE]\.g)(?<!\bi\.e)"
    rf"\.+[”’)\"']*(?=\s|$|[{CJK}])|(?<=\d)\.(?=\s|$)|(?<=[^\w\s])\s{{2,}}"
)
#: Where a clause of a sentence may end.
_CLAUSE_END = re.compile(
    r"[，,](?!\d{3})\s{0,9}(?:(?:and|but|so|or|then|plus)\b\s{0,9})?|[:：](?!\d)\s{0,9}"
    r"|\s{1,9}[-–—]+\s{1,9}|[—–]{1,2}"
    r"|、|\s{1,9}(?=(?:but|because|bc|so|though|although|since)\b)"
)
#: What joins two items, or two clauses.
_AND = re.compile(
    rf"\s{{1,9}}(?:and|or|&|plus)\s{{1,9}}|\s?(?:和|跟|与|以及|还有|外加)(?![他她它我你您咱])(?=[{CJK}A-Za-z])"
    rf"|(?<=[{CJK}])\s{{1,9}}(?=[{CJK}])"
)
_WORD = re.compile(r"[\w'’-]+")
_SUBJECT = re.compile(
    r"\W{0,9}(?:(?i:i|i'm|i've|im|my|our|we|we're|he|she|it|it's|they|the|his|her|their|that|this|there)"
    r"|[a-z]+'s|[A-Z]\w+ (?:is|has|was|can|does|lives|works|takes))\b"
)
#: Somebody whom a sentence begins with, and who does the next thing, too: "I live in Porto and work there".
_DOER = re.compile(
    r"\W{0,9}(?:(?:i|i'm|i've|im|we|we're|he|she|they|(?:my|our) \w{2,20})\b|(?-i:[A-Z])\w+ )", re.IGNORECASE
)
#: What people say of themselves begins so, after an "and" without its subject; one word alone is an item.
_GOES_ON = re.compile(
    r"(?:am|is|was|have|has|had|(?:live|work|own|keep|run|play|sing|speak|drive|cycle|swim|eat|drink|like"
    r"|love|hate|prefer|enjoy|take|use|need|rent|teach)(?:s|es)?|stud(?:y|ies)|(?:ca|do|does|wo)n't|cannot|moved"
    r"|started|joined|quit|lived|worked|got|stopped|became)\s{1,9}\w",
    re.IGNORECASE,
)
#: No item of a list begins so, as "to play chess" may without its "to".
_FINITE = re.compile(r"(?:am|is|was|has|had|lives|lived|works|worked|moved|joined|became)\b", re.IGNORECASE)
#: What an item of a Chinese list does not have.
_CHINESE_VERB = re.compile("[了着给去来说想要会能不没就都也还在把被是有]|过(?!敏)")
_HEADS = (":", "：")
_MARK = re.compile("[,，;；、]")
#: Up to the verb or preposition that what is listed depends on.
_LEAD = re.compile(
    r".{0,80}?\b(?:to|of|for|about|with|have|has|had|got|own|keep|eat|eats|drink|drinks|like|likes"
    r"|love|loves|hate|hates|enjoy|play|plays|speak|speaks|take|takes|use|uses|know|called|named|stand"
    r"|are|is|include|need|needs|lent|owe|no)\s{1,9}(?=\S)",
    re.IGNORECASE,
)
_CHINESE_LEAD = re.compile(
    rf"[^，。]{{0,20}}?(?:对|吃|喝|养了?|有|喜欢|爱|是|叫|学|报了|借[给了]?|用|会|买了?|放|玩|看|带|忌)(?=[{CJK}A-Za-z])"
)


@dataclass(frozen=True, slots=True)
class Clause:
    """The message's ``[start:end]``; ``lead`` stands before it in its sentence and belongs to it too."""

    start: int
    end: int
    text: str
    lead: str = ""
    #: Number of its sentence.
    sentence: int = 0

    @property
    def said(self) -> str:
        """The clause as it would be said alone."""
        return (
            self.lead + self.text
            if not self.lead or self.lead[-1] == "：" or CJK_CHARACTER.match(self.lead[-1])
            else f"{self.lead.rstrip()} {self.text}"
        )


def clauses(text: str) -> list[Clause]:
    """The parts of a message in order, without the marks between them."""
    text = text[:READ_CHARS]
    parts: list[Clause] = []
    for number, (start, end) in enumerate(_cut(text, 0, len(text), _SENTENCE_END)):
        parts += _of_sentence(text, start, end, number)
        if len(parts) >= MOST_PARTS:
            break
    return parts[:MOST_PARTS]


def sentences(text: str) -> list[tuple[int, int]]:
    """Spans of the sentences of a message."""
    return list(_sentences(text[:READ_CHARS]))


@remembered(SENTENCES_REMEMBERED)
def _sentences(text: str) -> tuple[tuple[int, int], ...]:
    return tuple(_cut(text, 0, len(text), _SENTENCE_END))


def united(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Spans in order, of which those that touch or overlap are one."""
    result: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if result and start <= result[-1][1]:
            result[-1] = (result[-1][0], max(end, result[-1][1]))
        else:
            result.append((start, end))
    return result


def without(text: str, spans: Iterable[tuple[int, int]]) -> str:
    """What is left of a message without some of its parts, and the marks and words that joined them.

    A part goes where most of it lies in one of the spans; a list that loses all of its items loses its lead,
    too.
    """
    gone = sorted(spans)
    parts = clauses(text)
    lost = [
        any(2 * (min(part.end, end) - max(part.start, start)) > part.end - part.start for start, end in gone)
        for part in parts
    ]
    if not any(lost):
        return text
    result, end = "", 0
    runs = groupby(range(len(parts)), key=lambda place: (parts[place].sentence, lost[place]))
    for (_, is_lost), run in runs:
        if is_lost:
            places = list(run)
            start, stop = _cut_of(text, parts, places[0], places[-1])
            result += text[end:start]
            end = max(end, stop)
    return (result + text[end:]).strip(" \n,，、;；")


def _cut_of(text: str, parts: list[Clause], first: int, last: int) -> tuple[int, int]:
    """The span that goes with parts ``first`` to ``last`` of one sentence."""
    sentence = parts[first].sentence
    before = parts[first - 1] if first and parts[first - 1].sentence == sentence else None
    after = parts[last + 1] if last + 1 < len(parts) and parts[last + 1].sentence == sentence else None
    lead = parts[first].lead
    shares = lead and (before is None or before.lead != lead) and (after is None or after.lead != lead)
    start = text.rfind(lead, 0, parts[first].start + 1) if shares else parts[first].start
    if after is not None and not (
        before
        and _MARK.search(text, parts[last].end, after.start)
        and not _MARK.search(text, before.end, start)
    ):
        return start, after.start
    if before is not None:
        return min(start, before.end), parts[last].end
    following = parts[last + 1].start if last + 1 < len(parts) else len(text)
    if last + 1 < len(parts) and parts[last + 1].lead:
        following = text.rfind(parts[last + 1].lead, 0, following + 1)
    return _sentence_start(text, start), following


def _sentence_start(text: str, place: int) -> int:
    """Where the sentence of a place begins."""
    return max((start for start, end in sentences(text) if start <= place < end), default=place)


def _stripped(text: str, start: int, end: int) -> Iterable[tuple[int, int]]:
    part = text[start:end]
    first, last = start + len(part) - len(part.lstrip()), start + len(part.rstrip())
    if last > first and _WORD.search(text, first, last):
        yield first, last


def _of_sentence(text: str, start: int, end: int, number: int) -> list[Clause]:
    spans: list[tuple[int, int]] = []
    for first, last in _cut(text, start, end, _CLAUSE_END):
        pieces = list(_cut(text, first, last, _AND))
        apart = all(_stands_alone(text, start, before, piece) for before, piece in pairwise(pieces))
        spans += pieces if len(pieces) > 1 and apart else [(first, last)]
    result: list[Clause] = []
    lead = ""
    for place, (first, last) in enumerate(spans):
        part = text[first:last]
        if (
            place + 1 < len(spans) and text[last:].lstrip()[:1] in _HEADS
        ):  # it introduces what follows, and says nothing alone
            lead = ""
            continue
        if place and lead and _is_item(part) and _goes_with(lead, text[spans[place - 1][1] : last]):
            result.append(Clause(first, last, part, lead, number))
            continue
        lead = _lead(text, start, first, last)
        if lead and lead[-1] in _HEADS and _is_item(part):
            result.append(Clause(first, last, part, lead, number))
            continue
        next_end = spans[place + 1][1] if place + 1 < len(spans) else last
        followed = next_end > last and _is_item(text[slice(*spans[place + 1])])
        if (
            lead and followed and part.startswith(lead) and _goes_with(lead, text[last:next_end])
        ):  # the first item of a list, of which the others share the beginning
            begin = first + len(lead) + (len(part) - len(lead) - len(part[len(lead) :].lstrip()))
            result.append(Clause(begin, last, text[begin:last], lead, number))
        else:
            result.append(Clause(first, last, part, "", number))
    return result


def _cut(text: str, start: int, end: int, ends: re.Pattern[str]) -> Iterable[tuple[int, int]]:
    place = start
    for match in ends.finditer(text, start, end):
        yield from _stripped(text, place, match.start())
        place = match.end()
    yield from _stripped(text, place, end)


def _stands_alone(text: str, sentence: int, before: tuple[int, int], piece: tuple[int, int]) -> bool:
    """Whether what follows an "and" is an item of a list, a clause with somebody in it, or what
    somebody whom the sentence begins with does besides. Not so "Mia and I are moving", "no tea or I ache".
    """
    part = text[slice(*piece)]
    if _SUBJECT.match(part):
        is_name = before[0] == sentence and _is_item(text[slice(*before)])
        return not is_name and text[before[1] : piece[0]].strip().lower() != "or"
    goes_on = _GOES_ON.match(part) is not None and _DOER.match(text, sentence) is not None
    return _is_item(part) or goes_on or len(CJK_CHARACTER.findall(part)) > 1


def _is_item(part: str) -> bool:
    """Whether a part is one of a list: short, and nobody in it does anything."""
    if _SUBJECT.match(part) or _FINITE.match(part):
        return False
    chinese = len(CJK_CHARACTER.findall(part))
    if chinese:
        return chinese <= ITEM_CHARS and _CHINESE_VERB.search(part) is None
    return len(_WORD.findall(part)) <= ITEM_WORDS


def _goes_with(lead: str, following: str) -> bool:
    """Whether what follows an item, with the mark before it, is of the same list: in Chinese not after a
    comma, unless a colon announces the list ("他叫昆廷，法国人" has none).
    """
    return lead[-1] in _HEADS or not (following[0] in ",，" and CJK_CHARACTER.search(following))


def _lead(text: str, start: int, first: int, last: int) -> str:
    """What the items of a list share ("I'm allergic to", "my tickets:"); empty where that is not clear."""
    before = text[start:first].rstrip()
    part = text[first:last]
    if before.endswith(_HEADS) and _is_item(part):
        return before[-LEAD_CHARS:]
    match = (_CHINESE_LEAD if CJK_CHARACTER.search(part) else _LEAD).match(part)
    return match.group() if match else ""
