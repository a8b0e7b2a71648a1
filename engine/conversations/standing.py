"""What new messages do to what was said before, and what in them does not stand for itself.

Asked once for the new messages of a session, with or without an LLM: an LLM may say what a message tells, but not what it ends.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from uuid import UUID

from engine.conversations.endings import Said, ended
from engine.conversations.forgetting import forgets, to_forget
from engine.conversations.marks import Mark, Why
from engine.conversations.temporary import temporary
from engine.conversations.whose import others_words, played
from engine.heads.judgements import Heads
from jiyi.protocol.conversations import Message
from jiyi.text.kept import NOT_KEPT


@dataclass(frozen=True, slots=True)
class SaidTurn:
    """A turn as it is stored: whose words it is and when, by the speaker's clock, they were said."""

    node_id: UUID
    message: Message
    session_id: str
    marks: Sequence[Mark] = ()


@dataclass(frozen=True, slots=True)
class Part:
    """Characters of a turn's text."""

    node_id: UUID
    start: int
    end: int


@dataclass(slots=True)
class Standing:
    """Marks of turns, and parts of turns that are to be forgotten; orders to forget that fit nothing."""

    marks: dict[UUID, list[Mark]] = field(default_factory=lambda: defaultdict(list))
    forgotten: list[Part] = field(default_factory=list)
    not_found: list[str] = field(default_factory=list)


def standing(session: Sequence[SaidTurn], since: int, earlier: Sequence[SaidTurn], heads: Heads | None) -> Standing:
    """What the session's turns from number ``since`` on change.

    Args:
        session: turns of one session, oldest first; those before ``since`` were looked at before.
        since: number of the first new one.
        earlier: the same user's own turns of any session before the new ones, oldest first.
        heads: the judges; without them nothing ends anything.
    """
    result = Standing()
    acted = played([turn.message for turn in session])
    older = [turn for turn in earlier if turn.message.role == "user"]
    for number, turn in enumerate(session):
        if number < since:
            continue
        text = turn.message.text
        if turn.message.role != "user":
            if number in acted or (number and _is_elses(session[number - 1], result)):
                result.marks[turn.node_id].append(Mark(0, len(text), "else"))
            continue
        if number in acted:
            result.marks[turn.node_id].append(Mark(0, len(text), "else"))
            continue
        said_at = turn.message.at or datetime.now(UTC)
        result.marks[turn.node_id] += [Mark(start, end, "else") for start, end in others_words(text)]
        result.marks[turn.node_id] += [Mark(*one.span, "until", one.until) for one in temporary(text, said_at)]
        _forget(turn, older, result)
        mine = [one for one in older if one.message.name == turn.message.name and (one.message.at or said_at) <= said_at]
        said = [Said(_blanked(one.message.text, [*one.marks, *result.marks[one.node_id]]), one.message.at, one.session_id) for one in mine]
        newer = Said(_blanked(text, result.marks[turn.node_id]), said_at, turn.session_id)
        for end in ended(said, newer, heads):
            why: Why = "earlier" if not end.sure else "corrected" if end.corrected else "ended"
            result.marks[mine[end.old].node_id].append(Mark(*end.span, why, said_at.date(), str(turn.node_id)))
        older.append(turn)
    return result


def _is_elses(turn: SaidTurn, found: Standing) -> bool:
    """Whether a message is, or has, somebody else's words, or is not to be kept: then so is the answer to it."""
    marks = [*turn.marks, *found.marks[turn.node_id]]
    return any(mark.why == "else" for mark in marks) or turn.message.text.startswith(tuple(NOT_KEPT.values()))


def _forget(turn: SaidTurn, older: Sequence[SaidTurn], result: Standing) -> None:
    text = turn.message.text
    for order in forgets(text):
        parts = to_forget(text, order, [one.message.text for one in older])
        result.forgotten += [Part(older[number].node_id, start, end) for number, start, end in parts]
        result.forgotten.append(Part(turn.node_id, order.start, order.end))
        if not parts:
            result.not_found.append(order.about)


def own(turn: SaidTurn, marks: Sequence[Mark]) -> Message:
    """A message with what its writer says of their own, at the places at which they said it."""
    foreign = [mark for mark in (*turn.marks, *marks) if mark.why == "else"]
    return turn.message.model_copy(update={"text": _blanked(turn.message.text, foreign)}) if foreign else turn.message


def _blanked(text: str, marks: Iterable[Mark]) -> str:
    """The text with spaces in the place of what does not stand."""
    for mark in marks:
        text = f"{text[: mark.start]}{' ' * (mark.end - mark.start)}{text[mark.end :]}"
    return text
