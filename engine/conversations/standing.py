"""What new messages do to what was said before, and what in them does not stand for itself.

Asked once for the new messages of a session, with or without an LLM.

What holds for a day, a week, a trip only is an exception with an end of its own, and ends nothing. It is
known by a cue of limited time beside a word of exception (``temporary.txt``): "it's the 7:35 till Saturday",
这周改成周三. A vague cue ("these days", 暂时) lasts :data:`VAGUE`.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from uuid import UUID

from engine.conversations.attributes import subject_words
from engine.conversations.endings import TimedMessage, find_endings
from engine.conversations.forgetting import Fit, Order, forgets, may_order, says_what_to_do, to_forget
from engine.conversations.marks import Mark, Why
from engine.conversations.whose import Span, others_words, played_turns
from engine.heads.judgements import FORGET, KEEPING, NOTHING, PRIVATE, Heads, Judged
from engine.times.past import with_dates
from jiyi.protocol.conversations import Message
from jiyi.text.clauses import sentences
from jiyi.text.kept import NOT_KEPT, may_be_kept
from jiyi.text.sections import unions

#: Characters of the messages that the head of ``keeping`` has learned from, but for one in twenty.
LEARNED_CHARS = 200
#: Probability of asking nothing from which on a known wording of an order is none.
SURELY_NOTHING = 0.8


@dataclass(frozen=True, slots=True)
class SessionTurn:
    """A stored turn: whose words it is and when, by the speaker's clock, they were said."""

    node_id: UUID
    message: Message
    session_id: str
    marks: Sequence[Mark] = ()


@dataclass(frozen=True, slots=True)
class TurnPart:
    """Characters of a turn's text."""

    node_id: UUID
    start: int
    end: int


@dataclass(slots=True)
class Standing:
    """Marks of turns, and parts of turns that are to be forgotten; orders to forget that fit nothing."""

    marks: dict[UUID, list[Mark]] = field(default_factory=lambda: defaultdict(list))
    forgotten: list[TurnPart] = field(default_factory=list)
    not_found: list[str] = field(default_factory=list)


def standing(
    session: Sequence[SessionTurn], since: int, earlier: Sequence[SessionTurn], heads: Heads | None
) -> Standing:
    """What the session's turns from number ``since`` on change.

    Args:
        session: turns of one session, oldest first; those before ``since`` were looked at before.
        since: number of the first new one.
        earlier: the same user's own turns of any session before the new ones, oldest first.
        heads: the judges; without them nothing ends anything.
    """
    result = Standing()
    acted = played_turns([turn.message for turn in session])
    older = [turn for turn in earlier if turn.message.role == "user"]
    new = [turn.message.text for turn in session[since:] if turn.message.role == "user"]
    readable = [text for text in new if not text.startswith(tuple(NOT_KEPT.values()))]
    requests = {} if heads is None else _requests(heads, readable)
    for number, turn in enumerate(session):
        if number < since:
            continue
        text, is_users = turn.message.text, turn.message.role == "user"
        if number in acted or (not is_users and number and _is_elses(session[number - 1], result)):
            result.marks[turn.node_id].append(Mark(0, len(text), "else"))
        if number in acted or not is_users:
            continue
        said_at = turn.message.at or datetime.now(UTC)
        result.marks[turn.node_id] += [Mark(start, end, "else") for start, end in others_words(text)]
        of_time = temporary(text, said_at)
        result.marks[turn.node_id] += [Mark(*one.span, "until", one.until) for one in of_time]
        orders = forgets(text)
        request = requests.get(text, "")
        if heads is not None and request == PRIVATE and not orders:
            result.forgotten += [TurnPart(turn.node_id, *span) for span in _confidences(heads, text)]
        if heads is not None and request == FORGET and not orders and may_order(text):
            orders = _order(heads, text)
        _forget(turn, orders, older, result, certain=request != NOTHING)
        by_same = (one for one in older if one.message.name == turn.message.name)
        mine = [one for one in by_same if (one.message.at or said_at) <= said_at]
        messages = [
            TimedMessage(_remaining_text(one, result), one.message.at, one.session_id) for one in mine
        ]
        newer = TimedMessage(_remaining_text(turn, result), said_at, turn.session_id)
        for end in find_endings(messages, newer, heads):
            why: Why = "earlier" if not end.sure else "corrected" if end.corrected else "ended"
            mark = Mark(*end.span, why, said_at.date(), str(turn.node_id))
            result.marks[mine[end.old].node_id].append(mark)
        older.append(turn)
    return result


def _is_one(turns: Sequence[SessionTurn], fits: Sequence[Fit]) -> bool:
    """Whether it is clear which of the sentences are meant: all of one message, or the same in several."""
    words = {subject_words(turns[number].message.text[start:end]) for number, start, end in fits}
    return len({number for number, _, _ in fits}) == 1 or len(words) == 1


