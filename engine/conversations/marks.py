"""Parts of a memory's text that no longer stand for themselves, as they are kept with it and shown.

A part *ended* or was *corrected*, is *earlier* than something by which it may have ended, holds only *until*
a day, or is somebody *else*'s words. The text itself stays: shown is what still stands (:func:`live`), and
below it what has ended, or may have, marked as such.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from typing import Any, Literal
from uuid import UUID

from pydantic import TypeAdapter, ValidationError

from engine.conversations.attributes import subject_words
from engine.heads.judgements import WORKED_OUT, stated
from jiyi.protocol.base import JsonObject
from jiyi.text.clauses import clauses, without
from jiyi.text.prompt import Over

#: Keys of a memory's provenance: its marks, and how many minutes the speaker's clock was ahead of UTC.
MARKS, UTC_OFFSET = "marks", "utc_offset"
#: Minutes that a clock is away from UTC at most.
MOST_OFFSET = 24 * 60 - 1
#: Share of a statement's words from which on it says what a part of a message says.
SAME_WORDS = 0.6

Why = Literal["ended", "corrected", "earlier", "until", "else"]
#: What something newer does to a part.
ENDS = ("ended", "corrected", "earlier")


@dataclass(frozen=True, slots=True)
class Mark:
    """Some characters; ``day``: when it ended, or the last on which it holds; ``by``: a memory's id."""

    start: int
    end: int
    why: Why
    day: date | None = None
    by: str | None = None

    def json(self) -> JsonObject:
        return {
            "start": self.start,
            "end": self.end,
            "why": self.why,
            "day": self.day and self.day.isoformat(),
            "by": self.by,
        }


_MARK: TypeAdapter[Mark] = TypeAdapter(Mark)


def marks_of(provenance: Mapping[str, Any], on: date | None = None) -> list[Mark]:
    """The marks of a memory; ``on`` a day those that count then: it had ended, or held no longer."""
    entries = provenance.get(MARKS)
    marks = []
    for entry in entries if isinstance(entries, list) else ():
        try:
            mark = _MARK.validate_python(entry)
        except ValidationError:  # a publisher's own, under our name
            continue
        day = mark.day
        if on is None or day is None or (day < on if mark.why == "until" else day <= on):
            marks.append(mark)
    return marks


def local(at: datetime, provenance: Mapping[str, Any], zone: tzinfo | None) -> datetime:
    """A time by the clock of the speaker: by the offset that it came with, else in the zone given or UTC."""
    offset = provenance.get(UTC_OFFSET)
    if isinstance(offset, int) and abs(offset) <= MOST_OFFSET:
        return at.astimezone(timezone(timedelta(minutes=offset)))
    return at.astimezone(zone or UTC)


def live(text: str, marks: Iterable[Mark]) -> str:
    """What still stands of a text; empty if nothing does."""
    rest = without(text, [(mark.start, mark.end) for mark in marks])
    return rest if subject_words(rest) or not subject_words(text) else ""


@dataclass(frozen=True, slots=True)
class VisibleText:
    """What is shown of a memory: what stands of it, by the speaker's clock, and what may have ended."""

    text: str
    at: datetime
    ended: tuple[Over, ...] = ()
    #: Ids of the newer memories that say so.
    newer: tuple[UUID, ...] = ()


def visible_text(text: str, at: datetime, provenance: Mapping[str, Any], now: datetime) -> VisibleText:
    """A memory as a prompt shows it ``now``: without what was corrected, and others' words."""
    said_at = local(at, provenance, now.tzinfo)
    marks = marks_of(provenance, now.date())
    if not marks:
        return VisibleText(text, said_at)
    over = [
        Over(part, mark.day, mark.why != "earlier", UUID(mark.by) if mark.by else None)
        for mark in marks
        if mark.day is not None
        and mark.why in ("ended", "earlier", "until")
        and (part := text[mark.start : mark.end].strip())
    ]
    newer = dict.fromkeys(UUID(mark.by) for mark in marks if mark.why in ENDS and mark.by is not None)
    return VisibleText(live(text, marks), said_at, tuple(over), tuple(newer))


def is_same(statement: str, part: str) -> bool:
    """Whether a statement says hardly more than a part of a message does."""
    words = subject_words(stated(statement))
    return bool(words) and len(words & subject_words(part)) >= SAME_WORDS * len(words)


def spans_in(statement: str, text: str) -> list[tuple[int, int]]:
    """Which parts of a message a statement was taken from: those whose words it has."""
    words = subject_words(stated(statement))
    spans = []
    for part in clauses(text):
        of_part = subject_words(part.text)
        if of_part and len(of_part & words) >= SAME_WORDS * len(of_part):
            spans.append((part.start, part.end))
    return spans


def span_of_part(part: str, statement: str) -> tuple[int, int] | None:
    """Where a part of a message stands in a statement, in which days may have been worked out."""
    start = statement.find(part)
    if start >= 0:
        return start, start + len(part)
    plain: list[str] = []
    places: list[int] = []
    last = 0
    for match in (*WORKED_OUT.finditer(statement), None):
        stop = len(statement) if match is None else match.start()
        plain.append(statement[last:stop])
        places += range(last, stop)
        last = stop if match is None else match.end()
    start = "".join(plain).find(part)
    return None if start < 0 else (places[start], places[start + len(part) - 1] + 1)


def merge_marks(provenance: Mapping[str, Any], marks: Sequence[Mark]) -> list[JsonObject]:
    """All marks of a memory with those that are new; of the same part only the newest."""
    new = {(mark.start, mark.end): mark for mark in marks}
    previous = [mark for mark in marks_of(provenance) if (mark.start, mark.end) not in new]
    return [mark.json() for mark in sorted([*previous, *new.values()], key=lambda mark: mark.start)]
