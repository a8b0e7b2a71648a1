"""The files put before an answer: who the agent is and how it works as instructions, whom it works for as quoted data."""

from __future__ import annotations

from collections.abc import Mapping

from jiyi.protocol.growth.identity_files import File
from jiyi.text.budget import cut_to_tokens, estimate_tokens
from jiyi.text.prompting import PREFACE, quoted, visible
from jiyi.text.words import language_of

#: In this order, the first ones first where not all fit.
SHOWN: tuple[File, ...] = ("SOUL", "AGENTS", "USER")
#: Tokens below which a part of a file says nothing.
LEAST_TOKENS = 20


def compose(files: Mapping[File, str], most: int) -> str:
    """The files in one text of at most ``most`` tokens; empty files, and those that do not fit, are left out."""
    made = ""
    for name in SHOWN:
        content = files.get(name, "").strip()
        found = _longest(made, name, content, most) if content else None
        made = found or made
    return made


def _longest(before: str, name: File, content: str, most: int) -> str | None:
    """The text with as much of the file at its end as fits; None if too little does."""
    room = most - estimate_tokens(before)
    while room >= LEAST_TOKENS:
        section = _section(name, content, room)
        if not section:
            return None
        made = "\n\n".join(filter(None, [before, section]))
        over = estimate_tokens(made) - most
        if over <= 0:
            return made
        room -= over
    return None


def _section(name: File, content: str, room: int) -> str:
    """The file's part of the prompt, its content of at most so many tokens; empty if none of it fits."""
    if name != "USER":
        return f"<{name}>\n{visible(cut_to_tokens(content, room))}\n</{name}>"
    lines: list[str] = []
    for line in filter(str.strip, content.splitlines()):
        said = quoted(line)
        if (cost := estimate_tokens(said)) <= room:
            lines.append(said)
            room -= cost
    return "\n".join([f"<{name}>", PREFACE[language_of(content)], *lines, f"</{name}>"]) if lines else ""