def _is_elses(turn: SessionTurn, changes: Standing) -> bool:
    """Whether a message is somebody else's words, or not to be kept: then so is the answer to it."""
    marks = [*turn.marks, *changes.marks[turn.node_id]]
    gone = turn.message.text.startswith(tuple(NOT_KEPT.values()))
    forgotten = any(part.node_id == turn.node_id for part in changes.forgotten)
    return gone or forgotten or any(mark.why == "else" for mark in marks)


def _requests(heads: Heads, texts: Sequence[str]) -> dict[str, str]:
    """What each message surely asks of the memory, by the head of ``keeping``; empty if that is not clear.

    In a long message a sentence has to ask it.
    """
    pieces = {
        text: [text] if len(text) <= LEARNED_CHARS else [text[slice(*span)] for span in sentences(text)]
        for text in texts
    }
    judged = iter(heads.keeping([piece for some in pieces.values() for piece in some]))
    return {
        text: _request(heads, [one for _ in some if (one := next(judged)) is not None])
        for text, some in pieces.items()
    }


def _request(heads: Heads, judged: Sequence[Judged]) -> str:
    sure = {label: heads.least(KEEPING, label) for label in (PRIVATE, FORGET)}
    for label, least in sure.items():
        if any(one.probabilities[label] >= least for one in judged):
            return label
    surely_nothing = judged and all(one.probabilities[NOTHING] >= SURELY_NOTHING for one in judged)
    return NOTHING if surely_nothing else ""


def _order(heads: Heads, text: str) -> list[Order]:
    """The order that a message gives in unknown words: its likeliest sentence that says what is to happen."""
    spans = sentences(text)
    judged = heads.keeping([text[slice(*span)] for span in spans])
    likely = [
        (says_what_to_do(text[slice(*span)]), 0.0 if one is None else one.probabilities[FORGET], span)
        for one, span in zip(judged, spans, strict=True)
    ]
    *_, span = max(likely)
    return [Order(*span, text[slice(*span)])]


def _confidences(heads: Heads, text: str) -> list[Span]:
    """What a message wants not to have kept, if the rest asks for something: all that may not be."""
    keepable = may_be_kept(text)
    rest = list(_without(sentences(text), keepable))
    rest_text = " ".join(text[slice(*span)] for span in rest)
    return rest if not keepable or _requests(heads, [rest_text])[rest_text] != NOTHING else []


def _without(spans: Iterable[Span], keepable: Collection[Span]) -> Iterator[Span]:
    """The spans without those, and the ends of those, that are kept."""
    for start, end in spans:
        stop = next((first for first, last in keepable if start <= first and last <= end), end)
        if stop > start:
            yield start, stop


def _forget(
    turn: SessionTurn,
    orders: Iterable[Order],
    older: Sequence[SessionTurn],
    result: Standing,
    *,
    certain: bool,
) -> None:
    """Carry out the orders of a message; one that fits nothing goes too, if it is ``certain`` to be one."""
    text = turn.message.text
    for order in orders:
        things = to_forget(text, order, [one.message.text for one in older])
        parts = [span for fits in things if order.of_all or _is_one(older, fits) for span in fits]
        result.forgotten += [TurnPart(older[number].node_id, start, end) for number, start, end in parts]
        if not parts and not certain:  # "delete the second paragraph"
            continue
        result.forgotten.append(TurnPart(turn.node_id, order.start, order.end))
        if not parts:
            result.not_found.append(order.text)


def own(turn: SessionTurn, changes: Standing) -> Message:
    """A message with what its writer says of their own and wants to have kept, in its places."""
    text = _remaining_text(turn, changes, "else")
    return turn.message if text == turn.message.text else turn.message.model_copy(update={"text": text})


def _remaining_text(turn: SessionTurn, changes: Standing, why: Why | None = None) -> str:
    """A turn's text with spaces in place of what is marked (only so, if ``why`` is given) or forgotten."""
    marks = (*turn.marks, *changes.marks[turn.node_id])
    spans = [(mark.start, mark.end) for mark in marks if why in (None, mark.why)]
    spans += [(part.start, part.end) for part in changes.forgotten if part.node_id == turn.node_id]
    text = turn.message.text
    for start, end in spans:
        text = f"{text[:start]}{' ' * (end - start)}{text[end:]}"
    return text


#: How long something lasts that is only said to be for a time.
VAGUE = timedelta(days=14)
#: Characters of a message that are looked at.
READ_CHARS = 4_000

