"""Text files of patterns beside the modules that use them: ``[section]`` lines, then patterns, one a line."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

_HEADER = re.compile(r"\[([\w: -]+)\]")
#: What was meant for one, and would be a pattern of single letters.
_NO_HEADER = re.compile(r"\[[a-z]+\W[^\]]*\]")


def parsed(text: str) -> dict[str, list[str]]:
    """The lines of each section, without comments and blank lines; those before the first are of ``''``.

    Raises:
        ValueError: a line looks like the name of a section, and has signs that a name cannot have.
    """
    sections: dict[str, list[str]] = {}
    section = ""
    for line in text.splitlines():
        if header := _HEADER.fullmatch(line):
            section = header[1]
        elif _NO_HEADER.fullmatch(line):
            raise ValueError(
                f"{line} is no name of a section: it may have letters, digits, colons, spaces and hyphens"
            )
        elif line.strip() and not line.startswith("#"):
            sections.setdefault(section, []).append(line)
    return sections


@cache
def sections(package: str, name: str) -> dict[str, list[str]]:
    """The lines of each section of a file below a package (``cues.txt``), in order."""
    return parsed(files(package).joinpath(name).read_text(encoding="utf-8"))


@cache
def union(package: str, name: str, section: str) -> re.Pattern[str]:
    """One pattern that finds what any line of a section does, in upper or lower case."""
    return re.compile("|".join(sections(package, name)[section]), re.IGNORECASE)


def unions(package: str, name: str, prefix: str = "") -> Mapping[str, re.Pattern[str]]:
    """The sections whose names begin so, without the prefix, each as one pattern."""
    names = sections(package, name)
    return {
        section.removeprefix(prefix): union(package, name, section)
        for section in names
        if section.startswith(prefix)
    }


def first(patterns: Mapping[str, re.Pattern[str]], text: str) -> str | None:
    """The name of the first pattern that is in a text."""
    return next((name for name, pattern in patterns.items() if pattern.search(text)), None)
