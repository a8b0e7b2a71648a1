"""The files that say who an agent is (``SOUL``), how it works (``AGENTS``), for whom (``USER``) and what it
looks after (``HEARTBEAT``); requests on them, and attempts to override what they say.
"""

from __future__ import annotations

import unicodedata
from datetime import date, datetime
from difflib import unified_diff
from typing import Annotated, Literal, get_args
from uuid import UUID

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, model_validator

from jiyi.protocol import limits
from jiyi.protocol.base import Name, Number, OfAgent, Paged
from jiyi.text.sections import union

File = Literal["SOUL", "AGENTS", "USER", "HEARTBEAT"]
FILES: tuple[File, ...] = get_args(File)
#: Changed by proposal only; ``USER`` follows the profile.
PROPOSABLE: tuple[File, ...] = ("SOUL", "AGENTS", "HEARTBEAT")
#: Callers may also give a file's name in a folder, which ends with this.
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
    problems = []
    if len(content) > most:
        problems.append(f"has {len(content):,} characters, at most {most:,} are kept; say it shorter")
    hidden = next(
        (char for char in content if char not in _SEEN and unicodedata.category(char) in _HIDDEN), None
    )
    if hidden is not None:
        problems.append(f"has the character U+{ord(hidden):04X}, which nobody sees; leave it out")
    if (words := override_in(content)) is not None:
        problems.append(f"reads like an attempt to override instructions ({words!r}); say it in other words")
    return problems


def tidy(content: str) -> str:
    """The text with ends of lines as they are kept, without blank ends."""
    return content.replace("\r\n", "\n").replace("\r", "\n").strip()


#: Lines around a change that are shown.
CONTEXT_LINES = 3
#: Longer texts are compared by their beginnings: comparing takes the square of their lines.
MAX_LINES = 2_000


#: What a line of a comparison begins with; every other one is ``same``.
_KINDS = {"+": "added", "-": "removed", "@": "place"}


def diff(old: str, new: str) -> list[dict[str, str]]:
    """The lines that differ, with those around them, each its ``kind`` (same, added, removed, place) and
    ``text``; nothing if the texts are the same.
    """
    lines = unified_diff(
        old.splitlines()[:MAX_LINES], new.splitlines()[:MAX_LINES], lineterm="", n=CONTEXT_LINES
    )
    body = [line for number, line in enumerate(lines) if number > 1]  # the first two name the files
    return [
        {"kind": _KINDS.get(line[:1], "same"), "text": line if line[0] == "@" else line[1:]} for line in body
    ]


MAX_REASON_CHARS = 2_000
#: Tokens of the files in a prompt, unless asked otherwise, and at most.
PROMPT_TOKENS, MAX_PROMPT_TOKENS = 2_000, 32_000


def _writable(content: str) -> str:
    content = tidy(content)
    if problems := problems_of(content, limits.MAX_IDENTITY_CHARS):
        raise ValueError("; ".join(problems))
    return content


def _proposable(file: File) -> File:
    if file not in PROPOSABLE:
        raise ValueError("USER follows the profile; use identity.update_user for what people add to it")
    return file


#: A text that may become a file.
Content = Annotated[str, AfterValidator(_writable)]
ProposableFile = Annotated[FileName, AfterValidator(_proposable)]
Reason = Annotated[str, Field(pattern=r"\S", max_length=MAX_REASON_CHARS)]
Version = Annotated[int, Field(ge=1, le=2_147_483_647)]


class IdentityFile(BaseModel):
    """A file of an agent; version 0 and empty where nothing was written yet."""

    file: File
    version: int
    content: str = Field("", description="Its text; not in lists.")
    characters: int | None = Field(None, description="Of its text; only in lists.")
    reason: str = ""
    author: str = ""
    proposal_id: UUID | None = None
    created_at: datetime | None = None


class GetFile(OfAgent):
    """Which file; the current version unless one is named."""

    file: FileName
    version: Version | None = None


class ComposePrompt(OfAgent):
    """The files as they belong before an answer."""

    max_tokens: int = Field(
        PROMPT_TOKENS, ge=50, le=MAX_PROMPT_TOKENS, description="Most tokens (estimated)."
    )


class ComposedPrompt(BaseModel):
    """Empty where no file says anything."""

    prompt: str
    tokens: int


class FileHistory(Paged, OfAgent):
    """Which file's versions."""

    file: FileName


class ProposeChange(OfAgent):
    """A file as somebody would have it, and why."""

    file: ProposableFile
    suggested: Content
    reason: Reason
    base_version: Number | None = Field(None, description="The version that was read; else the current one.")


class UpdateUser(OfAgent):
    """What people add to what the profile says of the user, in their own words; blank: nothing."""

    notes: Content


class TakeSnapshot(OfAgent):
    """What the snapshot is called."""

    name: Name


class SnapshotState(BaseModel):
    """Which version of each file was current."""

    snapshot_id: UUID
    agent_id: str
    name: str
    versions: dict[str, int]
    author: str
    created_at: datetime


class ListSnapshots(Paged, OfAgent):
    """Whose snapshots; the latest first."""


class Rollback(OfAgent):
    """What to go back to: a version of a file, or a snapshot of all. It is written as a new version."""

    file: FileName | None = None
    version: Number | None = Field(None, description="0 empties the file.")
    snapshot_id: UUID | None = None
    base_version: Number | None = Field(
        None, description="The version that was read: if another is current, nothing is changed."
    )
    reason: str = Field("", max_length=MAX_REASON_CHARS)

    @model_validator(mode="after")
    def _one_of_both(self) -> Rollback:
        if (self.snapshot_id is None) == (self.file is None or self.version is None):
            raise ValueError("file: give a file with a version, or a snapshot_id, not both")
        return self


#: Characters that are quoted.
QUOTED = 80
_OVERRIDE = union(__package__, "overrides.txt", "")


def override_in(text: str) -> str | None:
    """The words of the first such attempt in a text, or None."""
    match = _OVERRIDE.search(text)
    return None if match is None else " ".join(match[0].split())[:QUOTED]


#: Days that one answer covers, unless asked otherwise, and at most.
DAYS, MAX_DAYS = 30, 366


class Tally(BaseModel):
    """Of one kind of thing on one day (UTC): how many there came to be, and how often one was used."""

    day: date
    what: str
    grown: int
    used: int


class TallyQuery(OfAgent):
    """Of which agent, and how many days back, today included."""

    days: int = Field(DAYS, ge=1, le=MAX_DAYS)
