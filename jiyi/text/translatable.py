"""Sentences for people that are made where something is judged, and translated where they are shown.

``tools.translations`` collects ``Translatable("…")`` together with the messages of the pages.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self


class Translatable(str):
    """A sentence in English: ``pattern`` is translated, then ``values`` are put into it."""

    __slots__ = ("pattern", "values")
    pattern: str
    values: Mapping[str, object]

    def __new__(cls, pattern: str, **values: object) -> Self:
        sentence = super().__new__(cls, pattern % values if values else pattern)
        sentence.pattern, sentence.values = pattern, values
        return sentence

    def filled(self, values: Mapping[str, object]) -> Translatable:
        """The same sentence with these values. Raises ``KeyError`` for one that is missing."""
        sentence = str.__new__(Translatable, self.pattern % values)
        sentence.pattern, sentence.values = self.pattern, values
        return sentence


#: Seconds of each unit, from the largest, and how many of them are written.
_UNITS = (
    (86_400, Translatable("%(count)d d")),
    (3_600, Translatable("%(count)d h")),
    (60, Translatable("%(count)d min")),
    (1, Translatable("%(count)d s")),
)


def age(seconds: float | None) -> str:
    """``3 s``, ``5 min``, ``2 h``, ``4 d``: the largest unit that fits; a dash for what is not known."""
    if seconds is None:
        return "–"
    size, unit = next(((size, unit) for size, unit in _UNITS if seconds >= size), _UNITS[-1])
    return unit.filled({"count": seconds // size})
