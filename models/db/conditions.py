"""Conditions of lists that people filter."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sqlalchemy import ColumnElement
from sqlalchemy.orm import InstrumentedAttribute

#: Characters of what is searched for, and words of it that count.
MAX_WORDS_CHARS, MAX_WORDS = 200, 20
#: Characters of a text that a list carries; an entry's own page has all of it.
MAX_LISTED_CHARS = 2_000


def equal_if_given(*wanted: tuple[InstrumentedAttribute[Any], object]) -> Iterator[ColumnElement[bool]]:
    """Each column has the value beside it; None asks for nothing."""
    for column, value in wanted:
        if value is not None:
            yield column == value


def has_words(column: InstrumentedAttribute[Any], words: str) -> Iterator[ColumnElement[bool]]:
    """Each word stands somewhere in the text, whatever its case."""
    for word in words[:MAX_WORDS_CHARS].split()[:MAX_WORDS]:
        yield column.ilike(ilike_pattern(word))


def ilike_pattern(word: str) -> str:
    """``word`` anywhere in a text, for ILIKE; its own wildcards stand for themselves."""
    for special in ("\\", "%", "_"):
        word = word.replace(special, f"\\{special}")
    return f"%{word}%"
