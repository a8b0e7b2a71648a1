"""The patterns that lie in the folders below as text, as those of conversations do."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

from jiyi.text.sections import parsed


@cache
def sections(name: str) -> dict[str, list[str]]:
    """The lines of each section of a file below this folder (``pains/cues.txt``)."""
    return parsed(files(__package__).joinpath(name).read_text(encoding="utf-8"))


@cache
def union(name: str, section: str) -> re.Pattern[str]:
    """One pattern that finds what any line of a section does, in upper or lower case."""
    return re.compile("|".join(sections(name)[section]), re.IGNORECASE)
