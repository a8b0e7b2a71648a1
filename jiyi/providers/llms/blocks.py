"""The data of a question as a block that nothing in it can end: JSON strings between ``<data>`` and ``</data>``.

Angle brackets, and characters that cannot be seen, are escaped in them. The block has a greatest length: long texts are
shortened, all to the same length, and if even that is too much the last ones are left out. Both is said in the block.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from jiyi.providers.llms.questions import Question

BEGIN, END = "<data>", "</data>"
CUT = "…"
#: No text is shortened below this: less says nothing.
LEAST_CHARS = 40
#: Characters of the agent's name, and of a speaker's.
NAME_CHARS = 200
#: For the marks of the block and the note on what was left out.
FRAME_CHARS = 120
#: Around each text: a colon, a space, two quotes, the end of the line.
ROW_CHARS = 5

#: Escaped: controls, invisible marks, private use, unassigned, half surrogates, ends of lines.
_HIDDEN = frozenset({"Cc", "Cf", "Co", "Cn", "Cs", "Zl", "Zp"})


@dataclass(frozen=True, slots=True)
class Block:
    """``shortened`` texts and ``left_out`` ones are those that the greatest length did not allow."""

    text: str
    shortened: int
    left_out: int


def block_of(question: Question[Any], limit: int) -> Block:
    """The block of a question, of at most ``limit`` characters (``limit`` ≥ 2,000)."""
    head = [f"agent: {quoted(question.agent_id, NAME_CHARS)}"]
    if (count := getattr(question, "count", None)) is not None:
        head.append(f"count: {count}")
    room = limit - FRAME_CHARS - sum(map(len, head))
    # What is longer than the whole block need not be looked at to its end.
    rows = [(label, [_shown(char) for char in text[:limit]]) for label, text in _rows(question)]
    sizes = [sum(map(len, pieces)) for _, pieces in rows]
    kept = _that_fit([len(label) + ROW_CHARS + min(size, LEAST_CHARS) for (label, _), size in zip(rows, sizes, strict=True)], room)
    share = _share(sizes[:kept], room - sum(len(label) + ROW_CHARS for label, _ in rows[:kept]))
    lines = [f'{label}: "{_cut(pieces, size, share)}"' for (label, pieces), size in zip(rows[:kept], sizes, strict=False)]
    if kept < len(rows):
        lines.append(f"({len(rows) - kept:,} more were left out for lack of room)")
    shortened = sum(size > share for size in sizes[:kept])
    return Block("\n".join([BEGIN, *head, *lines, END]), shortened, len(rows) - kept)


def quoted(text: str, room: int) -> str:
    """A text as a JSON string of at most ``room`` characters and its quotes."""
    pieces = [_shown(char) for char in text[: room + 1]]
    return f'"{_cut(pieces, sum(map(len, pieces)), room)}"'


def visible_json(value: object) -> str:
    """A value as JSON whose texts end no block and hide nothing."""
    return "".join(map(_escaped, json.dumps(value, ensure_ascii=False)))


def _rows(question: Question[Any]) -> Iterator[tuple[str, str]]:
    """Labels and texts; what may be left out comes last."""
    for field in ("kind", "about", "focal_point", "text"):
        if value := getattr(question, field, ""):
            yield field.replace("_", " "), value
    for number, statement in enumerate(getattr(question, "statements", ())):
        yield f"statement {number}", statement
    for number, (speaker, said) in enumerate(getattr(question, "utterances", ())):
        yield f"line {number}", f"{speaker[:NAME_CHARS]}: {said}"


def _that_fit(least: list[int], room: int) -> int:
    """How many of the rows fit, from the first, if each is as short as it may be."""
    for number, size in enumerate(least):
        room -= size
        if room < 0:
            return number
    return len(least)


def _share(sizes: list[int], room: int) -> int:
    """The greatest length that all texts may have: what short ones do not need, longer ones get."""
    remaining = sorted(sizes)
    while remaining and remaining[0] * len(remaining) <= room:
        room -= remaining.pop(0)
    return room // len(remaining) if remaining else max(sizes, default=0)


def _cut(pieces: list[str], size: int, room: int) -> str:
    if size <= room:
        return "".join(pieces)
    taken: list[str] = []
    for piece in pieces:
        room -= len(piece)
        if room < len(CUT):
            break
        taken.append(piece)
    return "".join(taken) + CUT


@lru_cache(maxsize=16_384)
def _shown(char: str) -> str:
    """A character inside a JSON string, written so that it is seen and ends nothing."""
    escaped = _escaped(char)
    return escaped if escaped != char else json.dumps(char, ensure_ascii=False)[1:-1]


@lru_cache(maxsize=16_384)
def _escaped(char: str) -> str:
    """An angle bracket or an invisible character as JSON's escape, any other as it is."""
    if char in "<>" or unicodedata.category(char) in _HIDDEN:
        escaped = json.dumps(char)[1:-1]
        return escaped if escaped != char else f"\\u{ord(char):04x}"
    return char
