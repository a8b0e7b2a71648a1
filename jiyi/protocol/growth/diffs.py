"""How two versions of a file differ, line by line."""

from __future__ import annotations

from difflib import unified_diff
from typing import Literal

from pydantic import BaseModel

#: Lines around a change that are shown.
CONTEXT = 3
#: Longer texts are compared by their beginnings: comparing takes the square of their lines.
MAX_LINES = 2_000


class DiffLine(BaseModel):
    """A line of a comparison."""

    kind: Literal["same", "added", "removed", "place"]
    text: str


def diff(old: str, new: str) -> list[DiffLine]:
    """The lines that differ, with those around them; nothing if the texts are the same."""
    lines = unified_diff(old.splitlines()[:MAX_LINES], new.splitlines()[:MAX_LINES], lineterm="", n=CONTEXT)
    return [_line(line) for number, line in enumerate(lines) if number > 1]  # the first two name the files


def _line(line: str) -> DiffLine:
    match line[:1]:
        case "+":
            return DiffLine(kind="added", text=line[1:])
        case "-":
            return DiffLine(kind="removed", text=line[1:])
        case "@":
            return DiffLine(kind="place", text=line)
        case _:
            return DiffLine(kind="same", text=line[1:])
