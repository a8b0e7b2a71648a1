"""What a text is about, in topics of everyday life: two statements of one topic may contradict each other without a common word."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from jiyi.text.sections import parsed
from jiyi.text.words import normalise

#: Characters of a text that are looked at: in a longer one a word of a topic is about one thing of many.
READ_CHARS = 2_000


@dataclass(frozen=True, slots=True)
class _Topic:
    pattern: re.Pattern[str]
    #: Topics that hide this one: what is of the dentist is of no doctor in general.
    narrower: tuple[str, ...]


def topics_of(text: str) -> frozenset[str]:
    """The topics that a text has words of (``topics.txt``): phone, rent, coffee."""
    return narrowest(all_topics_of(text))


def all_topics_of(text: str) -> frozenset[str]:
    """The same, with those that a narrower one hides."""
    normalised = _read(text)
    return frozenset(name for name, topic in _topics().items() if topic.pattern.search(normalised))


def narrowest(found: frozenset[str]) -> frozenset[str]:
    """Topics without those that a narrower one among them hides."""
    return frozenset(name for name in found if found.isdisjoint(_topics()[name].narrower))


def is_of(text: str, name: str) -> bool:
    """Whether a text has words of a topic, be they of a narrower one, too."""
    return _topics()[name].pattern.search(_read(text)) is not None


def _read(text: str) -> str:
    return normalise(text[:READ_CHARS]).replace("’", "'")


@cache
def _topics() -> dict[str, _Topic]:
    lines = {header.partition(":"): patterns for header, patterns in parsed(_TOPICS.read_text(encoding="utf-8")).items()}
    return {
        name: _Topic(
            re.compile("|".join(patterns), re.ASCII),  # so that a word ends where Chinese begins
            tuple(other for other, _, wider in lines if name in wider.split()),
        )
        for (name, _, _), patterns in lines.items()
    }


_TOPICS = files(__package__).joinpath("topics.txt")
