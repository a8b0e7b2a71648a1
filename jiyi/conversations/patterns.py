"""The patterns that lie in the folders below as text: ``[section]`` lines, and below each its patterns, one a line."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from jiyi.text.sections import parsed


@cache
def sections(name: str) -> dict[str, list[str]]:
    """The lines of each section of a file (``extraction/cues.txt``), in order, without comments and blank lines.

    A file without sections is one, ``''``.
    """
    return parsed(files(__package__).joinpath(name).read_text(encoding="utf-8"))


@cache
def union(name: str, section: str) -> re.Pattern[str]:
    """One pattern that finds what any line of a section does, in upper or lower case."""
    return re.compile("|".join(sections(name)[section]), re.IGNORECASE)


def unions(name: str, prefix: str = "") -> Mapping[str, re.Pattern[str]]:
    """The sections whose names begin so, without the prefix, each as one pattern."""
    return {section.removeprefix(prefix): union(name, section) for section in sections(name) if section.startswith(prefix)}


def first(patterns: Mapping[str, re.Pattern[str]], text: str) -> str | None:
    """The name of the first pattern that is in a text."""
    return next((name for name, pattern in patterns.items() if pattern.search(text)), None)
