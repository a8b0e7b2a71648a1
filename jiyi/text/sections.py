"""Text files of patterns: ``[section]`` lines, and below each its patterns, one a line."""

from __future__ import annotations

import re

_HEADER = re.compile(r"\[([\w: -]+)\]")


def parsed(text: str) -> dict[str, list[str]]:
    """The lines of each section, in order, without comments and blank lines. What stands before the first is of section ``''``."""
    found: dict[str, list[str]] = {}
    section = ""
    for line in text.splitlines():
        if header := _HEADER.fullmatch(line):
            section = header[1]
        elif line.strip() and not line.startswith("#"):
            found.setdefault(section, []).append(line)
    return found
