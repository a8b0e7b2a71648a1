"""The files that say who an agent is: as the part of a prompt, and ``USER`` as it follows the profile."""

from __future__ import annotations

from collections.abc import Mapping

from engine.conversations.profiles import lines
from jiyi.chat.secrets import masked
from jiyi.protocol.conversations import Profile
from jiyi.protocol.identity import File, tidy
from jiyi.text.budget import cut_to_tokens, estimate_tokens
from jiyi.text.prompting import PREFACE, quoted, visible
from jiyi.text.words import Language, language_of

#: In this order, the first ones first where not all fit.
SHOWN: tuple[File, ...] = ("SOUL", "AGENTS", "USER")
#: Tokens below which a part of a file says nothing.
LEAST_TOKENS = 20


def compose_prompt(files: Mapping[File, str], most: int) -> str:
    """The files in one text of at most ``most`` tokens; empty files, and those that do not fit, are left out."""
    prompt = ""
    for name in SHOWN:
        if content := files.get(name, "").strip():
            prompt = _longest(prompt, name, content, most) or prompt
    return prompt


def _longest(before: str, name: File, content: str, most: int) -> str | None:
    """The text with as much of the file at its end as fits; None if too little does."""
    room = most - estimate_tokens(before)
    while room >= LEAST_TOKENS:
        section = _section(name, content, room)
        if not section:
            return None
        prompt = "\n\n".join(filter(None, [before, section]))
        over = estimate_tokens(prompt) - most
        if over <= 0:
            return prompt
        room -= over
    return None


def _section(name: File, content: str, room: int) -> str:
    """The file's part of the prompt, its content of at most so many tokens; empty if none of it fits."""
    if name != "USER":
        return f"<{name}>\n{visible(cut_to_tokens(content, room))}\n</{name}>"
    lines: list[str] = []
    for line in filter(str.strip, content.splitlines()):
        quotation = quoted(line)
        if (cost := estimate_tokens(quotation)) <= room:
            lines.append(quotation)
            room -= cost
    return "\n".join([f"<{name}>", PREFACE[language_of(content)], *lines, f"</{name}>"]) if lines else ""


#: What stands below is people's own and is kept as it is.
HEADING = "## Notes"
_TITLE: dict[Language, str] = {"en": "# User", "zh": "# 用户"}


def notes_of(content: str) -> str:
    """What people added to a file ``USER``."""
    _, heading, notes = f"\n{content}".partition(f"\n{HEADING}\n")
    return notes.strip() if heading else ""


def render_user_file(profile: Profile | None, notes: str, most: int) -> str:
    """The file; the profile is cut first where both do not fit into ``most`` characters."""
    known = "\n".join(str(value) for value in (profile or Profile()).model_dump(exclude_none=True).values())
    language = language_of(known)
    facts = [] if profile is None else [f"- {masked(' '.join(line.split()))}" for line in lines(profile, language)]
    below = f"\n\n{HEADING}\n{tidy(notes)}" if notes.strip() else ""
    above = "\n".join([_TITLE[language], *facts])
    return (above[: max(0, most - len(below))].rstrip() + below)[:most] if facts or below else ""
