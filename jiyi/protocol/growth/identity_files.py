"""The files that say who an agent is, and what may be written in them.

``SOUL`` says who it is, ``AGENTS`` how it works, ``USER`` whom it works for, ``HEARTBEAT`` what it looks after by itself.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from typing import Annotated, Literal, get_args

from pydantic import BeforeValidator

from jiyi.protocol.growth.overrides import override_in

File = Literal["SOUL", "AGENTS", "USER", "HEARTBEAT"]
FILES: tuple[File, ...] = get_args(File)
#: Changed by proposal only; ``USER`` follows the profile.
PROPOSABLE: tuple[File, ...] = ("SOUL", "AGENTS", "HEARTBEAT")
ProposalStatus = Literal["pending", "approved", "rejected"]
#: Whoever knows the files by their names in a folder may name them so.
_SUFFIX = ".md"
#: Kinds of characters that are seen as nothing: text that people approve must be what they see.
_HIDDEN = frozenset({"Cc", "Cf", "Co", "Cs"})
#: Line breaks and tabs; and what joins emoji and the letters of some scripts, which is seen in what it joins.
_SEEN = frozenset("\n\t\u200d\u200c\ufe0f")


def _file_of(value: object) -> object:
    return value.strip().upper().removesuffix(_SUFFIX.upper()) if isinstance(value, str) else value


#: As people write it: ``soul``, ``SOUL.md``.
FileName = Annotated[File, BeforeValidator(_file_of)]


def problems_of(content: str, most: int) -> list[str]:
    """What is wrong with a text that is to become a file of at most ``most`` characters; empty if nothing."""
    found = []
    if len(content) > most:
        found.append(f"has {len(content):,} characters, at most {most:,} are kept; say it shorter")
    hidden = next((char for char in content if char not in _SEEN and unicodedata.category(char) in _HIDDEN), None)
    if hidden is not None:
        found.append(f"has the character U+{ord(hidden):04X}, which nobody sees; leave it out")
    if (words := override_in(content)) is not None:
        found.append(f"reads like an attempt to override instructions ({words!r}); say it in other words")
    return found


def tidy(content: str) -> str:
    """The text with ends of lines as they are kept, without blank ends."""
    return content.replace("\r\n", "\n").replace("\r", "\n").strip()


def file_problems(files: Mapping[File, str], most: int) -> list[str]:
    """The same for several files, each sentence with its file's name."""
    return [f"{name}: {problem}" for name, content in files.items() for problem in problems_of(content, most)]
