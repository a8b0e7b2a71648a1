"""What new messages do to what was said before, and what in them does not stand for itself.

Asked once for the new messages of a session, with or without an LLM.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from uuid import UUID

from engine.conversations.attributes import subject_words
from engine.conversations.endings import TimedMessage, find_endings
from engine.conversations.forgetting import Fit, Order, forgets, may_order, says_what_to_do, to_forget
from engine.conversations.marks import Mark, Why
from engine.conversations.temporary import temporary
from engine.conversations.whose import Span, others_words, played_turns
from engine.heads.judgements import FORGET, KEEPING, NOTHING, PRIVATE, Heads, Judged
from jiyi.protocol.conversations import Message
from jiyi.text.clauses import sentences
from jiyi.text.kept import NOT_KEPT, may_be_kept

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
