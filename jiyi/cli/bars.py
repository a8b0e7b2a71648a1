"""Bars of block characters: pure functions of numbers and a width in cells."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from rich.text import Text

#: Each component has a character and a colour of its own: it reads with and without colour.
RECENCY = ("░", "yellow")
RELEVANCE = ("█", "cyan")
IMPORTANCE = ("▒", "magenta")
PARTS = {"recency": RECENCY, "relevance": RELEVANCE, "importance": IMPORTANCE}


def lengths(contributions: Sequence[float], best: float, width: int) -> list[int]:
    """Cells for each part, such that ``best`` would fill ``width``.

    The ends are rounded, not the parts: the whole bar is never off by more than half a cell.
    """
    if best <= 0 or not math.isfinite(best):
        return [0] * len(contributions)
    ends, total = [0], 0.0
    for value in contributions:
        total += max(value, 0.0)
        ends.append(min(width, math.floor(total / best * width + 0.5)))
    return [end - start for start, end in pairwise(ends)]


def stacked(recency: float, relevance: float, importance: float, *, best: float, width: int) -> Text:
    """A score's three contributions one after the other; the best score fills ``width``."""
    parts = zip(PARTS.values(), lengths((recency, relevance, importance), best, width), strict=True)
    return Text.assemble(*((character * cells, colour) for (character, colour), cells in parts))


def single(value: float, best: float, width: int) -> Text:
    """One value as a bar; whatever is more than nothing shows at least one cell."""
    (cells,) = lengths((value,), best, width)
    return Text("█" * (max(cells, 1) if value > 0 else 0), "cyan")


def legend() -> Text:
    return Text("  ").join(Text.assemble((character, colour), f" {name}") for name, (character, colour) in PARTS.items())
