"""A text is put together only as long as it may be: a small file can unfold to any size."""

from __future__ import annotations

from collections.abc import Iterable

from engine.stores.files.states import Unusable

#: Characters of one file's text: some 2,000 pages. A book in one file is better split into its chapters.
MAX_TEXT_CHARS = 10_000_000


def joined(parts: Iterable[str], separator: str = "\n") -> str:
    """The parts as one text, counted while they are made.

    Raises:
        Unusable: ``too_large`` as soon as they are more than ``MAX_TEXT_CHARS`` characters.
    """
    kept: list[str] = []
    room = MAX_TEXT_CHARS + len(separator)
    for part in parts:
        room -= len(part) + len(separator)
        if room < 0:
            raise Unusable("too_large", f"its text has more than {MAX_TEXT_CHARS:,} characters: split the file")
        kept.append(part)
    return separator.join(kept)
