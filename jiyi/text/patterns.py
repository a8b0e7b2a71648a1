"""Files of patterns: ``[section]`` lines, and below each its patterns, one a line; lines with # are comments."""

from __future__ import annotations

import re

_SECTION = re.compile(r"\[[\w: ]+\]")


def read(text: str) -> dict[str, list[str]]:
    """The lines of each section, in order, without comments and blank lines. A text without sections is one, ``''``."""
    found: dict[str, list[str]] = {}
    section = ""
    for line in text.splitlines():
        if _SECTION.fullmatch(line):
            section = line[1:-1]
        elif line.strip() and not line.startswith("#"):
            found.setdefault(section, []).append(line)
    return found
