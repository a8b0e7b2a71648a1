"""The file ``USER``: what the profile says, and below a heading what people added in their own words."""

from __future__ import annotations

from engine.conversations.profiles import lines
from jiyi.chat.secrets import masked
from jiyi.protocol.conversations.types import Profile
from jiyi.protocol.growth.identity_files import tidy
from jiyi.text.words import Language, language_of

#: What stands below is people's own and is kept as it is.
HEADING = "## Notes"
_TITLE: dict[Language, str] = {"en": "# User", "zh": "# 用户"}


def notes_of(content: str) -> str:
    """What people added to a file ``USER``."""
    _, found, notes = f"\n{content}".partition(f"\n{HEADING}\n")
    return notes.strip() if found else ""


def render(profile: Profile | None, notes: str, most: int) -> str:
    """The file; the profile is cut first where both do not fit into ``most`` characters."""
    known = "\n".join(str(value) for value in (profile or Profile()).model_dump(exclude_none=True).values())
    language = language_of(known)
    said = [] if profile is None else [f"- {masked(' '.join(line.split()))}" for line in lines(profile, language)]
    below = f"\n\n{HEADING}\n{tidy(notes)}" if notes.strip() else ""
    above = "\n".join([_TITLE[language], *said])
    return (above[: max(0, most - len(below))].rstrip() + below)[:most] if said or below else ""