_CUES = unions(__package__, "temporary.txt")
_LIMITED, _EXCEPTION, _USUAL, _ONLY = (_CUES[name] for name in ("limited", "exception", "usual", "only"))
_DATED = re.compile(r"\((\d{4})-(\d{2})(?:-(\d{2}))?(?:/(?:(\d{4})-)?(\d{2})-(\d{2}))?\)")
_TILL = re.compile(r"'?\btill?\b(?: (?:the|this|next))?", re.IGNORECASE)
_MONTH = re.compile(r"(\d{1,2}|[一二三四五六七八九十]{1,2})月")
_DAY = re.compile(r"(\d{1,2})\s?(?:st|nd|rd|th|号|日)")
_LENGTH = re.compile(
    r"(?P<n>\d{1,2}|a|one|two|three|four|couple of|few|[一两二三四五六几])\s?个?"
    r"(?P<unit>days?|nights?|weeks?|months?|fortnights?|天|晚|周|星期|礼拜|月)",
    re.IGNORECASE,
)
_CHINESE_MONTHS = ["", *"一 二 三 四 五 六 七 八 九 十 十一 十二".split()]
_WEEK = re.compile(r"\b(?:this|the|all) week\b|这个?(?:周|星期|礼拜)|本周", re.IGNORECASE)
_THIS_MONTH = re.compile(r"\bthis month\b|这一?个月|本月", re.IGNORECASE)
_TODAY = re.compile(r"\b(?:today|tonight)\b|今天|今晚|今日", re.IGNORECASE)
#: Days of a unit of time.
_UNIT_DAYS = {
    unit: days
    for days, units in {1: "day night 天 晚", 7: "week 周 星期 礼拜", 14: "fortnight", 30: "month 月"}.items()
    for unit in units.split()
}
#: Days within which each number of a day comes once at least.
DAYS_AHEAD = 62
_NUMBERS = {
    word: number
    for number, words in enumerate(
        ("a|one|一", "two|couple of|两|二", "three|few|三|几", "four|四", "五", "六"), start=1
    )
    for word in words.split("|")
}


@dataclass(frozen=True, slots=True)
class Temporary:
    """A span of a message, and the last day on which it is so."""

    span: Span
    until: date


def temporary(text: str, said_at: datetime) -> list[Temporary]:
    """What a message says only of a time, as of the speaker's day on which it was said."""
    read = text[:READ_CHARS]
    if not (_EXCEPTION.search(read) or _USUAL.search(read)):
        return []
    result: list[Temporary] = []
    until: date | None = None
    for start, end in sentences(read):
        sentence = read[start:end]
        match = _LIMITED.search(sentence)
        if match is not None and (_EXCEPTION.search(sentence) or _USUAL.search(read[start:])):
            until = _end(match.group(), sentence, said_at)
        elif until is None or not _ONLY.search(sentence) or _USUAL.search(sentence):
            until = None
            continue
        usual = _USUAL.search(sentence)
        last = start + usual.start() if usual and usual.start() > len(sentence) // 3 else end
        result.append(Temporary((start, last), until))
    return result


def _end(cue: str, sentence: str, said_at: datetime) -> date:
    """The last day that a cue names; :data:`VAGUE` ahead where it names none."""
    day = said_at.date()
    readings = (
        _named_day(cue, said_at),
        _numbered_day(cue, day),
        _unit_end(cue, sentence, day),
        _length_end(cue, day),
    )
    return next((reading for reading in readings if reading is not None), day + VAGUE)


def _named_day(cue: str, said_at: datetime) -> date | None:
    dated = _DATED.search(with_dates(_TILL.sub("until", cue), said_at))
    if dated is None:
        return None
    year, month, first, last_year, last_month, last = dated.groups()
    if last is not None:
        return date(int(last_year or year), int(last_month), int(last))
    day = date(int(year), int(month), int(first or 1))
    return _month_end(day) if first is None else day


def _numbered_day(cue: str, day: date) -> date | None:
    """The next day of a month with a number: the 14th, 14号."""
    if (numbered := _DAY.search(cue)) is None:
        return None
    ahead = (day + timedelta(days=days) for days in range(DAYS_AHEAD))
    return next((candidate for candidate in ahead if candidate.day == int(numbered[1])), None)


def _unit_end(cue: str, sentence: str, day: date) -> date | None:
    """The end of this week, of this month or of the one that the sentence names, or today."""
    if _WEEK.search(cue):
        return day + timedelta(days=6 - day.weekday())
    if _TODAY.search(cue):
        return day
    if _THIS_MONTH.search(cue) is None:
        return None
    month = day.month
    if match := _MONTH.search(sentence):
        if match[1].isdigit():
            month = int(match[1])
        elif match[1] in _CHINESE_MONTHS:
            month = _CHINESE_MONTHS.index(match[1])
    return _month_end(date(day.year + (month < day.month), max(1, min(12, month)), 1))


def _length_end(cue: str, day: date) -> date | None:
    length = _LENGTH.search(cue)
    if length is None:
        return None
    number = _NUMBERS.get(length["n"].lower()) or int(length["n"])
    unit = length["unit"].lower().rstrip("s")
    return day + timedelta(days=number * _UNIT_DAYS[unit])


def _month_end(day: date) -> date:
    return (day.replace(day=1) + timedelta(days=32)).replace(day=1) - timedelta(days=1)
